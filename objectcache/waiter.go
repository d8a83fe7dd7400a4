// SPDX-License-Identifier: Apache-2.0

package objectcache

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/refwatch/refwatch/cache"
	"github.com/refwatch/refwatch/reflector"
)

const (
	// recentRefusal is the age up to which Get returns a refusal at once. While
	// Gets wait, the server is asked again every 1.1 to 1.6 s.
	recentRefusal = 2 * time.Second
	// stuckGrace is how long a Get of an object without a stream waits for a read for a
	// new owner while the read is stuck. The gate has tried to reach the server by then.
	stuckGrace = 1500 * time.Millisecond
	// giveUpCheck is how often a Get looks whether the attempt under way must be given up.
	giveUpCheck = 5 * time.Second
	// startGrace is how long a Get waits before it logs that Run has not been
	// called. A program may call Run in a goroutine that has not begun.
	startGrace = time.Second
	// eventGrace is how long a Get waits for an event that brings the version that
	// it demands, before it asks for a read.
	eventGrace = 100 * time.Millisecond
	// demandSpacing is the shortest time between two reads of an object without a stream
	// of its own that Gets demand.
	demandSpacing = 250 * time.Millisecond
	// ownerReads is how many reads for new owners of such an object may begin at once. Further
	// ones begin demandSpacing apart.
	ownerReads = 4
)

// waiter is a Get that waits.
type waiter[T cache.Object] struct {
	ctx          context.Context
	key          types.NamespacedName
	maxStaleness time.Duration // of its options; 0 is no bound but that of the store
	notOlderThan string        // the resource version that the state must include; may be empty
	live         bool          // needs a read that begins now
	try          bool          // returns instead of waiting
	uncounted    bool          // see GetOptions
	slept        bool          // it has waited
	began        time.Time
	// newestOwner and ownerAddedAt are those of entry when the waiter first saw it.
	// Owners that are added later do not make it wait longer.
	entry        *entry[T]
	newestOwner  uint64
	ownerAddedAt time.Time
	read         uint64 // the number of the read that g has asked for; 0 if it has not
}

// ended reports whether g waits no longer.
func (g *waiter[T]) ended() bool { return g.try || g.ctx.Err() != nil }

// wait is Get when the state in memory cannot be served, or g demands more of it.
func (s *WatchStore[T]) wait(g *waiter[T]) (T, error) {
	object, err := s.waitAndCheck(g)
	if g.uncounted {
		return object, err
	}
	return object, s.gets.count(g.ctx, err, g.slept, g.try)
}

func (s *WatchStore[T]) waitAndCheck(g *waiter[T]) (T, error) {
	var none T
	g.began = time.Now()
	defer s.removeWaiter(g)
	for {
		w, wake, err := s.addWaiter(g)
		if err != nil {
			return none, err
		}
		state, ok, err := s.check(g, w)
		if w != nil && (!ok || s.needsOwnerRead(w, state) && w.readFor.Load() < g.newestOwner) {
			// Again after each attempt, which uses the request up. A Get that returns the
			// previous state does not wait for the read.
			s.requestRead(g, w)
		}
		if !ok && err == nil {
			g.slept = true
			sleep(g.ctx, wake, s.checkAfter(g, w, state))
		}
		switch {
		case err != nil:
			return none, err
		case ok:
			return s.resource.result(g.key, state)
		}
	}
}

// addWaiter counts a Get that waits. It returns the watch that it waits for, nil
// before Run, and a channel that is closed when it has to check again. It starts a
// watch for an entry that is idle, and creates no entry.
func (s *WatchStore[T]) addWaiter(g *waiter[T]) (*objectWatch[T], <-chan struct{}, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entry(g.key)
	switch {
	case s.stopped:
		return nil, nil, s.resource.newError(g.key, ErrStopped)
	case e == nil:
		if err := s.resource.validateKey(g.key); err != nil {
			return nil, nil, err
		}
		if s.options.AcquireOnGet == 0 {
			return nil, nil, s.resource.newError(g.key, ErrNotRegistered)
		}
		e = s.acquireLocked(g.key)
	}
	if e != g.entry {
		if g.entry != nil {
			g.entry.waiters--
		} else {
			s.waiters++
		}
		e.waiters++
		g.entry, g.newestOwner, g.ownerAddedAt, g.read = e, e.newestOwner.Load(), e.ownerAddedAt, 0
	}
	if e.watch.Load() == nil {
		s.startLocked(e)
	}
	s.requestReadLocked(g)
	e.used.Store(s.uses)
	return e.watch.Load(), e.wakeChanLocked(), nil
}

