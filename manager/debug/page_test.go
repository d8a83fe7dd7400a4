// SPDX-License-Identifier: Apache-2.0

package debug_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/refwatch/refwatch/manager/debug"
	"github.com/refwatch/refwatch/objectcache"
)

// Names, owners, errors, the query and the host are escaped wherever they are shown.
func TestEverythingIsEscaped(t *testing.T) {
	const attack = `"><script>alert(1)</script><img src=x onerror='alert(2)'>{{.}}` + "`${alert(3)}`</style>\x00\xff"
	hostile := object(attack, attack, attack, attack+"2", attack+"3")
	hostile.Key.Namespace, hostile.UID, hostile.ResourceVersion = attack, attack, attack
	hostile.LastError, hostile.LastErrorTime, hostile.Failures = errors.New(attack), time.Now(), 1
	hostile.Waiting = errors.New(attack)
	recovered := hostile
	recovered.Failures = 0
	handler := newHandler(t, debug.Options{
		Sources:     map[string]debug.Source{attack: noted{source{hostile, recovered}, []string{attack}}},
		Gates:       map[string]*objectcache.Gate{attack: objectcache.NewGate(objectcache.GateOptions{})},
		Connections: dialed(attack),
	})
	clean := get(newHandler(t, debug.Options{}), "").Body.String()
	for _, query := range []string{"", "?filter=" + "%22%3E%3Cscript%3Ealert(1)%3C/script%3E"} {
		page := get(handler, query).Body.String()
		for _, tag := range []string{"<script", "</script", "<img", "</style"} {
			if got, want := strings.Count(page, tag), strings.Count(clean, tag); got != want {
				t.Errorf("%q: %d times %s, want %d as without hostile names", query, got, tag, want)
			}
		}
		if !strings.Contains(page, "&lt;script&gt;alert(1)") {
			t.Errorf("%q: the page does not show the hostile names, escaped", query)
		}
	}
	if got := names(report(t, handler, "")); len(got) != 2 {
		t.Errorf("JSON: got %d objects, want 2", len(got))
	}
}

// noted is a source with notes.
type noted struct {
	source
	notes []string
}

func (n noted) Notes() []string { return n.notes }

// The notes of sources are on the page and in the JSON, whatever the query.
func TestNotesAreShown(t *testing.T) {
	handler := newHandler(t, debug.Options{Sources: map[string]debug.Source{
		"secrets": noted{notes: []string{"Nobody asks.", "Twice."}}, "configmaps": noted{}, "nodes": source{},
	}})
	page := get(handler, "?filter=x").Body.String()
	for _, want := range []string{"Note <span>secrets</span>", "Nobody asks.", "Twice."} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	want := []debug.Note{{Resource: "secrets", Text: "Nobody asks."}, {Resource: "secrets", Text: "Twice."}}
	if got := report(t, handler, "?phase=Failing").Notes; !slices.Equal(got, want) {
		t.Errorf("JSON: got the notes %v, want %v", got, want)
	}
}

// The page shows the first 500 objects and says how many there are. The JSON has all.
func TestTenThousandObjects(t *testing.T) {
	handler := secrets(t, tenThousand()...)
	page := get(handler, "").Body.String()
	if got := strings.Count(page, `<tr id="o-`); got != 500 {
		t.Errorf("rows: got %d, want 500", got)
	}
	if want := "The first 500 of 10000 objects."; !strings.Contains(page, want) {
		t.Errorf("the page lacks %q", want)
	}
	if len(page) > 1<<20 {
		t.Errorf("page: got %d bytes, want at most 1 MiB", len(page))
	}
	if first := strings.Index(page, "cannot read secret-9999"); first < 0 || first > strings.Index(page, "secret-0000") {
		t.Error("the page does not show the object that fails first")
	}
	if got := len(report(t, handler, "").Objects); got != 10_000 {
		t.Errorf("objects in the JSON: got %d, want 10000", got)
	}
	for query, want := range map[string]string{
		"?filter=secret-12": "100 of 10000 objects",
		"?filter=nothing":   "No object matches.",
	} {
		if page := get(handler, query).Body.String(); !strings.Contains(page, want) {
			t.Errorf("%s: the page lacks %q", query, want)
		}
	}
}

