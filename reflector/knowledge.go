// SPDX-License-Identifier: Apache-2.0

package reflector

import (
	"sync"
	"time"
)

const (
	// relearnAfter is how long it is believed that a server does not do
	// WatchList: it may be upgraded under a client that lives for months.
	relearnAfter = time.Hour
	// relearnFirst is how long it is believed at first if it did not say so, but
	// ended WatchLists before the state. It is believed for twice as long each
	// time that turns out to be right, up to relearnAfter.
	relearnFirst = time.Minute
	// brokenEnough is how many WatchLists in a row must have broken where others
	// have worked: of more than one reflector, each opened after the one before
	// had broken. A connection that is cut under many is one.
	brokenEnough = 3
)

// knowledge is what is known of WatchList on a gate's server, by resource: the
// servers behind one address may differ. The zero value knows nothing.
type knowledge struct {
	mu    sync.Mutex
	kinds map[string]*watchLists
}

// watchLists is how those of one resource went.
type watchLists struct {
	works     bool          // one has brought the state
	refused   bool          // listUntil is because the server refused one
	listUntil time.Time     // WatchList does not work: do not try before
	believed  time.Duration // how long that was, the last time
	broken    int           // in a row
	brokenOf  uint64        // the reflector of the last of them
	brokenAt  time.Time
}

func (k *knowledge) ofLocked(resource string) *watchLists {
	if k.kinds[resource] == nil {
		if k.kinds == nil {
			k.kinds = map[string]*watchLists{}
		}
		k.kinds[resource] = &watchLists{}
	}
	return k.kinds[resource]
}

// usesLists tells whether a resource is to be listed and then watched, and
// whether that is what the server said, and no guess.
func (g *Gate) usesLists(resource string) (lists, certain bool) {
	g.known.mu.Lock()
	defer g.known.mu.Unlock()
	known := g.known.ofLocked(resource)
	return time.Now().Before(known.listUntil), known.refused
}

// noteWatchList records that a WatchList has brought the state.
func (g *Gate) noteWatchList(resource string) {
	g.known.mu.Lock()
	defer g.known.mu.Unlock()
	known := g.known.ofLocked(resource)
	*known = watchLists{works: true, refused: known.refused, listUntil: known.listUntil}
}

// noteNoWatchList records that the server refused a WatchList for what it is.
func (g *Gate) noteNoWatchList(resource string) {
	g.known.mu.Lock()
	defer g.known.mu.Unlock()
	*g.known.ofLocked(resource) = watchLists{refused: true, listUntil: time.Now().Add(relearnAfter), believed: relearnAfter}
}

// noteBrokenWatchList records that a WatchList of a reflector, opened then, did
// not bring the state. It returns whether the resource is to be listed now.
func (g *Gate) noteBrokenWatchList(resource string, owner uint64, opened time.Time) bool {
	g.known.mu.Lock()
	defer g.known.mu.Unlock()
	known, now := g.known.ofLocked(resource), time.Now()
	if now.Before(known.listUntil) {
		return true
	}
	if known.works && !known.enoughBroken(owner, opened, now) {
		return false
	}
	believed := min(max(2*known.believed, relearnFirst), relearnAfter)
	*known = watchLists{listUntil: now.Add(believed), believed: believed}
	return true
}

// enoughBroken counts one more that has broken.
func (w *watchLists) enoughBroken(owner uint64, opened, now time.Time) bool {
	if owner == w.brokenOf || opened.Before(w.brokenAt) {
		return false
	}
	w.broken++
	w.brokenOf, w.brokenAt = owner, now
	return w.broken >= brokenEnough
}
