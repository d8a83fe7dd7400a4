// SPDX-License-Identifier: Apache-2.0

package watchlist

import (
	"sync"
	"time"
)

const (
	// relearnAfter is how long a server counts as one that does not serve WatchList if it
	// refused one as such: it may be upgraded under a client that lives for months.
	relearnAfter = time.Hour
	// relearnFirst is how long it counts so at first, if it did not refuse WatchLists, but
	// ended them before the state, or if watches failed where lists worked. The time
	// doubles if that happens again before a WatchList has worked, up to relearnAfter.
	relearnFirst = time.Minute
	// brokenEnough is how many WatchLists in a row must break where others have
	// worked: of more than one reflector, each opened after the one before broke. A
	// lost connection breaks many WatchLists and counts as one.
	brokenEnough = 3
)

// Server remembers whether a server serves WatchList, by resource: the servers
// behind one address may differ. Its methods are safe for concurrent use. The zero
// value is ready for use.
type Server struct {
	mu        sync.Mutex
	resources map[string]*resource
	choosers  uint64 // made so far
}

// resource is what is known about the watches of one resource.
type resource struct {
	mu         sync.Mutex
	support    support
	wholeUntil time.Time // no metadata is asked for before
}

// support is what is known about the WatchLists of one resource.
type support struct {
	works     bool          // one has delivered the state
	workedAt  time.Time     // when the last one did
	failed    int           // that failed to open since then
	once      bool          // the next session lists
	unwatched bool          // listUntil is set because lists work, and watches do not
	refused   bool          // listUntil is set because the server refused one
	listUntil time.Time     // no WatchList is tried before
	listFor   time.Duration // how long that was, the last time
	broken    int           // in a row
	brokenOf  uint64        // the chooser of the last of them
	brokenAt  time.Time
}

// NewChooser returns a chooser for a selection of a resource. listOnly is set if its source
// cannot serve WatchList.
func (s *Server) NewChooser(name string, listOnly bool) Chooser {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.resources[name] == nil {
		if s.resources == nil {
			s.resources = map[string]*resource{}
		}
		s.resources[name] = &resource{}
	}
	s.choosers++
	return Chooser{resource: s.resources[name], id: s.choosers, listOnly: listOnly}
}

// needsList reports whether a resource must be listed and then watched, and whether
// the server has said so by refusing a WatchList.
func (r *resource) needsList() (list, refused bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	w := &r.support
	return time.Now().Before(w.listUntil), w.refused
}

// worked records that a WatchList delivered the state.
func (r *resource) worked() {
	r.mu.Lock()
	defer r.mu.Unlock()
	w := &r.support
	works := support{works: true, workedAt: time.Now()}
	if !w.unwatched {
		works.refused, works.listUntil = w.refused, w.listUntil
	}
	*w = works
}

// openFailed counts a WatchList that failed to open. After each fourth one since one worked,
// the next session of the resource lists.
func (r *resource) openFailed() {
	r.mu.Lock()
	defer r.mu.Unlock()
	w := &r.support
	w.failed++
	w.once = w.once || w.failed%failedEveryOfAll == 0
}

// takeListOnce reports whether the session that begins now lists because others failed.
func (r *resource) takeListOnce() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	w := &r.support
	once := w.once
	w.once = false
	return once
}

// watchFailed records that the watch failed after a list that worked. since is when the
// WatchLists of the same selection began to fail, zero if they do not. watchFailed reports
// whether watches fail where lists work: of this selection, or of the resource. They fail
// for the whole resource if no WatchList of any selection has worked since then.
func (r *resource) watchFailed(since time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	w, now := &r.support, time.Now()
	if now.Before(w.listUntil) {
		return w.unwatched || !since.IsZero()
	}
	if !since.IsZero() && !w.workedAt.After(since) {
		w.unwatched = true
		w.listLonger(now)
	}
	return !since.IsZero()
}

// watchWorked records that the watch after a list is open.
func (r *resource) watchWorked() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if w := &r.support; w.unwatched {
		w.unwatched, w.listUntil = false, time.Time{}
	}
}

// refused records that the server does not know the request.
func (r *resource) refused() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.support = support{refused: true, listUntil: time.Now().Add(relearnAfter), listFor: relearnAfter}
}

// broke records that a WatchList, opened at that time, ended before it had
// delivered the state. It reports whether the resource must be listed now.
func (r *resource) broke(c *Chooser, opened time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	w, now := &r.support, time.Now()
	if now.Before(w.listUntil) {
		return true
	}
	if w.works && !w.countBroken(c.id, opened, now) {
		return false
	}
	*w = support{listFor: w.listFor}
	w.listLonger(now)
	return true
}

// listLonger makes the resource be listed from now on, for twice as long as the last time.
func (w *support) listLonger(now time.Time) {
	w.listFor = min(max(2*w.listFor, relearnFirst), relearnAfter)
	w.listUntil = now.Add(w.listFor)
}

// countBroken counts a broken WatchList. It reports whether these are enough.
func (w *support) countBroken(chooser uint64, opened, now time.Time) bool {
	if chooser == w.brokenOf || opened.Before(w.brokenAt) {
		return false
	}
	w.broken++
	w.brokenOf, w.brokenAt = chooser, now
	return w.broken >= brokenEnough
}