func (s *WatchStore[T]) removeWaiter(g *waiter[T]) {
	if g.entry == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	g.entry.waiters--
	s.waiters--
	if g.entry.waiters == 0 {
		g.entry.wake = nil // nobody has it
	}
}

// check returns the state and whether g may return it, or the error that ends its
// wait. w is nil before Run.
func (s *WatchStore[T]) check(g *waiter[T], w *objectWatch[T]) (state cache.State[T], ok bool, err error) {
	ended := g.ended()
	if w == nil {
		if ended {
			err = s.resource.newError(g.key, notSynced(g.ctx, ErrNotStarted)...)
		}
		return state, false, err
	}
	// Each is loaded before the next, which is then no older.
	readDone := g.readDone(w)
	behind := readDone && g.notOlderThan != ""
	status := w.status()
	version := g.entry.versionOf(w, status)
	bound := s.stalenessBound(g, w)
	owner := min(g.newestOwner, g.entry.newestOwner.Load())
	state, ok = s.servable(w, owner, bound)
	isPrevious := s.isPrevious(w, state, bound)
	ok = ok && g.isMet(readDone, version)
	refused := graceLeft(s.options.RefusalGrace, status, g.began) == 0
	switch {
	case ok:
		return state, true, nil
	case g.demandsRead():
		if !ended && !behind && !refused {
			return state, false, nil
		}
	case isPrevious && s.untilPrevious(g.entry, owner, status, g.ownerAddedAt) == 0:
		g.entry.servePrevious(owner)
		return state, true, nil // an owner that had it may be asking
	case isPrevious && refused:
		g.entry.servePrevious(owner)
		return state, true, nil
	case isPrevious && ended: // only g cannot wait
		return state, true, nil
	case !ended && !refused:
		return state, false, nil
	}
	causes := causesOf(status)
	switch {
	case !state.Synced:
	case behind:
		causes = append([]error{g.behindError(version)}, causes...)
	case w.isStale(bound):
		causes = append([]error{ErrStale}, causes...)
	}
	if ended {
		causes = append(causes, s.resource.rateLimitError())
	}
	return state, false, s.resource.newError(g.key, notSynced(g.ctx, causes...)...)
}

// isPrevious reports whether a state is that of an earlier read, which may be served if
// the read for a new owner fails. Until changed has recorded the first read it returns
// false: the next Get would not return that state.
func (s *WatchStore[T]) isPrevious(w *objectWatch[T], state cache.State[T], bound time.Duration) bool {
	return w.contact.Load() != 0 && s.needsOwnerRead(w, state) && (s.isImmutable(state) || !w.isStale(bound))
}

// stalenessBound returns the age from which the state of w is too old for g; 0 is no
// bound. A read that g itself has asked for is not too old.
func (s *WatchStore[T]) stalenessBound(g *waiter[T], w *objectWatch[T]) time.Duration {
	bound := s.maxStaleness(g.entry)
	switch {
	case g.readDone(w):
		return 0
	case bound == 0, g.maxStaleness > 0 && g.maxStaleness < bound:
		return g.maxStaleness
	}
	return bound
}

// untilPrevious returns for how much longer Gets wait for the read for an owner, which was
// added at that time, before all owners have the previous state. 0 means no longer: the
// read has failed, or is stuck, or the server has refused reads for longer than
// RefusalGrace. After the result, and when an attempt has ended, the caller calls it again.
func (s *WatchStore[T]) untilPrevious(e *entry[T], owner uint64, status reflector.Status, addedAt time.Time) time.Duration {
	if e.previousFor.Load() >= owner || status.FailedAt.After(addedAt) {
		return 0
	}
	after := max(0, time.Until(addedAt.Add(stuckGrace)))
	if after == 0 && !isStuck(status) {
		after = stuckGrace // it may be stuck then
	}
	if left := graceLeft(s.options.RefusalGrace, status, addedAt); left >= 0 {
		after = min(after, left)
	}
	return after
}

// isStuck reports whether no Get can count on an attempt now: no reflector reaches the server,
// the server has asked to wait, or the answer to the attempt under way may be lost.
func isStuck(status reflector.Status) bool {
	return status.Away || time.Now().Before(status.RetryAfter) || status.Hung && time.Since(status.AskedAt) >= stuckGrace
}

