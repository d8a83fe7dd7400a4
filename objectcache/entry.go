// SPDX-License-Identifier: Apache-2.0

package objectcache

import (
	"cmp"
	"context"
	"errors"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/refwatch/refwatch/cache"
	"github.com/refwatch/refwatch/reflector"
)

// entry is a referenced object. It lives from its first reference to its last.
// Fields without a note are guarded by Watch.mu.
type entry[T cache.Object] struct {
	key    types.NamespacedName
	number uint64                 // tells it from an entry of the same key before or after
	run    atomic.Pointer[run[T]] // nil: before Run, idle, or stopped. Written with Watch.mu held
	used   atomic.Bool            // asked for since the idle timer last looked
	owners owners

	waiting int           // Gets that wait
	wake    chan struct{} // made by the first that waits, closed when they should look again
}

// run is one life of an entry's stream. Its end is final: what comes after it,
// for whatever reason, is another run with a slot of its own, so that nothing
// late from this one can be taken for the state of that one.
type run[T cache.Object] struct {
	slot      *cache.Slot[T]
	reflector *reflector.Reflector
	ended     error         // why it was stopped, for the log. Guarded by Watch.mu
	idle      *idleTimer[T] // nil without an IdleTimeout

	// settled: the object is immutable, so the stream has ended and the slot is
	// served for good. Guarded by Watch.mu.
	settled bool
	// latecomer is how many opens there had been when the last new owner came,
	// 0 if none had come or none had been. Written with Watch.mu held.
	latecomer atomic.Uint64
}

// Why a stream ends, for the log.
var (
	errUnreferenced = errors.New("nobody references the object any more")
	errImmutable    = errors.New("the object is immutable")
	errIdle         = errors.New("nobody asks for the object")
	errReplaced     = errors.New("the object is read afresh")
	errStopping     = errors.New("the store is stopped")
)

// startLocked begins a new run of an entry, in place of the one there is.
func (w *Watch[T]) startLocked(e *entry[T]) {
	if w.ctx == nil || w.stopped {
		return
	}
	w.stopLocked(e, errReplaced)
	r := &run[T]{slot: cache.NewSlot(e.key, cache.SlotOptions[T]{})}
	resource := w.resource.resource.String()
	r.reflector = reflector.New(w.resource.sourceOf(e.key), r.slot, reflector.Options{
		Name:     resource + " " + e.key.String(),
		Resource: resource,
		OnChange: func() { w.changed(e, r) },
		Gate:     w.options.Gate,
		Engine:   w.engine,
	})
	w.watchIdleLocked(e, r)
	e.run.Store(r)
	w.streams.Add(1)
	go w.follow(w.ctx, e, r)
}

// follow is the goroutine of a run. It blocks for hours, and its stack is kept
// small.
func (w *Watch[T]) follow(ctx context.Context, e *entry[T], r *run[T]) {
	w.log(ctx, e, "Starting to watch")
	r.reflector.Run(ctx)
	w.logStopped(ctx, e, r)
	w.streams.Done()
}

func (w *Watch[T]) logStopped(ctx context.Context, e *entry[T], r *run[T]) {
	w.mu.Lock()
	reason := cmp.Or(r.ended, errStopping)
	w.mu.Unlock()
	w.log(ctx, e, "Stopped watching", "reason", reason)
}

func (w *Watch[T]) log(ctx context.Context, e *entry[T], text string, more ...any) {
	if logger := klog.FromContext(ctx).V(4); logger.Enabled() {
		about := []any{"resource", w.resource.resource, "object", klog.KRef(e.key.Namespace, e.key.Name)}
		logger.Info(text, append(about, more...)...)
	}
}

// stopLocked ends the run of an entry, if there is one, and lets go of its
// object. The run's goroutine is waited for by Run.
func (w *Watch[T]) stopLocked(e *entry[T], reason error) {
	r := e.run.Load()
	if r == nil {
		return
	}
	e.run.Store(nil)
	r.stopLocked(reason)
	if r.idle == nil {
		return
	}
	r.idle.run = nil
	if r.idle.timer.Stop() {
		w.streams.Done()
	}
}

// stopLocked ends the stream of a run.
func (r *run[T]) stopLocked(reason error) {
	r.ended = cmp.Or(r.ended, reason)
	r.reflector.Stop()
}

// changed is called by the run's reflector after a read, an event or a failure.
func (w *Watch[T]) changed(e *entry[T], r *run[T]) {
	state := r.slot.Load()
	w.mu.Lock()
	defer w.mu.Unlock()
	if e.run.Load() != r {
		return // replaced, or let go; whoever did that has told who waits
	}
	switch immutable := w.immutable(state); {
	case immutable && !r.settled && w.outdated(r):
		w.startLocked(e)
	case immutable && !r.settled:
		r.settled = true
		r.stopLocked(errImmutable)
	case !immutable && r.settled:
		// The end of the stream was overtaken by an event: the object is gone.
		w.startLocked(e)
	}
	e.wakeLocked()
	w.tellFollowersLocked(e.key)
}

// immutable tells whether a state will never change, and needs no stream.
func (w *Watch[T]) immutable(state cache.State[T]) bool {
	return w.stopImmutable && state.Synced && state.Exists && w.resource.immutable(state.Object)
}

// outdated tells whether an owner came after the read that a run's state began
// with was asked for. That matters for an immutable object only: it may be the
// predecessor of the one that this owner is about, and no event will say so.
func (w *Watch[T]) outdated(r *run[T]) bool {
	latecomer := r.latecomer.Load()
	return latecomer > 0 && r.reflector.Status().SyncedBy <= latecomer
}

// newOwnerLocked is called when an owner that had no reference to an entry gets
// one. An immutable object is not watched any more, so it may have been deleted
// and created again: it is read afresh, and nobody is served until that read is
// there, for Get does not know who asks.
func (w *Watch[T]) newOwnerLocked(e *entry[T]) {
	e.used.Store(true)
	r := e.run.Load()
	switch {
	case r == nil || !w.stopImmutable:
	case r.settled:
		w.startLocked(e)
	default:
		r.latecomer.Store(r.reflector.Status().Opens)
	}
}

// idleTimer ends a run that is idle. The runtime may keep a stopped timer, and so
// all that its function reaches, until long after; so run is cleared with the
// timer stopped, lest an object stays in memory that nobody references any more.
type idleTimer[T cache.Object] struct {
	timer *time.Timer
	entry *entry[T]
	run   *run[T] // nil once the run has ended; guarded by Watch.mu
}

// watchIdleLocked starts the timer that ends an idle run. Its goroutine is
// counted with the streams.
func (w *Watch[T]) watchIdleLocked(e *entry[T], r *run[T]) {
	if w.options.IdleTimeout <= 0 {
		return
	}
	e.used.Store(false)
	w.streams.Add(1)
	r.idle = &idleTimer[T]{entry: e, run: r}
	idle := r.idle
	idle.timer = time.AfterFunc(w.options.IdleTimeout, func() { w.checkIdle(idle) })
}

func (w *Watch[T]) checkIdle(idle *idleTimer[T]) {
	w.mu.Lock()
	defer w.mu.Unlock()
	e := idle.entry
	if idle.run == nil {
		w.streams.Done()
		return
	}
	if used := e.used.Swap(false); used || e.waiting > 0 || len(w.followers) > 0 {
		idle.timer.Reset(w.options.IdleTimeout)
		return
	}
	w.streams.Done()
	w.stopLocked(e, errIdle)
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
