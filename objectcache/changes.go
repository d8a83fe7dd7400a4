// SPDX-License-Identifier: Apache-2.0

package objectcache

import (
	"context"
	"iter"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"

	"github.com/refwatch/refwatch/cache"
)

// Change is the newest state of an object.
type Change[T cache.Object] struct {
	// Key is the object's namespace and name.
	Key types.NamespacedName
	// Object is the object, shared and read-only; nil if Deleted.
	Object T
	// Deleted is set if the object was yielded since its first reference, and no
	// longer exists.
	Deleted bool
}

// Changes yields every referenced object that exists, and then each object that
// changes or gets a new owner, until ctx ends, the store is stopped, or the loop
// is left. The second value holds the UIDs that reference the object now, sorted.
//
//   - Order: objects come in the order in which they first changed.
//   - Loss: a slow caller skips states, and never the newest one of an object. It
//     delays nothing, and costs memory for the keys only.
//   - Duplicates: a state that was read again is not yielded again. States are
//     compared by UID, resource version and epoch.
//   - An object that never existed is not reported.
//   - Owners: an object that exists is yielded again for each new owner, as soon as
//     Get would return it to that owner. Losing an owner yields nothing. An object
//     that has lost all owners is forgotten: with a new owner it is yielded again if
//     it exists, and not reported if it does not.
//
// A nil context is logged, and yields nothing.
func (s *WatchStore[T]) Changes(ctx context.Context) iter.Seq2[Change[T], []types.UID] {
	return changesOf(ctx, s)
}

// changeSource is a store whose changes [changesOf] yields.
type changeSource[T cache.Object] interface {
	logger() klog.Logger
	// addSubscriber adds a queue, and every key to it. It returns false if the store is
	// stopped.
	addSubscriber(queue *keyQueue) bool
	removeSubscriber(queue *keyQueue)
	// snapshot returns the state of a key now, and whether it may be yielded. id.entry
	// is 0 if no owner references the key.
	snapshot(key types.NamespacedName) (now snapshot[T], ok bool)
}

// changesOf implements Changes.
func changesOf[T cache.Object](ctx context.Context, s changeSource[T]) iter.Seq2[Change[T], []types.UID] {
	return func(yield func(Change[T], []types.UID) bool) {
		if ctx == nil {
			s.logger().Error(ErrNilContext, "No changes are delivered")
			return
		}
		// The queue keeps each key once, in order.
		queue := workqueue.NewTyped[types.NamespacedName]()
		stop := context.AfterFunc(ctx, queue.ShutDown)
		defer stop()
		if !s.addSubscriber(queue) {
			return
		}
		defer s.removeSubscriber(queue)
		yielded := map[types.NamespacedName]stateID{}
		for {
			key, shutdown := queue.Get()
			if shutdown || ctx.Err() != nil { // a queue that is shut down is drained first
				return
			}
			change, owners, ok := changeOf(s, key, yielded)
			queue.Done(key)
			if ok && !yield(change, owners) {
				return
			}
		}
	}
}

// stateID identifies a state of a key, and the owners for which it is yielded. The
// zero value stands for no state.
type stateID struct {
	entry           uint64 // entry.number
	uid             types.UID
	resourceVersion string
	epoch           uint64
	owners          uint64 // owners.added
}

// changeOf returns the state of a key and its owners, and whether they differ from
// what was yielded. It updates yielded.
func changeOf[T cache.Object](s changeSource[T], key types.NamespacedName, yielded map[types.NamespacedName]stateID) (Change[T], []types.UID, bool) {
	now, ok := s.snapshot(key)
	if yielded[key].entry != now.id.entry {
		delete(yielded, key)
	}
	before, existed := yielded[key]
	change := Change[T]{Key: key, Object: now.state.Object}
	switch {
	case !ok:
		return change, nil, false
	case !now.state.Exists:
		delete(yielded, key)
		change.Deleted = true
		return change, now.owners, existed
	}
	yielded[key] = now.id
	return change, now.owners, now.id != before
}

// snapshot is the state of a key and its owners at one moment.
type snapshot[T cache.Object] struct {
	state  cache.State[T]
	id     stateID
	owners []types.UID
}

func (s *snapshot[T]) setState(state cache.State[T]) {
	s.state = state
	if state.Exists {
		s.id.uid, s.id.resourceVersion, s.id.epoch = state.Object.GetUID(), state.Object.GetResourceVersion(), state.Epoch
	}
}

// snapshot implements changeSource.
func (s *WatchStore[T]) snapshot(key types.NamespacedName) (now snapshot[T], ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entry(key)
	if e == nil {
		return now, false
	}
	now.owners = e.owners.list()
	now.id = stateID{entry: e.number, owners: e.owners.added}
	w := e.watch.Load()
	if w == nil {
		return now, false
	}
	now.setState(w.slot.Load())
	if !now.state.Synced || s.servableToAllLocked(e, w, now.state) {
		return now, now.state.Synced
	}
	s.notifyLaterLocked(key)
	return now, false
}

// notifyLaterLocked notifies the subscribers of a key after awayGrace: if no reflector
// reaches the server, Get returns the previous state of an immutable object then, and
// nothing else notifies them. There is at most one timer for each key.
func (s *WatchStore[T]) notifyLaterLocked(key types.NamespacedName) {
	if s.notifyTimers[key] != nil || s.stopped {
		return
	}
	if s.notifyTimers == nil {
		s.notifyTimers = map[types.NamespacedName]*timer{}
	}
	s.notifyTimers[key] = s.startTimerLocked(awayGrace, func() time.Duration {
		delete(s.notifyTimers, key)
		s.subscribers.notify(key)
		return 0
	})
}

// servableToAllLocked reports whether Get would return a synced state to every
// owner, whatever its age.
func (s *WatchStore[T]) servableToAllLocked(e *entry[T], w *objectWatch[T], state cache.State[T]) bool {
	return !s.isImmutable(state) || w.readFor.Load() >= e.newestOwnerLocked(w) || readFailed(w.status(), e.ownerAddedAt)
}

// addSubscriber implements changeSource. It also starts the watches of idle entries,
// which could change unnoticed.
func (s *WatchStore[T]) addSubscriber(queue *keyQueue) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return false
	}
	s.subscribers[queue] = struct{}{}
	for _, e := range s.entries.Range {
		e := e.(*entry[T])
		if e.watch.Load() == nil {
			s.startLocked(e)
		}
		queue.Add(e.key)
	}
	return true
}

func (s *WatchStore[T]) removeSubscriber(queue *keyQueue) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.subscribers, queue)
}
