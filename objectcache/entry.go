// SPDX-License-Identifier: Apache-2.0

package objectcache

import (
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/refwatch/refwatch/cache"
	"github.com/refwatch/refwatch/internal/slept"
	"github.com/refwatch/refwatch/internal/states"
	"github.com/refwatch/refwatch/objectcache/internal/engine"
)

// entry is a referenced object, from its first reference to its last. All fields
// without a note are guarded by WatchStore.mu.
type entry[T cache.Object] struct {
	waker

	key     types.NamespacedName
	number  uint64                         // differs from that of other entries of the key
	view    atomic.Pointer[view[T]]        // nil while nothing is known. Written with WatchStore.mu held
	watch   atomic.Pointer[objectWatch[T]] // nil before Run, when idle, and when stopped. Written with WatchStore.mu held
	used    atomic.Uint32                  // uses: which timers have not fired since the last use
	waiters atomic.Int32                   // Gets that wait. Written with WatchStore.mu held
	// contact is when the server last sent something, see WatchStore.nowAged; 0
	// for never. It is written after the state: see WatchStore.contact.
	contact atomic.Int64

	order     states.Order[T] // of what its watch has brought
	absent    engine.Reason   // why the object is absent for good, and has no watch; NeedsStream for others
	immutable bool            // the state can never change, and needs no stream
	// live is set while a new owner needs no read of its own: a stream brings the changes of
	// the state.
	live    bool
	noticed bool // a read has been recorded
	synced  bool // its state has been known, also if it is not known now
	// readFor is the highest number of a read that was asked for before the consistent read
	// of the state began: see engine.Owners.
	readFor uint64
	// newestOwner is the number of the newest read for an owner that a Get must have. If an
	// object that needs no stream has no such read, it is read again.
	newestOwner uint64
	// previousFor is the newest owner without whose read all owners have the previous
	// state.
	previousFor uint64

	owners engine.Owners
	// Since WatchStore.base.
	ownerAddedAt time.Duration // when the last owner was added
	startedAt    time.Duration // just before its watch began
	changedAt    time.Duration // when the last known state came, see WatchStore.nowAged
	readBegan    time.Duration // when the last read began that startReadLocked started
	readsUntil   time.Duration // when the reads for owners will have been engine.DemandSpacing apart

	started *timers // nil if there was none
}

// timers are those of an object.
type timers struct {
	idle  *timer // nil without an IdleTimeout
	read  *timer // of the next read of an object without a stream; may be nil
	lease *timer // nil unless a Get has acquired the object
}

// timersLocked returns those that were started, and may have ended.
func (e *entry[T]) timersLocked() timers {
	if e.started == nil {
		return timers{}
	}
	return *e.started
}

// startableLocked returns the timers, to start one of them.
func (e *entry[T]) startableLocked() *timers {
	if e.started == nil {
		e.started = &timers{}
	}
	return e.started
}

// entry returns the entry of a key, nil if no owner references it.
func (s *WatchStore[T]) entry(key types.NamespacedName) *entry[T] {
	return s.entries.load(key)
}

// newestOwnerLocked returns the number of the read for the newest owner that is not gone. It
// looks through the owners only if there was no read for the newest of all. It updates
// newestOwner: to see whether an owner that is gone was the newest, load that before.
func (e *entry[T]) newestOwnerLocked() uint64 {
	if e.readFor < e.newestOwner {
		e.newestOwner = e.owners.Newest()
	}
	return e.newestOwner
}

// needsOwnerReadLocked reports whether the state may be served to a new owner only if it was read
// for that owner.
func (e *entry[T]) needsOwnerReadLocked() bool {
	return engine.NeedsOwnerRead(e.state().Synced, e.live, e.immutable)
}

// forgetLocked drops what is known of the object, which nothing else keeps in memory. What is
// known next is of another epoch.
func (e *entry[T]) forgetLocked() {
	e.order.NewEpoch()
	e.view.Store(nil)
	e.contact.Store(0)
	e.immutable, e.live, e.noticed, e.readFor = false, false, false, 0
	e.changedAt = 0
}

// view is what a Get needs to know of an object. It never changes: a newer one replaces it.
type view[T cache.Object] struct {
	state states.State[T]
	ready bool // Get may return the state to all owners without a lock, unless it has lapsed: see TTLStore
	fixed bool // the object is absent for good: see entry.isAbsent
}

