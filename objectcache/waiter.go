// SPDX-License-Identifier: Apache-2.0

package objectcache

import (
	"context"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/refwatch/refwatch/cache"
	"github.com/refwatch/refwatch/internal/reflector"
	"github.com/refwatch/refwatch/internal/states"
	"github.com/refwatch/refwatch/objectcache/internal/engine"
)

const (
	// giveUpCheck is how often a Get looks whether the attempt under way must be given up.
	giveUpCheck = 5 * time.Second
	// startGrace is how long a Get waits before it logs that Run has not been
	// called. A program may call Run in a goroutine that has not begun.
	startGrace = time.Second
	// eventGrace is how long a Get waits for an event that brings the version that
	// it demands, before it asks for a read.
	eventGrace = 100 * time.Millisecond
	// ownerReads is how many reads for new owners of such an object may begin at once. Further
	// ones begin engine.DemandSpacing apart.
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
	noAcquire    bool          // see GetOptions
	uncounted    bool          // see GetOptions
	absence      error         // why the object is absent for good; nil if that is not known without a request
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
	if e := s.entry(g.key); e == nil || e.isAbsent() {
		g.absence = s.resource.CheckKey(g.key) // calls a function of the program, without mu
	}
	g.began = time.Now()
	defer s.removeWaiter(g)
	for {
		result, err := s.check(g)
		w := result.watch
		switch {
		case err != nil:
			return none, err
		case w == nil && g.ended():
			return none, s.resource.Error(g.key, notSynced(g.ctx, ErrNotStarted)...)
		case w == nil:
			g.slept = true
			sleep(g.ctx, result.wake, logNotStarted(&s.loggedNotStarted, s.logger, s.resource.resource, g.key, g.began))
			continue
		}
		if f := &result.facts; !result.verdict.Serves() || engine.NeedsOwnerRead(f.Synced, f.Live, f.Immutable) && f.ReadFor < g.newestOwner {
			// Again after each attempt, which uses the request up. A Get that returns the
			// previous state does not wait for the read.
			s.requestRead(g, &result)
		}
		switch result.verdict {
		case engine.Fail:
			return none, s.failure(g, &result)
		case engine.Wait:
			g.slept = true
			again := s.hedgeFor(g, w, &result.facts)
			sleep(g.ctx, result.wake, engine.Sooner(again, s.checkAfter(g, &result)))
		default:
			return s.resource.result(g.key, result.state)
		}
	}
}

// checkResult is what a Get that waits has found out.
type checkResult[T cache.Object] struct {
	watch   *objectWatch[T] // nil before Run
	wake    <-chan struct{} // closed when the Get has to check again
	state   states.State[T]
	facts   engine.Facts
	demand  engine.Demand
	verdict engine.Verdict
	after   time.Duration // for Wait: see engine.Demand.Answer
}

// check counts a Get that waits, and decides what becomes of it now.
func (s *WatchStore[T]) check(g *waiter[T]) (t checkResult[T], err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.addWaiterLocked(g); err != nil {
		return t, err
	}
	e := g.entry
	t.watch, t.wake = e.watch.Load(), e.wakeChanLocked()
	if t.watch == nil {
		return t, nil
	}
	t.demand = s.demandLocked(g)
	t.facts, t.state = s.factsLocked(e, t.watch)
	t.verdict, t.after = t.demand.Answer(&t.facts, s.options.RefusalGrace, time.Now())
	switch {
	case t.verdict == engine.ServeAll:
		s.keepPreviousLocked(t.watch, t.demand.Owner)
	case t.verdict == engine.Wait && !t.facts.Synced && !g.uncounted: // not WaitForSync
		left := engine.OutageLeft(s.options.OutageGrace, &t.facts.Attempts, g.began, time.Now())
		switch t.after = engine.Sooner(t.after, left); {
		case left == 0:
			t.verdict = engine.Fail
		case left < 0 && !t.facts.Attempts.AskedAt.IsZero(): // an outage that begins meanwhile wakes nobody
			t.after = engine.Sooner(t.after, s.options.OutageGrace)
		}
	}
	return t, nil
}

// keepPreviousLocked makes the previous state that of all owners until the next one is added.
func (s *WatchStore[T]) keepPreviousLocked(w *objectWatch[T], owner uint64) {
	w.entry.previousFor = max(w.entry.previousFor, owner)
	if s.ttl != nil {
		s.prolongLocked(w)
	}
}

// addWaiterLocked counts a Get that waits. It starts a watch for an entry that is idle, and
// creates no entry.
func (s *WatchStore[T]) addWaiterLocked(g *waiter[T]) error {
	e := s.entry(g.key)
	switch {
	case s.hasStoppedLocked():
		return s.stoppedErrorLocked(g)
	case g.absence != nil:
		return g.absence
	case e == nil:
		if s.options.AcquireOnGet <= 0 || g.noAcquire {
			return s.resource.Error(g.key, ErrNotRegistered)
		}
		e = s.acquireLocked(g.key)
	}
	if e != g.entry {
		if g.entry != nil {
			g.entry.waiters.Add(-1)
		} else {
			s.waiters++
		}
		e.waiters.Add(1)
		g.entry, g.newestOwner, g.ownerAddedAt, g.read = e, e.newestOwner, s.base.Add(e.ownerAddedAt), 0
	}
	s.requestReadLocked(g)
	if e.watch.Load() == nil {
		s.startLocked(e)
	}
	e.used.Store(s.uses)
	return nil
}

func (s *WatchStore[T]) removeWaiter(g *waiter[T]) {
	if g.entry == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiters--
	if g.entry.waiters.Add(-1) == 0 {
		g.entry.wake = nil // nobody has it
	}
}

