// SPDX-License-Identifier: Apache-2.0

package watchlist_test

import (
	"io"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/refwatch/refwatch/internal/reflector/internal/failure"
	"github.com/refwatch/refwatch/internal/reflector/internal/watchlist"
)

// usesList reports whether a new selection of the resource uses a list.
func usesList(server *watchlist.Server, resource string) bool {
	c := server.NewChooser(resource, false)
	return c.NextUsesList()
}

// A server remembers for an hour, by resource, that it refuses WatchList.
func TestServerRemembersRefusals(t *testing.T) {
	tests := map[string]struct {
		resource string
		wait     time.Duration
		want     bool
	}{
		"at once":              {"secrets", 0, true},
		"within the hour":      {"secrets", 59 * time.Minute, true},
		"after an hour":        {"secrets", 61 * time.Minute, false},
		"of another resource":  {"configmaps", 0, false},
		"of an empty resource": {"", 0, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var server, another watchlist.Server
				c := server.NewChooser("secrets", false)
				openFailed(t, &c, answer(422))
				time.Sleep(test.wait)
				if got := usesList(&server, test.resource); got != test.want {
					t.Errorf("uses a list: got %v, want %v", got, test.want)
				}
				if usesList(&another, "secrets") {
					t.Error("another server uses a list")
				}
			})
		})
	}
}

// Where no WatchList has worked, one that ends early makes the server count as one
// that does not serve WatchList: for a minute, and twice as long each time, up to an
// hour.
func TestServerTriesBrokenWatchListsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var server watchlist.Server
		c := server.NewChooser("secrets", false)
		var got []float64
		for range 9 {
			_ = endedEarly(t, &c, io.EOF)
			began := time.Now()
			for usesList(&server, "secrets") {
				time.Sleep(time.Minute)
			}
			got = append(got, time.Since(began).Minutes())
		}
		if want := []float64{1, 2, 4, 8, 16, 32, 60, 60, 60}; !slices.Equal(got, want) {
			t.Errorf("minutes of lists: got %v, want %v", got, want)
		}
	})
}

// Where WatchLists have worked, it takes three in a row that break: of more than one
// selection, and each opened after the one before broke.
func TestServerCountsBrokenWatchLists(t *testing.T) {
	type breaks struct {
		of     int           // a selection
		opened time.Duration // before it broke
		works  bool          // it works instead
	}
	tests := map[string]struct {
		breaks []breaks
		want   bool // all selections use lists
	}{
		"two":                    {[]breaks{{of: 0}, {of: 1}}, false},
		"three":                  {[]breaks{{of: 0}, {of: 1}, {of: 2}}, true},
		"of two selections":      {[]breaks{{of: 0}, {of: 1}, {of: 0}}, true},
		"of one selection":       {[]breaks{{of: 0}, {of: 0}, {of: 0}, {of: 0}}, false},
		"opened at one time":     {[]breaks{{0, time.Hour, false}, {1, time.Hour, false}, {2, time.Hour, false}, {3, time.Hour, false}}, false},
		"one works in between":   {[]breaks{{of: 0}, {of: 1}, {of: 2, works: true}, {of: 3}, {of: 0}}, false},
		"one works before three": {[]breaks{{of: 0}, {of: 1, works: true}, {of: 2}, {of: 3}, {of: 0}}, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var server watchlist.Server
				first := server.NewChooser("secrets", false)
				first.Synced(false, time.Second)
				choosers := make([]watchlist.Chooser, 4)
				for i := range choosers {
					choosers[i] = server.NewChooser("secrets", false)
				}
				for _, b := range test.breaks {
					time.Sleep(time.Second)
					if c := &choosers[b.of]; b.works {
						c.Synced(false, time.Second)
					} else {
						_ = c.EndedEarly(t.Context(), unnamed{}, io.EOF, time.Now().Add(-b.opened))
					}
				}
				if got := usesList(&server, "secrets"); got != test.want {
					t.Errorf("uses a list: got %v, want %v", got, test.want)
				}
			})
		})
	}
}

// Where WatchLists work for others, a selection uses a list after its second one
// broke, or at once if the initial events did not end; after a list it tries a
// WatchList again.
func TestBrokenWatchListsOfOneSelection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var server watchlist.Server
		first, c := server.NewChooser("secrets", false), server.NewChooser("secrets", false)
		first.Synced(false, time.Second)
		_ = endedEarly(t, &c, io.EOF)
		if c.NextUsesList() {
			t.Error("after the first: got a list")
		}
		_ = endedEarly(t, &c, io.EOF)
		if !c.NextUsesList() || c.NextUsesList() {
			t.Error("after the second: got no list, or more than one")
		}
		c.Synced(false, time.Second)
		c.Broke(t.Context(), unnamed{}, failure.ErrNoBookmark, time.Now())
		if !c.NextUsesList() {
			t.Error("without a bookmark: got no list")
		}
		if usesList(&server, "secrets") {
			t.Error("another selection uses a list")
		}
	})
}

// A missing bookmark is remembered and forgotten as other broken WatchLists are.
func TestServerForgetsMissingBookmarks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var server watchlist.Server
		c := server.NewChooser("secrets", false)
		c.Broke(t.Context(), unnamed{}, failure.ErrNoBookmark, time.Now())
		if !usesList(&server, "secrets") {
			t.Error("at once: got a WatchList")
		}
		time.Sleep(61 * time.Minute)
		if usesList(&server, "secrets") {
			t.Error("after an hour: got a list")
		}
	})
}

// unnamed is the selection of a chooser.
type unnamed struct{}

func (unnamed) String() string { return "" }
