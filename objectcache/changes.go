// SPDX-License-Identifier: Apache-2.0

package objectcache

import (
	"context"
	"iter"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"

	"github.com/refwatch/refwatch/cache"
)

// Change is the newest state of an object.
type Change[T cache.Object] struct {
	// Key is the object's namespace and name.
	Key types.NamespacedName
	// Object is the object, shared and read-only; nil if Deleted.
	Object T
	// Deleted is set if the object was yielded before and is gone.
	Deleted bool
}

// Changes yields the referenced objects as they are, and then each that
// changes or gets a new owner, until ctx ends, the store is stopped, or the loop
// is left. The second value holds the UIDs that reference the object now, in order.
//
// Only the newest state of a key is kept for a follower: one that is slow misses
// states in between, never the last one, delays nobody, and costs memory for the
// keys only. States are compared by UID, resource version and epoch, so neither
// a broken stream nor a list nor an object that is read again invents a change.
// Changes does not report an object that never existed. Objects come in the
// order in which they first changed.
//
// When an owner comes that had no reference to the object, the object is yielded
// once more, if it exists: as soon as Get would return it to that owner. When an
// owner goes, be it the last one, that is no change; when the object is
// referenced again, it is yielded again. A nil context is logged, and yields
// nothing.
func (w *WatchStore[T]) Changes(ctx context.Context) iter.Seq2[Change[T], []types.UID] {
	return func(yield func(Change[T], []types.UID) bool) {
		if ctx == nil {
			w.logger().Error(ErrNilContext, "No changes are delivered")
			return
		}
		// The queue keeps each key once, in order.
		queue := workqueue.NewTyped[types.NamespacedName]()
		stop := context.AfterFunc(ctx, queue.ShutDown)
		defer stop()
		if !w.addFollower(queue) {
			return
		}
		defer w.removeFollower(queue)
		yielded := map[types.NamespacedName]version{}
		for {
			key, shutdown := queue.Get()
			if shutdown || ctx.Err() != nil { // a queue that is shut down is drained first
				return
			}
			change, owners, ok := w.change(key, yielded)
			queue.Done(key)
			if ok && !yield(change, owners) {
				return
			}
		}
	}
}

// version identifies a state of a key, and the owners that it was yielded for.
// The zero version is one of which nothing was yielded.
type version struct {
	entry           uint64 // a key that was let go of begins anew
	uid             types.UID
	resourceVersion string
	epoch           uint64
	arrived         uint64 // how many owners had come
}

// change returns the state of a key and its owners. It reports whether they
// differ from what was yielded, and records them there.
func (w *WatchStore[T]) change(key types.NamespacedName, yielded map[types.NamespacedName]version) (Change[T], []types.UID, bool) {
	now, ok := w.current(key)
	if yielded[key].entry != now.version.entry {
		delete(yielded, key)
	}
	before, known := yielded[key]
	change := Change[T]{Key: key, Object: now.state.Object}
	switch {
	case !ok:
		return change, nil, false
	case !now.state.Exists:
		delete(yielded, key)
		change.Deleted = true
		return change, now.owners, known
	}
	yielded[key] = now.version
	return change, now.owners, now.version != before
}

// present is what a follower may know of a key.
type present[T cache.Object] struct {
	state   cache.State[T]
	version version
	owners  []types.UID
}

// current returns what a follower may know of a key now, and whether that is
// anything. What nobody references has the entry 0.
func (w *WatchStore[T]) current(key types.NamespacedName) (now present[T], ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	e := w.entry(key)
	if e == nil {
		return now, false
	}
	now.owners = e.owners.list()
	now.version = version{entry: e.number, arrived: e.owners.arrived}
	r := e.run.Load()
	if r == nil {
		return now, false
	}
	now.state = r.slot.Load()
	if now.state.Exists {
		now.version.uid, now.version.resourceVersion = now.state.Object.GetUID(), now.state.Object.GetResourceVersion()
		now.version.epoch = now.state.Epoch
	}
	return now, now.state.Synced && w.settledForLocked(e, r, now.state)
}

// settledForLocked reports whether a state may be yielded for all owners, as Get
// would serve it. How old it is does not matter.
func (w *WatchStore[T]) settledForLocked(e *entry[T], r *run[T], state cache.State[T]) bool {
	return !w.immutable(state) || r.covers.Load() >= w.dueLocked(e, r) || failedSince(r.reflector.Status(), e.arrivedAt)
}

// addFollower puts every key into a queue, now and when it changes. What has gone
// idle is started again, for it could change unnoticed.
func (w *WatchStore[T]) addFollower(queue *workqueue.Typed[types.NamespacedName]) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopped {
		return false
	}
	w.followers[queue] = struct{}{}
	for _, e := range w.entries.Range {
		e := e.(*entry[T])
		if e.run.Load() == nil {
			w.startLocked(e)
		}
		queue.Add(e.key)
	}
	return true
}

func (w *WatchStore[T]) removeFollower(queue *workqueue.Typed[types.NamespacedName]) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.followers, queue)
}

// notifyLocked makes every follower look at a key.
func (w *WatchStore[T]) notifyLocked(key types.NamespacedName) {
	for queue := range w.followers {
		queue.Add(key)
	}
}