// demandLocked returns what g demands. Owners that are gone need no read.
func (s *WatchStore[T]) demandLocked(g *waiter[T]) engine.Demand {
	w := g.entry.watch.Load()
	bound := s.options.MaxStaleness
	if bound <= 0 || g.maxStaleness > 0 && g.maxStaleness < bound {
		bound = g.maxStaleness
	}
	return engine.Demand{
		Began: g.began, Owner: min(g.newestOwner, g.entry.newestOwner), OwnerAddedAt: g.ownerAddedAt,
		NotBefore: notBefore(g.began, bound), NotOlderThan: g.notOlderThan, Live: g.live, Read: g.read, Ended: g.ended(),
		Lapsed: s.hasLapsed(w),
	}
}

// factsLocked returns what is known of an entry with a watch.
func (s *WatchStore[T]) factsLocked(e *entry[T], w *objectWatch[T]) (engine.Facts, states.State[T]) {
	state, attempts := e.state(), w.status()
	return engine.Facts{
		ReadFor: e.readFor, PreviousFor: e.previousFor, Attempts: attempts, Version: w.versionLocked(attempts),
		Contact: s.contact(e), Noticed: e.noticed, Live: e.live, Synced: state.Synced, Exists: state.Exists,
		Immutable: e.immutable, ByGet: w.byGet,
	}, state
}

// failure returns the error with which g ends.
func (s *WatchStore[T]) failure(g *waiter[T], t *checkResult[T]) error {
	causes := causesOf(t.facts.Attempts)
	switch {
	case !t.facts.Synced:
	case t.demand.IsBehind(&t.facts):
		causes = append([]error{&StaleError{t.facts.Version, g.notOlderThan}}, causes...)
	case t.facts.IsStale(&t.demand):
		causes = append([]error{ErrStale}, causes...)
	}
	if t.demand.Ended {
		causes = append(causes, s.resource.RateLimit())
	}
	return s.resource.Error(g.key, notSynced(g.ctx, causes...)...)
}

// requestRead asks the reflector for a read, because g waits. It gives up an open
// stream only if g demands a read, or the reflector itself has heard nothing since
// NotBefore: a later contact wakes the Get in a moment.
func (s *WatchStore[T]) requestRead(g *waiter[T], t *checkResult[T]) {
	if g.try && !t.facts.Synced && t.facts.Attempts.Failures == 0 {
		return // its first attempt is in line, and no caller waits for it
	}
	if g.wantsRead(t) {
		t.watch.reflector.Refresh()
		return
	}
	t.watch.reflector.Expedite()
}

// wantsRead reports whether an open stream does not give g what it waits for.
func (g *waiter[T]) wantsRead(t *checkResult[T]) bool {
	tooOld := t.facts.Attempts.LastContact.Before(t.demand.NotBefore) && !t.facts.Immutable
	return t.facts.Synced && (tooOld || g.read > 0 && !t.demand.ReadDone(&t.facts))
}

// checkAfter returns after how long g has to check again if it is not woken, which is after
// a duration at the latest. Negative means never.
func (s *WatchStore[T]) checkAfter(g *waiter[T], t *checkResult[T]) time.Duration {
	after := t.after
	if g.notOlderThan != "" && g.read == 0 {
		after = engine.Sooner(after, max(0, time.Until(g.began.Add(eventGrace))))
	}
	after = engine.Sooner(after, s.readPause(g, t.watch))
	return engine.Sooner(after, giveUpAfter(t.watch.status(), g.wantsRead(t)))
}

// giveUpAfter returns after how long requestRead may have to give up an attempt that the
// server does not answer. Negative means never: the stream is open, and no read is about to
// take its place.
func giveUpAfter(status reflector.Status, wantsRead bool) time.Duration {
	switch {
	case status.Streaming && !wantsRead:
		return -1
	case status.GiveUpAt.IsZero(): // no Get is woken when an attempt begins
		return giveUpCheck
	}
	return max(time.Until(status.GiveUpAt), eventGrace) // the end of an attempt takes a moment
}

// logNotStarted logs, once for each store, that a Get that began then has waited for
// Run for startGrace. It returns how long the Get has to sleep until that. Negative
// means that it has been logged.
func logNotStarted(logged *atomic.Bool, logger func() klog.Logger, resource schema.GroupResource, key types.NamespacedName, began time.Time) time.Duration {
	if left := time.Until(began.Add(startGrace)); left > 0 {
		return left
	}
	if logged.CompareAndSwap(false, true) {
		logger().Info("Get waits, but Run has not been called", "resource", resource, "object", klog.KRef(key.Namespace, key.Name))
	}
	return -1
}

// waker wakes the Gets that wait for one object. It is guarded by the mu of the store.
// The zero value is ready for use.
type waker struct {
	wake chan struct{} // nil if no Get has asked for it since the last wake
}

// wakeChanLocked returns a channel that is closed when a Get has to check again.
func (w *waker) wakeChanLocked() <-chan struct{} {
	if w.wake == nil {
		w.wake = make(chan struct{})
	}
	return w.wake
}

// wakeLocked makes every Get that waits check again.
func (w *waker) wakeLocked() {
	if w.wake != nil {
		close(w.wake)
		w.wake = nil
	}
}

// sleep waits for wake, for the end of ctx, and for limit unless it is negative.
func sleep(ctx context.Context, wake <-chan struct{}, limit time.Duration) {
	var expired <-chan time.Time
	if limit >= 0 {
		timer := time.NewTimer(limit)
		defer timer.Stop()
		expired = timer.C
	}
	select {
	case <-wake:
	case <-ctx.Done():
	case <-expired:
	}
}
