// SPDX-License-Identifier: Apache-2.0

package debug_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/refwatch/refwatch/manager/debug"
	"github.com/refwatch/refwatch/objectcache"
)

// The page and the JSON say whose they are: the program, its host, how long it has run, and the version of refwatch.
func TestProgram(t *testing.T) {
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	for title, heading := range map[string]string{"": "debug.test", "Checkout <blue>": "Checkout &lt;blue&gt;"} {
		handler := newHandler(t, debug.Options{Title: title})
		got := report(t, handler, "").Program
		if got.Title != title || got.Name != "debug.test" || got.Host != host || got.Version == "" ||
			!strings.HasPrefix(got.Package, "github.com/refwatch/refwatch/manager/debug") || time.Since(got.Started) > time.Hour {
			t.Errorf("got %+v, want the test's program", got)
		}
		page := get(handler, "").Body.String()
		for _, want := range []string{"<h1>" + heading + "</h1>", " · on " + host + " · up ", " · refwatch " + got.Version, "<title>" + heading + " · " + host + "</title>"} {
			if !strings.Contains(page, want) {
				t.Errorf("title %q: the page lacks %q", title, want)
			}
		}
	}
}

// Objects are sorted by when their state changed, and the page and the JSON have the time.
func TestChanged(t *testing.T) {
	first, second, unknown := object("first", objectcache.PhaseServing), object("second", objectcache.PhaseServing), object("unknown", objectcache.PhaseFailing)
	first.ChangedAt, second.ChangedAt = time.Now().Add(-3*time.Hour), time.Now().Add(-3*time.Minute)
	handler := secrets(t, first, second, unknown)
	for query, want := range map[string]string{"?sort=changed": "second first unknown", "?sort=-changed": "unknown first second"} {
		if got := strings.Join(names(report(t, handler, query)), " "); got != want {
			t.Errorf("%s: got %s, want %s", query, got, want)
		}
	}
	page := get(handler, "").Body.String()
	for _, want := range []string{
		`data-label="Changed"><time datetime="` + second.ChangedAt.Format(time.RFC3339) + `" title="` + second.ChangedAt.Format(time.RFC3339) + `">3m ago</time>`,
		`data-label="Changed">–<`, `href="?sort=changed">Changed</a>`, ">3h ago</time>",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %s", want)
		}
	}
}

// An object whose changes do not arrive is served: the page says so, since when, and not in red.
func TestNotUpdatedIsShown(t *testing.T) {
	stuck := object("stuck", objectcache.PhaseNotUpdated)
	stuck.NotUpdatedSince = time.Now().Add(-11 * time.Minute)
	page := get(secrets(t, stuck), "").Body.String()
	for _, want := range []string{
		">serving, not updated</span>", "<small>since " + stuck.NotUpdatedSince.Format("15:04") + " (<time", ">11m ago</time>)</small>",
		`class="warn">1 with a problem</a>`, `<summary class="warn">changes do not arrive</summary>`,
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %s", want)
		}
	}
	if strings.Contains(page, `class="bad"`) {
		t.Error("the page has something in red, want nothing while the object is served")
	}
	old := object("old", objectcache.PhaseNotUpdated)
	old.NotUpdatedSince = time.Now().Add(-72 * time.Hour)
	if page, want := get(secrets(t, old), "").Body.String(), "since "+old.NotUpdatedSince.Format("2 Jan 15:04"); !strings.Contains(page, want) {
		t.Errorf("the page lacks %s", want)
	}
}

// Each phase has words of its own on the page, and a meaning in the legend.
func TestLegend(t *testing.T) {
	for _, phase := range objectcache.Phases() {
		page := get(secrets(t, object("tls", phase)), "").Body.String()
		if strings.Contains(page, ">"+string(phase)+"</span>") || strings.Contains(page, `title=""`) {
			t.Errorf("%s: the page shows the phase without words of its own, or without a title", phase)
		}
		if legend := page[strings.Index(page, `id="legend"`):]; strings.Contains(legend, "<dt>"+string(phase)+"</dt>") {
			t.Errorf("%s: the legend has the constant, want words", phase)
		}
	}
	page := get(secrets(t), "").Body.String()
	for _, want := range []string{"<dt>Window</dt>", "<dt>Opening</dt>", "<dt>Paused</dt>", "<dt>Queued</dt>", "<dt>parked stream</dt>", "<dt>serving, not updated</dt>", "<dt>absent</dt>"} {
		if !strings.Contains(page, want) {
			t.Errorf("the legend lacks %s", want)
		}
	}
}
