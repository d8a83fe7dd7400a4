// SPDX-License-Identifier: Apache-2.0

package objectcache

import (
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/refwatch/refwatch/internal/states"
	"github.com/refwatch/refwatch/objectcache/internal/engine"
)

// References of a WatchStore.

// AddReference implements [Store]. The first reference to an object starts its
// stream. An object with a namespace or name that no object can have ([ErrInvalidName]), or that the field
// selector of the resource excludes, is absent: no request is sent for it. The first such
// reference is logged at level 0, others at level 2. A key without a name, or of the wrong scope (a
// namespace of a cluster-scoped kind, or none of another kind), is a mistake of the program: it is logged
// and not counted.
func (s *WatchStore[T]) AddReference(namespace, name string, referencedFrom types.UID) {
	key := types.NamespacedName{Namespace: namespace, Name: name}
	if s.addOwner(key, referencedFrom) {
		return
	}
	absence := s.resource.CheckKey(key) // calls a function of the program, without mu
	if absence != nil && !apierrors.IsNotFound(absence) {
		s.logger().Error(absence, "Reference not counted", "owner", referencedFrom)
		return
	}
	if isNew := s.countReference(key, referencedFrom, absence); isNew && absence != nil {
		level := 2
		s.loggedAbsent.Do(func() { level = 0 })
		s.logger().V(level).Info("Reference to an object that is absent for good", "owner", referencedFrom, "err", absence)
	}
}

// addOwner counts a reference to an object that has one, and reports whether it has.
func (s *WatchStore[T]) addOwner(key types.NamespacedName, referencedFrom types.UID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entry(key)
	if e != nil {
		s.addOwnerLocked(e, referencedFrom)
	}
	return e != nil
}

// countReference counts a reference, and reports whether it is the first one to the object. absence is
// the result of CheckKey.
func (s *WatchStore[T]) countReference(key types.NamespacedName, referencedFrom types.UID, absence error) (isNew bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.entry(key); e != nil { // added meanwhile
		s.addOwnerLocked(e, referencedFrom)
		return false
	}
	s.addLocked(key, referencedFrom, reasonOf(absence))
	return true
}

// reasonOf returns why an object needs no watch, from the result of CheckKey.
func reasonOf(absence error) engine.Reason {
	switch {
	case absence == nil:
		return engine.NeedsStream
	case errors.Is(absence, ErrInvalidName):
		return engine.InvalidName
	}
	return engine.NotSelected
}

// isAbsent reports whether the object is absent for good, which is known without a request.
func (e *entry[T]) isAbsent() bool { return e.absent != engine.NeedsStream }

// addLocked adds an entry with its first owner, and starts its watch. An object that is absent for
// good needs none: its state is known.
func (s *WatchStore[T]) addLocked(key types.NamespacedName, owner types.UID, absent engine.Reason) *entry[T] {
	s.created++
	s.objects++
	e := &entry[T]{key: key, number: s.created, absent: absent}
	s.addOwnerLocked(e, owner)
	s.entries.store(e)
	if e.isAbsent() && !s.stopped {
		s.setStateLocked(e, states.State[T]{Synced: true})
	}
	s.startUnaskedLocked(e)
	return e
}

// addOwnerLocked counts a reference.
func (s *WatchStore[T]) addOwnerLocked(e *entry[T], uid types.UID) {
	if e.owners.Add(uid) {
		s.references++
		s.newOwnerLocked(e)
	}
	s.publishLocked(e)
}

// newOwnerLocked is called when an owner was added. The object may have been deleted
// and created again before, and the owner must see the new object. An open stream
// reports that; its next read is a consistent one, in case the server lags. An object
// without a stream is read again now.
func (s *WatchStore[T]) newOwnerLocked(e *entry[T]) {
	e.used.Store(s.uses)
	e.newestOwner = e.owners.Reads
	e.ownerAddedAt = s.now()
	w := e.watch.Load()
	switch {
	case w == nil, s.ttl != nil && w.upkeep == engine.ByNone:
	case w.upkeep == engine.ByNone:
		if !s.readForOwnerLocked(e) {
			s.readLaterLocked(e)
		}
	case s.unwatchImmutable || s.ttl != nil:
		w.reflector.ReadFor(e.owners.Reads)
	}
	if w != nil && s.ttl == nil && w.status().Failures > 0 && e.needsOwnerReadLocked() {
		w.reflector.Expedite() // other owners may not have the object until the attempt
	}
	if w != nil && !w.synced {
		e.live = false // the state, if there is one, is from before the read that is under way
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
	gone := e.owners.Remove(owner)
	if gone > 0 {
		s.references--
	}
	if !e.owners.Empty() {
		s.ownerGoneLocked(e, gone)
		return
	}
	s.entries.remove(e.key)
	delete(s.lastCauses, e.key)
	s.objects--
	s.stopTimerLocked(e.timersLocked().lease)
	if w := e.watch.Load(); w != nil {
		s.keepBackoffLocked(e.key, w.reflector)
	}
	s.stopLocked(e, errUnreferenced)
	e.wakeLocked()
	s.subscribers.notify(e.key)
}

// ownerGoneLocked is called when an owner is gone, but not the last one. Owners
// that remain need not wait for a read for the one that is gone.
func (s *WatchStore[T]) ownerGoneLocked(e *entry[T], gone uint64) {
	w := e.watch.Load()
	if gone == 0 || w == nil || gone < e.newestOwner || !e.needsOwnerReadLocked() {
		return
	}
	if before := e.newestOwner; e.newestOwnerLocked() < before {
		s.publishLocked(e)
		e.wakeLocked()
		s.subscribers.notify(e.key)
	}
}