// tenThousand returns the status of 10,000 objects, of which the last one fails.
func tenThousand() []objectcache.Status {
	var all []objectcache.Status
	for i := range 9_999 {
		all = append(all, object(fmt.Sprintf("secret-%04d", i), objectcache.PhaseServing, types.UID(fmt.Sprint("pod-", i))))
	}
	return append(all, object("secret-9999", objectcache.PhaseFailing))
}

// An object with many owners and a long error makes the page only a little longer.
func TestLongTextIsCut(t *testing.T) {
	long := object("long", objectcache.PhaseFailing)
	for i := range 1000 {
		long.Owners = append(long.Owners, types.UID(fmt.Sprintf("owner-%04d", i)))
	}
	long.LastError = errors.New(strings.Repeat("é", 100_000))
	handler := secrets(t, long)
	page := get(handler, "").Body.String()
	for _, want := range []string{"1000 owners", "980 more in the JSON", "é… (the JSON has all of it)"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if len(page) > 50_000 {
		t.Errorf("page: got %d bytes, want at most 50,000", len(page))
	}
	if got := report(t, handler, "").Objects[0]; len(got.Owners) != 1000 || len(got.LastError) != 200_000 {
		t.Errorf("JSON: got %d owners and %d bytes of error, want all", len(got.Owners), len(got.LastError))
	}
}

// The page and the JSON show which streams are parked.
func TestParkedStreamsAreShown(t *testing.T) {
	parked := object("parked", objectcache.PhaseServing)
	parked.Parked = true
	handler := secrets(t, parked, object("read", objectcache.PhaseServing))
	page := get(handler, "").Body.String()
	if got := [2]int{strings.Count(page, ">stream</dd>"), strings.Count(page, ">parked stream</dd>")}; got != [2]int{1, 1} {
		t.Errorf("page: got %d streams and %d parked ones, want one of each", got[0], got[1])
	}
	for _, got := range report(t, handler, "").Objects {
		if got.Parked != (got.Name == "parked") {
			t.Errorf("JSON of %s: got parked %t", got.Name, got.Parked)
		}
	}
}

func TestEmptyPage(t *testing.T) {
	page := get(newHandler(t, debug.Options{}), "").Body.String()
	if want := "No owner references an object."; !strings.Contains(page, want) {
		t.Errorf("the page lacks %q", want)
	}
	body := get(newHandler(t, debug.Options{}), "?format=json").Body.String()
	for _, want := range []string{`"objects":[]`, `"gates":[]`, `"connections":[]`} {
		if !strings.Contains(body, want) {
			t.Errorf("JSON: got %s, want %s", body, want)
		}
	}
}

// A request without an answer is shown after a second.
func TestSilenceIsShown(t *testing.T) {
	for asked, want := range map[time.Duration]string{500 * time.Millisecond: "", 12 * time.Second: "no answer for 12s"} {
		synctest.Test(t, func(t *testing.T) {
			status := object("tls", objectcache.PhaseSyncing, "owner")
			status.Synced, status.Exists, status.AskedAt = false, false, time.Now().Add(-asked)
			text := get(secrets(t, status), "").Body.String()
			if got := strings.Contains(text, "no answer for"); got != (want != "") || !strings.Contains(text, want) {
				t.Errorf("asked %v ago: got a note %v, want %q", asked, got, want)
			}
		})
	}
}

func BenchmarkTenThousandObjects(b *testing.B) {
	handler := secrets(b, tenThousand()...)
	for name, query := range map[string]string{"page": "", "filter": "?filter=secret-12", "JSON": "?format=json"} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				response := get(handler, query)
				if response.Code != http.StatusOK {
					b.Fatal(response.Code)
				}
				b.ReportMetric(float64(response.Body.Len()), "bytes")
			}
		})
	}
}
