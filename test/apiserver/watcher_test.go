// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

func TestWatchStart(t *testing.T) {
	s, table := newTestStore(t, 100)
	mustSwap(t, s, table, key("b"), nil, newSecret("b"))
	old := s.currentVersion()
	mustSwap(t, s, table, key("a"), nil, newSecret("a"))
	current := s.currentVersion()
	for name, test := range map[string]struct {
		from   start
		events []string // names, or "bookmark"
		err    func(error) bool
	}{
		"newest":                 {from: start{}},
		"state":                  {from: start{initial: true}, events: []string{"a", "b"}},
		"state and bookmark":     {from: start{initial: true, endBookmark: true}, events: []string{"a", "b", "bookmark"}},
		"state, current":         {from: start{initial: true, version: current}, events: []string{"a", "b"}},
		"state, future":          {from: start{initial: true, version: current + 1}, err: isTooLarge},
		"replay":                 {from: start{version: old}, events: []string{"a"}},
		"replay of nothing":      {from: start{version: current}},
		"future":                 {from: start{version: current + 5}},
		"before the history":     {from: start{version: 1}, err: apierrors.IsResourceExpired},
		"bookmark, but no state": {from: start{version: old, endBookmark: true}, events: []string{"a"}},
	} {
		t.Run(name, func(t *testing.T) {
			w, events, err := s.watch(table, all(secrets), test.from, 10)
			if test.err != nil {
				if !test.err(err) {
					t.Errorf("got unexpected error %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer s.removeWatcher(table, w)
			if len(events) != len(test.events) {
				t.Fatalf("got %d events, want %v", len(events), test.events)
			}
			for i, want := range test.events {
				if got := events[i]; got.key.Name != want && !(want == "bookmark" && got.endsInitialEvents && got.version == current) {
					t.Errorf("got event %d for %q, want %q", i, got.key.Name, want)
				}
			}
		})
	}
}

// TestWatcherAtFutureVersion checks that a watch at a future version gets no events and no bookmarks until the counter
// has reached it.
func TestWatcherAtFutureVersion(t *testing.T) {
	s, table := newTestStore(t, 100)
	future := s.currentVersion() + 2
	w, _, err := s.watch(table, all(secrets), start{version: future}, 10)
	if err != nil {
		t.Fatal(err)
	}
	defer s.removeWatcher(table, w)
	for _, test := range []struct {
		name string
		want int // events after the write and a bookmark
	}{{"a", 0}, {"b", 1 /* the bookmark at that version */}, {"c", 2}} {
		mustSwap(t, s, table, key(test.name), nil, newSecret(test.name))
		s.bookmark(w)
		if events, _ := w.take(); len(events) != test.want {
			t.Errorf("watch at %d: got %d events at version %d, want %d", future, len(events), s.currentVersion(), test.want)
		}
	}
}

func TestSlowWatcherIsEnded(t *testing.T) {
	s, table := newTestStore(t, 100)
	w, _, err := s.watch(table, all(secrets), start{}, 2)
	if err != nil {
		t.Fatal(err)
	}
	defer s.removeWatcher(table, w)
	for i, name := range []string{"a", "b", "c", "d"} {
		mustSwap(t, s, table, key(name), nil, newSecret(name)) // does not block
		w.mu.Lock()
		if ended := i >= 2; w.ended != ended || len(w.queue) > 2 {
			t.Errorf("got ended %t and %d queued after %d writes, want %t and at most 2", w.ended, len(w.queue), i+1, ended)
		}
		w.mu.Unlock()
	}
	if events, open := w.take(); open || len(events) != 0 {
		t.Errorf("got %d events and open %t, want none and false", len(events), open)
	}
}

// TestBookmarkComesLast checks that a bookmark follows all events up to its version.
func TestBookmarkComesLast(t *testing.T) {
	s, table := newTestStore(t, 100)
	w, _, err := s.watch(table, all(secrets), start{}, 10)
	if err != nil {
		t.Fatal(err)
	}
	defer s.removeWatcher(table, w)
	mustSwap(t, s, table, key("a"), nil, newSecret("a"))
	s.bookmark(w)
	select {
	case <-w.wake:
	default:
		t.Error("wake: got no token, want one")
	}
	events, open := w.take()
	if !open || len(events) != 2 || events[0].bookmark || !events[1].bookmark || events[1].version != s.currentVersion() {
		t.Errorf("got %v, %t, want the write and then a bookmark at the current version", events, open)
	}
}
