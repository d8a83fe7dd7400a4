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
	unnoticed := absent
	unnoticed.NotUpdatedSince = time.Now()
	tests := map[string]struct {
		status objectcache.Status
		want   [2]string // tone and text
	}{
		"well":                {object("well", objectcache.PhaseServing), [2]string{"good", "serving"}},
		"absent":              {absent, [2]string{"warn", "absent"}},
		"absent, not now":     {lapsed, [2]string{"warn", "nothing to serve: pending"}},
		"failing":             {object("failing", objectcache.PhaseFailing), [2]string{"bad", "nothing to serve: failing"}},
		"polled":              {polled, [2]string{"warn", "serving, polled"}},
		"not updated":         {stuck, [2]string{"warn", "serving, not updated"}},
		"absent, not updated": {unnoticed, [2]string{"warn", "absent, not updated"}},
		"syncing":             {object("syncing", objectcache.PhaseSyncing), [2]string{"busy", "nothing to serve: syncing"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			page := get(secrets(t, test.status), "").Body.String()
			pills := regexp.MustCompile(`<span class="pill (\w+)" title="[^"]+">([^<]*)<`).FindAllStringSubmatch(page, -1)
			if len(pills) != 1 || [2]string(pills[0][1:]) != test.want {
				t.Errorf("got %q, want %q", pills, test.want)
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
	if page := get(handler, "").Body.String(); !strings.Contains(page, "<dt>Next read</dt><dd>in 12m</dd>") {
		t.Error("the page does not show when the object is read again")
	} else if !strings.Contains(page, ">Immutable</dd>") {
		t.Error("the page does not show why the object has no stream")
	}
	if got := report(t, handler, "").Objects[0].NextRead; !got.Equal(next.NextRead) {
		t.Errorf("JSON: got %v, want %v", got, next.NextRead)
	}
	if page := get(secrets(t, object("tls", objectcache.PhaseServing)), "").Body.String(); strings.Contains(page, "Next read") {
		t.Error("the page shows a read of an object that has a stream")
	}
}