// state returns the last known state of an entry, the zero State if none is known.
func (e *entry[T]) state() (state states.State[T]) {
	if v := e.view.Load(); v != nil {
		state = v.state
	}
	return state
}

// ready returns the view of a key whose state a Get may return without a lock, and records that
// the Get has used the entry. It returns nil if there is none.
func (s *WatchStore[T]) ready(key types.NamespacedName) *view[T] {
	e := s.entry(key)
	if e == nil {
		return nil
	}
	v := s.viewOf(e)
	if v != nil {
		s.markUsed(e)
	}
	return v
}

// viewOf returns the view of an entry if a Get may return its state without a lock, else nil.
func (s *WatchStore[T]) viewOf(e *entry[T]) *view[T] {
	lapsed := s.hasLapsed(e.watch.Load())
	v := e.view.Load() // no older than what has not lapsed
	if v == nil || !v.ready || lapsed && !v.fixed {
		return nil
	}
	return v
}

// hasLapsed reports whether the TTL of the state of a watch is over. Without a TTL none ever is.
func (s *WatchStore[T]) hasLapsed(w *objectWatch[T]) bool {
	return s.ttl != nil && (w == nil || s.nowAged() >= w.until.Load())
}

// setStateLocked makes a state the last known one of an entry.
func (s *WatchStore[T]) setStateLocked(e *entry[T], state states.State[T]) {
	e.immutable = s.isImmutable(state)
	e.changedAt = max(1, time.Duration(s.nowAged()))
	e.view.Store(&view[T]{state, s.isReadyLocked(e, state.Synced), e.isAbsent()})
}

// isImmutable reports whether a state can never change, and so needs no stream.
func (s *WatchStore[T]) isImmutable(state states.State[T]) bool {
	return s.unwatchImmutable && state.Exists && state.Synced && s.resource.Immutable(state.Object)
}

// publishLocked publishes what has changed of an entry, but for its state.
func (s *WatchStore[T]) publishLocked(e *entry[T]) {
	v := e.view.Load()
	if v == nil {
		return
	}
	if ready := s.isReadyLocked(e, v.state.Synced); ready != v.ready {
		e.view.Store(&view[T]{v.state, ready, v.fixed})
	}
}

// isReadyLocked returns the flag of a view of an entry: see view. A state that may be too old for a Get is not ready:
// the Get takes the lock and asks how old it is.
func (s *WatchStore[T]) isReadyLocked(e *entry[T], synced bool) bool {
	if e.isAbsent() {
		return synced
	}
	readFor := e.readFor
	if s.ttl != nil {
		readFor = max(readFor, e.previousFor) // a state that lapses
	} else if s.options.MaxStaleness > 0 && !e.immutable {
		return false
	}
	return synced && engine.Servable(readFor, e.newestOwnerLocked(), e.live, e.immutable, false)
}

// contact returns when the server last sent something about an object, zero if it never did.
// A state that is loaded after the call may be younger.
func (s *WatchStore[T]) contact(e *entry[T]) time.Time {
	return s.timeOf(time.Duration(e.contact.Load()))
}

// timeOf returns the time of a duration since WatchStore.base by the clock of ages, zero for 0.
func (s *WatchStore[T]) timeOf(since time.Duration) (at time.Time) {
	if since > 0 {
		at = slept.Time(since + s.sinceOrigin)
	}
	return at
}

// raise sets a contact to a later one.
func raise(contact *atomic.Int64, at int64) {
	for now := contact.Load(); at > now && !contact.CompareAndSwap(now, at); {
		now = contact.Load()
	}
}

// now returns the time since WatchStore.base by the clock of pauses, which stands still while the machine is suspended.
func (s *WatchStore[T]) now() time.Duration { return time.Since(s.base) }

// nowAged returns the time since WatchStore.base by the clock of ages, which counts the time for which the machine is
// suspended. entry.contact and objectWatch.until are by this clock.
func (s *WatchStore[T]) nowAged() int64 {
	now := s.now()
	return int64(now + slept.Total(now+s.sinceOrigin))
}

// sinceBase returns a time by the clock of ages. time.Since of at is its age: see slept.Time.
func (s *WatchStore[T]) sinceBase(at time.Time) int64 {
	return int64(at.Sub(s.base) + slept.Total(s.now()+s.sinceOrigin))
}

// notBefore returns the earliest contact that a bound on the age allows at a time; zero without a bound.
func notBefore(at time.Time, bound time.Duration) (limit time.Time) {
	if bound > 0 {
		limit = at.Add(-bound)
	}
	return limit
}
