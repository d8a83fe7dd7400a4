// SPDX-License-Identifier: Apache-2.0

// Package storetest has a store for tests of package reflector.
package storetest

import (
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/refwatch/refwatch/cache"
	"github.com/refwatch/refwatch/internal/reflector"
	"github.com/refwatch/refwatch/internal/states"
)

// Slot is a store of one object: a [states.Order] with a key and a lock. It has the optional methods with which a
// reflector checks what it has read, reports a rollback of the server, and verifies a silent stream. Client-go's stores
// have none of them. The methods that store return no error.
type Slot[T cache.Object] struct {
	key types.NamespacedName

	mu      sync.Mutex
	order   states.Order[T]
	state   states.State[T]
	changed chan struct{} // closed at the next change
}

var (
	_ toolscache.ReflectorBookmarkStore = (*Slot[cache.Object])(nil)
	_ reflector.Checker                 = (*Slot[cache.Object])(nil)
	_ reflector.ReadChecker             = (*Slot[cache.Object])(nil)
	_ reflector.EpochStarter            = (*Slot[cache.Object])(nil)
	_ reflector.Comparer                = (*Slot[cache.Object])(nil)
)

// NewSlot returns an empty slot for the object with that key.
func NewSlot[T cache.Object](key types.NamespacedName) *Slot[T] {
	return &Slot[T]{key: key, changed: make(chan struct{})}
}

// Load returns the last known state.
func (s *Slot[T]) Load() states.State[T] {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state
}

// Changed returns a channel that is closed at the next change of state.
func (s *Slot[T]) Changed() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}

// Check returns why the slot does not accept an object.
func (s *Slot[T]) Check(object runtime.Object) error {
	_, err := states.CheckObject[T](s.key, object)
	return err
}

// CheckRead returns why the slot does not accept a complete read.
func (s *Slot[T]) CheckRead(items []any, version string) error {
	_, err := states.CheckRead[T](s.key, items, version)
	return err
}

// NewEpoch begins a new epoch: the server was rolled back.
func (s *Slot[T]) NewEpoch() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.order.NewEpoch()
}

// Holds reports whether a complete read brought what the slot holds.
func (s *Slot[T]) Holds(items []any) bool { return s.Load().Holds(s.key, items) }

// Add stores an event, as Update does.
func (s *Slot[T]) Add(object any) error { return s.put(object, true) }

// Update stores an event.
func (s *Slot[T]) Update(object any) error { return s.put(object, true) }

// Delete stores the event of a deletion.
func (s *Slot[T]) Delete(object any) error { return s.put(object, false) }

// Resync does nothing.
func (s *Slot[T]) Resync() error { return nil }

// Bookmark records that the server has sent every change up to a version.
func (s *Slot[T]) Bookmark(version string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.order.Bookmark(version)
	return nil
}

// Replace stores a complete read.
func (s *Slot[T]) Replace(items []any, version string) error {
	read, err := states.CheckRead[T](s.key, items, version)
	if err != nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.storeLocked(s.order.Read(s.state, read, version, s.state.SameContent(read)))
	return nil
}

func (s *Slot[T]) put(item any, exists bool) error {
	object, err := states.CheckObject[T](s.key, item)
	if err != nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.storeLocked(s.order.Event(s.state, object, exists))
	return nil
}

func (s *Slot[T]) storeLocked(state states.State[T], verdict states.Verdict) {
	if verdict == states.Newer {
		s.state = state
		close(s.changed)
		s.changed = make(chan struct{})
	}
}
