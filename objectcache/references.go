// SPDX-License-Identifier: Apache-2.0

package objectcache

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// AddReference implements [Store]. The first reference to an object starts its
// stream. A namespace or name that no object can have is logged and not counted,
// and Get returns [ErrInvalidName] for it.
func (s *WatchStore[T]) AddReference(namespace, name string, referencedFrom types.UID) {
	key := types.NamespacedName{Namespace: namespace, Name: name}
	if s.entry(key) == nil {
		if err := s.resource.validateKey(key); err != nil {
			s.logger().Error(err, "Reference not counted", "owner", referencedFrom)
			return
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.entry(key); e != nil {
		s.addOwnerLocked(e, referencedFrom)
		return
	}
	s.addLocked(key, referencedFrom)
}

// addLocked adds an entry with its first owner, and starts its watch.
func (s *WatchStore[T]) addLocked(key types.NamespacedName, owner types.UID) *entry[T] {
	s.created++
	e := &entry[T]{key: key, number: s.created}
	s.addOwnerLocked(e, owner)
	s.entries.Store(key, e)
	s.startLocked(e)
	return e
}

// addOwnerLocked counts a reference. The object may have been deleted and created
// again before a new owner was added, and the owner must see the new object. The
// stream of a mutable object reports that; its next read is a consistent one, in
// case the server lags. An immutable object that is unwatched is read again now.
func (s *WatchStore[T]) addOwnerLocked(e *entry[T], uid types.UID) {
	if !e.owners.add(uid) {
		return
	}
	e.used.Store(s.uses)
	e.newestOwner.Store(e.owners.reads)
	e.ownerAddedAt = time.Now()
	switch w := e.watch.Load(); {
	case w == nil:
	case w.unwatched != "":
		s.startLocked(e)
	case s.unwatchImmutable && w.shared == nil:
		w.reflector.ReadFor(e.owners.reads)
	}
	s.subscribers.notify(e.key)
}

// DeleteReference implements [Store]. Deleting the last reference ends the stream
// and drops the object. Gets that wait for the object return [ErrNotRegistered].
func (s *WatchStore[T]) DeleteReference(namespace, name string, referencedFrom types.UID) {
	key := types.NamespacedName{Namespace: namespace, Name: name}
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.entry(key); e != nil {
		s.deleteLocked(e, referencedFrom)
	}
}

// deleteLocked takes back a reference, and removes the entry with its last one.
func (s *WatchStore[T]) deleteLocked(e *entry[T], owner types.UID) {
	if gone := e.owners.remove(owner); !e.owners.empty() {
		s.ownerGoneLocked(e, gone)
		return
	}
	s.entries.Delete(e.key)
	s.stopTimerLocked(e.leaseTimer)
	s.stopLocked(e, errUnreferenced)
	e.wakeLocked()
	s.subscribers.notify(e.key)
}

// ownerGoneLocked is called when an owner is gone, but not the last one. Owners
// that remain need not wait for a read for the one that is gone.
func (s *WatchStore[T]) ownerGoneLocked(e *entry[T], gone uint64) {
	w := e.watch.Load()
	if gone == 0 || w == nil || gone < e.newestOwner.Load() || !s.isImmutable(w.slot.Load()) {
		return
	}
	if before := e.newestOwner.Load(); e.newestOwnerLocked(w) < before {
		e.wakeLocked()
		s.subscribers.notify(e.key)
	}
}
