// SPDX-License-Identifier: Apache-2.0

package objectcache

import (
	"math/rand/v2"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/refwatch/refwatch/cache"
)

// defaultImmutableRecheck is the shortest time after which an immutable object
// is read again, though no owner has come.
const defaultImmutableRecheck = 10 * time.Minute

// entry is a referenced object. It lives from its first reference to its last.
// Fields without a note are guarded by WatchStore.mu.
type entry[T cache.Object] struct {
	key    types.NamespacedName
	number uint64                 // tells it from an entry of the same key before or after
	epoch  uint64                 // in which the next run begins, if there is none before it
	run    atomic.Pointer[run[T]] // nil: before Run, idle, or stopped. Written with WatchStore.mu held
	used   atomic.Bool            // asked for since the idle timer last looked
	owners owners
	// newest is the number of the newest owner that a Get must honour, and
	// arrivedAt when it came. A run whose state covers no owner so new has to read
	// again, if the object is immutable. Written with WatchStore.mu held.
	newest    atomic.Uint64
	arrivedAt time.Time

	idle    *alarm // nil without an IdleTimeout
	recheck *alarm // nil unless the run is, or was, settled

	waiting int           // Gets that wait
	wake    chan struct{} // made by the first that waits, closed when they should look again
}

// addOwnerLocked counts a reference. A new owner may be about an object that was
// created in place of the one there was. Of most the stream will say so, if only
// it is not resumed at a server that lags: the next read is a consistent one. An
// immutable object is not watched any more, so it is read again now.
func (w *WatchStore[T]) addOwnerLocked(e *entry[T], uid types.UID) {
	if !e.owners.add(uid) {
		return
	}
	e.used.Store(true)
	e.newest.Store(e.owners.arrived)
	e.arrivedAt = time.Now()
	switch r := e.run.Load(); {
	case r == nil:
	case r.settled:
		w.startLocked(e)
	case w.stopImmutable:
		r.reflector.ReadFor(e.owners.arrived)
	}
	w.notifyLocked(e.key)
}

// ownerGoneLocked is called when an owner, but not the last one, has gone. An owner
// that has gone does not keep the object from those who stay.
func (w *WatchStore[T]) ownerGoneLocked(e *entry[T], gone uint64) {
	r := e.run.Load()
	if gone == 0 || r == nil || gone < e.newest.Load() || !w.immutable(r.slot.Load()) {
		return
	}
	if before := e.newest.Load(); w.dueLocked(e, r) < before {
		e.wakeLocked()
		w.notifyLocked(e.key)
	}
}

// dueLocked returns the number of the newest owner that is still here. It looks
// at all owners, unless the state of the run is good enough for any.
func (w *WatchStore[T]) dueLocked(e *entry[T], r *run[T]) uint64 {
	if r.covers.Load() < e.newest.Load() {
		e.newest.Store(e.owners.newest())
	}
	return e.newest.Load()
}

// settleLocked ends the stream of an immutable object. Deleted and created
// again, it is another one, of which nothing would say so: it is read again now
// and then.
func (w *WatchStore[T]) settleLocked(e *entry[T], r *run[T]) {
	r.settled = true
	r.stopLocked(errImmutable)
	after := w.options.ImmutableRecheck
	switch {
	case after < 0:
		return
	case after == 0:
		after = defaultImmutableRecheck
	}
	after += time.Duration(rand.Float64() * float64(after))
	e.recheck = w.alarmLocked(after, func() time.Duration {
		w.startLocked(e)
		return 0
	})
}

// watchIdleLocked sets the alarm that ends the run of an entry that is idle.
func (w *WatchStore[T]) watchIdleLocked(e *entry[T]) {
	if w.options.IdleTimeout <= 0 {
		return
	}
	e.used.Store(false)
	e.idle = w.alarmLocked(w.options.IdleTimeout, func() time.Duration {
		if !w.idleLocked(e) {
			return w.options.IdleTimeout
		}
		w.stopLocked(e, errIdle)
		return 0
	})
}

// idleLocked reports whether nobody has used an entry since it was last called.
// While the object is being read, somebody may be waiting for it to be known: a
// Get that gave up, and will come again.
func (w *WatchStore[T]) idleLocked(e *entry[T]) bool {
	r := e.run.Load()
	if !r.settled && !r.reflector.Status().Synced {
		e.used.Store(true)
		return false
	}
	used := e.used.Swap(false)
	return !used && e.waiting == 0 && len(w.followers) == 0
}

// waitLocked returns a channel that is closed when a Get should look again.
func (e *entry[T]) waitLocked() <-chan struct{} {
	if e.wake == nil {
		e.wake = make(chan struct{})
	}
	return e.wake
}

// wakeLocked makes every Get that waits look again.
func (e *entry[T]) wakeLocked() {
	if e.wake != nil {
		close(e.wake)
		e.wake = nil
	}
}