// servePrevious records that owners have the previous state, although there was no read for
// the given one. They keep it until the next owner is added.
func (e *entry[T]) servePrevious(owner uint64) {
	for {
		before := e.previousFor.Load()
		if before >= owner || e.previousFor.CompareAndSwap(before, owner) {
			return
		}
	}
}

// graceLeft returns for how much longer a Get that began then tolerates refusals.
// Negative means for as long as its context allows: RefusalGrace is negative, or
// the server is not refusing. If the last refusal is recent, RefusalGrace counts
// from the first one, else from the beginning of the Get, once it was refused.
func graceLeft(refusalGrace time.Duration, status reflector.Status, began time.Time) time.Duration {
	const unbounded = -1
	first, last := status.RefusedSince, status.LastErrorTime
	if refusalGrace < 0 || first.IsZero() {
		return unbounded
	}
	from := first
	switch {
	case status.Away:
		if status.FailedAt.IsZero() && first.Before(began) { // this object was never asked for
			from = began
		}
	case last.Before(began):
		if began.Sub(last) > recentRefusal {
			return unbounded
		}
	case first.Before(began):
		from = began
	}
	return max(0, time.Until(from.Add(refusalGrace)))
}

// requestRead asks the reflector for a read, because g waits. It gives up an open
// stream only if g demands a read, or the reflector itself has heard nothing for
// maxStaleness: a recent contact wakes the Get in a moment.
func (s *WatchStore[T]) requestRead(g *waiter[T], w *objectWatch[T]) {
	state, status := w.slot.Load(), w.status()
	if g.try && !state.Synced && status.Failures == 0 {
		return // its first attempt is in line, and no caller waits for it
	}
	bound := s.stalenessBound(g, w)
	tooOld := bound > 0 && time.Since(status.LastContact) > bound && !s.isImmutable(state)
	readAlone := w.shared != nil && (g.read > 0 || g.maxStaleness > 0) // not with the others of the stream
	if state.Synced && !readAlone && (tooOld || g.read > 0 && !g.readDone(w)) {
		w.reflector.Refresh()
		return
	}
	w.reflector.Expedite()
}

// checkAfter returns after how long g has to check again if it is not woken.
// Negative means never.
func (s *WatchStore[T]) checkAfter(g *waiter[T], w *objectWatch[T], state cache.State[T]) time.Duration {
	if w == nil {
		return logNotStarted(&s.loggedNotStarted, s.logger, s.resource.resource, g.key, g.began)
	}
	status := w.status()
	return sooner(s.checkStateAfter(g, w, status, state), giveUpAfter(status))
}

// giveUpAfter returns after how long requestRead may have to give up an attempt that the
// server does not answer. Negative means never: the stream is open.
func giveUpAfter(status reflector.Status) time.Duration {
	switch {
	case status.Streaming:
		return -1
	case status.GiveUpAt.IsZero(): // no Get is woken when an attempt begins
		return giveUpCheck
	}
	return max(time.Until(status.GiveUpAt), eventGrace) // the end of an attempt takes a moment
}

// sooner returns the shorter one of two durations of which a negative one means never.
func sooner(a, b time.Duration) time.Duration {
	if a < 0 || b >= 0 && b < a {
		return b
	}
	return a
}

// checkStateAfter is checkAfter without the end of the attempt under way.
func (s *WatchStore[T]) checkStateAfter(g *waiter[T], w *objectWatch[T], status reflector.Status, state cache.State[T]) time.Duration {
	grace := graceLeft(s.options.RefusalGrace, status, g.began)
	if event := time.Until(g.began.Add(eventGrace)); g.notOlderThan != "" && g.read == 0 && (grace < 0 || event < grace) {
		return max(0, event)
	}
	if pause := s.readPause(g, w); pause >= 0 {
		return pause
	}
	if g.demandsRead() || !s.isPrevious(w, state, s.stalenessBound(g, w)) {
		return grace
	}
	return sooner(grace, s.untilPrevious(g.entry, min(g.newestOwner, g.entry.newestOwner.Load()), status, g.ownerAddedAt))
}

// logNotStarted logs, once for each store, that a Get that began then has waited for
// Run for startGrace. It returns how long the Get has to sleep until that. Negative
// means that it has been logged.
func logNotStarted(once *sync.Once, logger func() klog.Logger, resource schema.GroupResource, key types.NamespacedName, began time.Time) time.Duration {
	if left := time.Until(began.Add(startGrace)); left > 0 {
		return left
	}
	once.Do(func() {
		logger().Info("Get waits, but Run has not been called", "resource", resource, "object", klog.KRef(key.Namespace, key.Name))
	})
	return -1
}
