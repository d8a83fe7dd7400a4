// SPDX-License-Identifier: Apache-2.0

package objectcache

import (
	"cmp"
	"context"
	"errors"
	"sync/atomic"
	"time"

	"k8s.io/klog/v2"

	"github.com/refwatch/refwatch/cache"
	"github.com/refwatch/refwatch/reflector"
)

// run is one life of an entry's stream. Its end is final: what comes after it,
// for whatever reason, is another run with a slot of its own, so that nothing
// late from this one can be taken for the state of that one. A run that follows
// another begins with the state of that one, which is served until the first
// read.
type run[T cache.Object] struct {
	slot      *cache.Slot[T]
	reflector *reflector.Reflector
	base      time.Time // when the first run of the entry began that this one goes back to

	// covers is the number of the newest owner before whose arrival no consistent
	// read began that the state in the slot goes back to. Read before the state.
	covers atomic.Uint64
	// contact is when the server last sent something, counted from base; 0 for
	// never. Read before the state: one that comes in between is the younger.
	contact atomic.Int64

	// Guarded by WatchStore.mu.
	ended  error     // why it was stopped, for the log
	before time.Time // the last contact of the runs before
	// settled: the object is immutable, so the stream has ended and the slot is
	// served until an owner comes, or the time to look again.
	settled bool
}

// Why a stream ends, for the log.
var (
	errUnreferenced = errors.New("nobody references the object any more")
	errImmutable    = errors.New("the object is immutable")
	errIdle         = errors.New("nobody asks for the object")
	errReplaced     = errors.New("the object is read again")
	errStopping     = errors.New("the store is stopped")
)

// startLocked begins a new run of an entry, in place of the one there is.
func (w *WatchStore[T]) startLocked(e *entry[T]) {
	if w.ctx == nil || w.stopped {
		return
	}
	r := w.newRunLocked(e)
	if before := e.run.Load(); before != nil {
		before.stopLocked(errReplaced)
		w.silenceLocked(e.recheck)
	} else {
		w.watchIdleLocked(e)
	}
	e.run.Store(r)
	w.streams.Add(1)
	go w.follow(w.ctx, e, r)
}

// newRunLocked makes the run that follows the one of an entry, if it has one.
func (w *WatchStore[T]) newRunLocked(e *entry[T]) *run[T] {
	r := &run[T]{}
	if before := e.run.Load(); before != nil {
		r.slot, r.base, r.before = before.slot.Next(), before.base, before.lastContactLocked(before.reflector.Status())
		r.covers.Store(before.covers.Load())
		r.contact.Store(before.contact.Load())
	} else {
		r.slot, r.base = cache.NewSlot(e.key, cache.SlotOptions[T]{Epoch: e.epoch}), time.Now()
	}
	resource := w.resource.resource.String()
	r.reflector = reflector.New(w.resource.sourceOf(e.key), r.slot, reflector.Options{
		Name:     resource + " " + e.key.String(),
		Resource: resource,
		OnChange: func() { w.changed(e, r) },
		Gate:     w.options.Gate,
		Engine:   w.engine,
	})
	r.reflector.ReadFor(e.owners.arrived)
	return r
}

// follow is the goroutine of a run. It blocks for hours, and its stack is kept
// small.
func (w *WatchStore[T]) follow(ctx context.Context, e *entry[T], r *run[T]) {
	w.log(ctx, e, "Starting to watch")
	r.reflector.Run(ctx)
	w.logStopped(ctx, e, r)
	w.streams.Done()
}

func (w *WatchStore[T]) logStopped(ctx context.Context, e *entry[T], r *run[T]) {
	w.mu.Lock()
	reason := cmp.Or(r.ended, errStopping)
	w.mu.Unlock()
	w.log(ctx, e, "Stopped watching", "reason", reason)
}

func (w *WatchStore[T]) log(ctx context.Context, e *entry[T], text string, more ...any) {
	if logger := klog.FromContext(ctx).V(4); logger.Enabled() {
		about := []any{"resource", w.resource.resource, "object", klog.KRef(e.key.Namespace, e.key.Name)}
		logger.Info(text, append(about, more...)...)
	}
}

// stopLocked ends the run of an entry, if there is one, and lets go of its
// object. The run's goroutine is waited for by Run.
func (w *WatchStore[T]) stopLocked(e *entry[T], reason error) {
	r := e.run.Load()
	if r == nil {
		return
	}
	e.epoch = r.slot.Load().Epoch + 1 // with what comes next there will be nothing to compare
	e.run.Store(nil)
	r.stopLocked(reason)
	w.silenceLocked(e.idle)
	w.silenceLocked(e.recheck)
}

// stopLocked ends the stream of a run.
func (r *run[T]) stopLocked(reason error) {
	r.ended = cmp.Or(r.ended, reason)
	r.reflector.Stop()
}

// changed is called by the run's reflector after a read, an event or a failure.
func (w *WatchStore[T]) changed(e *entry[T], r *run[T]) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if e.run.Load() != r {
		return // replaced, or let go; whoever did that has woken those who wait
	}
	// With mu held: two calls would act on states in another order otherwise.
	stream := r.reflector.Status()
	r.noteLocked(stream)
	w.proceedLocked(e, r, stream)
	e.wakeLocked()
	w.notifyLocked(e.key)
}

// proceedLocked ends the stream of an immutable object, begins that of one which
// is not immutable any more, and reads again for owners who came too late for
// the read there was.
func (w *WatchStore[T]) proceedLocked(e *entry[T], r *run[T], stream reflector.Status) {
	switch immutable := w.immutable(r.slot.Load()); {
	case r.settled:
		if !immutable { // the end of the stream was overtaken by an event
			w.startLocked(e)
		}
	case !immutable:
	case r.covers.Load() < w.dueLocked(e, r):
		if stream.Synced {
			w.startLocked(e)
		}
	case stream.Synced, stream.Failures > 0:
		// A check that failed is made again at the next time: nobody waits for it.
		w.settleLocked(e, r)
	}
}

// noteLocked takes down what the reflector has achieved. The slot is ahead of
// it, if anything.
func (r *run[T]) noteLocked(stream reflector.Status) {
	if !stream.LastContact.IsZero() {
		r.contact.Store(max(1, int64(stream.LastContact.Sub(r.base))))
	}
	r.covers.Store(max(r.covers.Load(), stream.ReadFor))
}

// lastContactLocked is when the server last sent something about the object.
func (r *run[T]) lastContactLocked(stream reflector.Status) time.Time {
	if stream.LastContact.IsZero() {
		return r.before
	}
	return stream.LastContact
}

// immutable reports whether a state will never change, and needs no stream.
func (w *WatchStore[T]) immutable(state cache.State[T]) bool {
	return w.stopImmutable && state.Synced && state.Exists && w.resource.immutable(state.Object)
}
