// SPDX-License-Identifier: Apache-2.0

package debug_test

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/refwatch/refwatch/objectcache"
)

// The look of an object is that of its phase and its problem: one that is absent, not updated or
// polled has no green mark.
func TestLookOfAPhase(t *testing.T) {
	absent := object("absent", objectcache.PhaseAbsent)
	absent.Exists = false
	lapsed := object("lapsed", objectcache.PhasePending)
	lapsed.Exists = false
	polled := object("polled", objectcache.PhaseServing)
	polled.Failures, polled.Stream = 2, objectcache.StreamPolled
	stuck := object("stuck", objectcache.PhaseNotUpdated)
	stuck.NotUpdatedSince = time.Now()
	tests := map[string]struct {
		status objectcache.Status
		want   string
	}{
		"well":            {object("well", objectcache.PhaseServing), `<span class="pill good">Serving</span>`},
		"absent":          {absent, `<span class="pill warn">Absent</span>`},
		"absent, not now": {lapsed, `<span class="pill warn">Absent</span> <small>Pending</small>`},
		"failing":         {object("failing", objectcache.PhaseFailing), `<span class="pill bad">Failing</span>`},
		"polled":          {polled, `<span class="pill warn">Polled</span> <small>Serving</small>`},
		"not updated":     {stuck, `<span class="pill warn">NotUpdated</span>`},
		"syncing":         {object("syncing", objectcache.PhaseSyncing), `<span class="pill busy">Syncing</span>`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			page := get(secrets(t, test.status), "").Body.String()
			if pills := regexp.MustCompile(`<span class="pill.*`).FindAllString(page, -1); len(pills) != 1 || !strings.Contains(pills[0], test.want) {
				t.Errorf("got %q, want %s", pills, test.want)
			}
		})
	}
}

// The page and the JSON show when an object without a stream is read again.
func TestNextReadIsShown(t *testing.T) {
	next := object("tls", objectcache.PhaseServing)
	next.Stream, next.Reason = objectcache.StreamNone, objectcache.ReasonImmutable
	next.NextRead = time.Now().Add(12*time.Minute + 30*time.Second)
	handler := secrets(t, next)
	if page := get(handler, "").Body.String(); !strings.Contains(page, "<small>next read in 12m</small>") {
		t.Error("the page does not show when the object is read again")
	} else if !strings.Contains(page, "<small>Immutable</small>") {
		t.Error("the page does not show why the object has no stream")
	}
	if got := report(t, handler, "").Objects[0].NextRead; !got.Equal(next.NextRead) {
		t.Errorf("JSON: got %v, want %v", got, next.NextRead)
	}
	if page := get(secrets(t, object("tls", objectcache.PhaseServing)), "").Body.String(); strings.Contains(page, "next read") {
		t.Error("the page shows a read of an object that has a stream")
	}
}
