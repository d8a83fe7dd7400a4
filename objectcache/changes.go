// SPDX-License-Identifier: Apache-2.0

package objectcache

import (
	"context"
	"iter"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"

	"github.com/refwatch/refwatch/cache"
)

// Change is the newest state of an object that differs from what a follower was
// told before.
type Change[T cache.Object] struct {
	// Key is the object's namespace and name.
	Key types.NamespacedName
	// Object is the object, shared and read-only; nil if Deleted.
	Object T
	// Deleted tells that the object, of which the follower knew, is gone.
	Deleted bool
	// Owners are the UIDs that reference the object now.
	Owners []types.UID
}

// Changes yields the referenced objects as they are, and then each that
// changes, until ctx ends, the store is stopped, or the loop is left.
//
// Only the newest state of a key is kept for a follower: one that is slow misses
// states in between, never the last one, delays nobody, and costs memory for the
// keys only. States are told apart by UID and resource version, so neither a
// broken stream nor a list invents a change. An object that is absent from the
// start is no change. Objects come in the order in which they first changed.
//
// When the last reference goes, that is no change either; when the object is
// referenced again, it is told again. A nil context is logged, and yields
// nothing.
func (w *Watch[T]) Changes(ctx context.Context) iter.Seq[Change[T]] {
	return func(yield func(Change[T]) bool) {
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
		told := map[types.NamespacedName]version{}
		for {
			key, shutdown := queue.Get()
			if shutdown || ctx.Err() != nil { // a queue that is shut down is drained first
				return
			}
			change, ok := w.change(key, told)
			queue.Done(key)
			if ok && !yield(change) {
				return
			}
		}
	}
}

// version tells states of one key apart. The zero version is one of which
// nothing was told.
type version struct {
	entry           uint64 // a key that was let go of begins anew
	uid             types.UID
	resourceVersion string
	epoch           uint64
}

// change returns the state of a key if it differs from what was told, and notes
// it there.
func (w *Watch[T]) change(key types.NamespacedName, told map[types.NamespacedName]version) (Change[T], bool) {
	state, entry, owners := w.current(key)
	if told[key].entry != entry {
		delete(told, key)
	}
	before, known := told[key]
	change := Change[T]{Key: key, Object: state.Object, Owners: owners}
	switch {
	case !state.Synced:
		return change, false
	case !state.Exists:
		delete(told, key)
		change.Deleted = true
		return change, known
	}
	told[key] = version{entry, state.Object.GetUID(), state.Object.GetResourceVersion(), state.Epoch}
	return change, told[key] != before
}

// current returns what a key's owners may be told, and the number of its entry;
// an unsynced state and 0 if nobody references it.
func (w *Watch[T]) current(key types.NamespacedName) (state cache.State[T], entry uint64, owners []types.UID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	e := w.entry(key)
	if e == nil {
		return state, 0, nil
	}
	if r := e.run.Load(); r != nil {
		if now := r.slot.Load(); w.known(r, now) {
			state = now
		}
	}
	return state, e.number, e.owners.list()
}

// addFollower has a queue told of every key, now and when it changes. What has gone
// idle is started again, for it could change unnoticed.
func (w *Watch[T]) addFollower(queue *workqueue.Typed[types.NamespacedName]) bool {
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

func (w *Watch[T]) removeFollower(queue *workqueue.Typed[types.NamespacedName]) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.followers, queue)
}

func (w *Watch[T]) tellFollowersLocked(key types.NamespacedName) {
	for queue := range w.followers {
		queue.Add(key)
	}
}
