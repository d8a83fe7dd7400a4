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
// referenced again, it is told again.
func (w *Watch[T]) Changes(ctx context.Context) iter.Seq[Change[T]] {
	return func(yield func(Change[T]) bool) {
		// The queue keeps each key once, in order.
		queue := workqueue.NewTyped[types.NamespacedName]()
		defer queue.ShutDown()
		defer context.AfterFunc(ctx, queue.ShutDown)()
		if !w.follow(queue) {
			return
		}
		defer w.unfollow(queue)
		told := map[types.NamespacedName]version{}
		for {
			key, shutdown := queue.Get()
			if shutdown || ctx.Err() != nil {
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

// version tells states of one key apart. The zero version is an absence.
type version struct {
	uid             types.UID
	resourceVersion string
}

// change returns the state of a key if it differs from what was told, and notes
// it there.
func (w *Watch[T]) change(key types.NamespacedName, told map[types.NamespacedName]version) (Change[T], bool) {
	change := Change[T]{Key: key}
	state, owners, referenced := w.current(key)
	if !referenced {
		delete(told, key)
		return change, false
	}
	if !state.Synced {
		return change, false
	}
	var now version
	if state.Exists {
		now = version{state.Object.GetUID(), state.Object.GetResourceVersion()}
	}
	if now == told[key] {
		return change, false
	}
	if change.Deleted = !state.Exists; change.Deleted {
		delete(told, key)
	} else {
		told[key] = now
	}
	change.Object, change.Owners = state.Object, owners
	return change, true
}

func (w *Watch[T]) current(key types.NamespacedName) (state cache.State[T], owners []types.UID, referenced bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	e := w.entry(key)
	if e == nil {
		return state, nil, false
	}
	if r := e.run.Load(); r != nil {
		state = r.slot.Load()
	}
	return state, e.owners.list(), true
}

// follow has a queue told of every key, now and when it changes. What has gone
// idle is started again, for it could change unnoticed.
func (w *Watch[T]) follow(queue *workqueue.Typed[types.NamespacedName]) bool {
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

func (w *Watch[T]) unfollow(queue *workqueue.Typed[types.NamespacedName]) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.followers, queue)
}

func (w *Watch[T]) tellFollowersLocked(key types.NamespacedName) {
	for queue := range w.followers {
		queue.Add(key)
	}
}
