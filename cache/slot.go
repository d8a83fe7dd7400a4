// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"errors"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
)

var (
	// ErrForeign means that an object is not the slot's: it has another name,
	// namespace or type.
	ErrForeign = errors.New("foreign object")
	// ErrMalformed means that a server's answer cannot be right: a resource version is
	// missing, "0" or not a number, an object is newer than the read that holds it, or
	// package reflector cannot decode the answer.
	ErrMalformed = errors.New("malformed")
)

// Slot holds the last known state of one object. Its methods are safe for
// concurrent use. Make one with [NewSlot].
type Slot[T Object] struct {
	key   types.NamespacedName
	state atomic.Pointer[State[T]] // nil until the first read or event

	mu       sync.Mutex // serialises writers; readers of state do not take it
	order    Order[T]
	replaced bool          // Next was called
	changed  chan struct{} // made by Changed, closed at the next change
}

var _ toolscache.ReflectorStore = (*Slot[Object])(nil)
var _ toolscache.ReflectorBookmarkStore = (*Slot[Object])(nil)

// NewSlot returns an empty slot for the object with that key.
func NewSlot[T Object](key types.NamespacedName) *Slot[T] { return &Slot[T]{key: key} }

// Next returns a slot for another writer. It replaces this one, which keeps its
// state from now on and drops whatever is written to it. The new slot begins with
// this slot's state and epoch. Its first read must be a consistent one. If that
// read is older than what this slot has seen, or contradicts its state, a new epoch
// begins.
func (s *Slot[T]) Next() *Slot[T] {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.replaced = true
	next := &Slot[T]{key: s.key, order: s.order}
	next.order.NewWriter()
	if state := s.state.Load(); state != nil && state.Synced {
		next.state.Store(state)
	}
	return next
}

// Load returns the last known state. It never blocks and never allocates.
func (s *Slot[T]) Load() State[T] {
	if state := s.state.Load(); state != nil {
		return *state
	}
	return State[T]{}
}

// Version returns the highest resource version that the slot has seen in this epoch: that
// of a read, an event or a bookmark. A state that is loaded after the call has all changes
// up to it, once the slot has synced. It is empty if nothing was seen, and from
// [Slot.NewEpoch] to the next read. [Slot.Next] keeps it.
func (s *Slot[T]) Version() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.order.Version()
}

// Changed returns a channel that is closed at the next change of state. Call
// Changed before Load, so as not to miss a change in between. A read of the state
// that is already held is not a change.
func (s *Slot[T]) Changed() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.changed == nil {
		s.changed = make(chan struct{})
	}
	return s.changed
}

// Check returns nil if the slot accepts an object, and does not store it. The
// error wraps [ErrForeign] or [ErrMalformed]. It names types and keys, never data.
func (s *Slot[T]) Check(object runtime.Object) error {
	_, err := CheckObject[T](s.key, object)
	return err
}

// CheckRead returns nil if the slot accepts a complete read at a version, and does
// not store it. A slot does not accept a foreign object, more than one object, a
// malformed version, or an object newer than the read. The errors are those of
// Check.
func (s *Slot[T]) CheckRead(items []any, version string) error {
	_, err := CheckRead[T](s.key, items, version)
	return err
}

// NewEpoch begins a new epoch, in which no version has been seen. Load returns the
// same state until the next Replace, and after it as well if that brings the very
// same object. Call NewEpoch only after a consistent read below the highest version:
// the server was rolled back.
func (s *Slot[T]) NewEpoch() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.replaced {
		s.order.NewEpoch()
	}
}

// Holds reports whether a complete read brought what the slot holds already: see
// [State.Holds].
func (s *Slot[T]) Holds(items []any) bool { return s.Load().Holds(s.key, items) }

// Add implements client-go's ReflectorStore: an ADDED event. It always returns nil.
func (s *Slot[T]) Add(object any) error {
	s.put(object, true)
	return nil
}

// Update implements client-go's ReflectorStore: a MODIFIED event. It always
// returns nil.
func (s *Slot[T]) Update(object any) error {
	s.put(object, true)
	return nil
}

// Delete implements client-go's ReflectorStore: a DELETED event. It always
// returns nil.
func (s *Slot[T]) Delete(object any) error {
	s.put(object, false)
	return nil
}

// Resync implements client-go's ReflectorStore; there is nothing to do.
func (s *Slot[T]) Resync() error { return nil }

// Bookmark implements client-go's ReflectorBookmarkStore: the server has sent every
// change up to this version. It always returns nil.
func (s *Slot[T]) Bookmark(version string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.replaced && CheckVersion(version) == nil {
		s.order.Bookmark(version)
	}
	return nil
}

// Replace implements client-go's ReflectorStore: a complete read at a version. The
// slot drops a read that CheckRead does not accept, and one that is late: see
// [Order.Read]. Replace always returns nil.
func (s *Slot[T]) Replace(items []any, version string) error {
	state, err := CheckRead[T](s.key, items, version)
	if err != nil {
		return nil
	}
	if state.Exists {
		state.Object.SetManagedFields(nil)
	}
	same := s.lockAndCompare(state)
	defer s.mu.Unlock()
	if !s.replaced {
		s.storeLocked(s.order.Read(s.Load(), state, version, same))
	}
	return nil
}

// lockAndCompare takes mu, and reports whether the slot holds a state. It compares content
// without mu, and again in the rare case that the state has changed meanwhile.
func (s *Slot[T]) lockAndCompare(state State[T]) (same bool) {
	for {
		before := s.state.Load()
		same = s.Load().SameContent(state)
		s.mu.Lock()
		if s.state.Load() == before {
			return same
		}
		s.mu.Unlock()
	}
}

// put applies one event.
func (s *Slot[T]) put(item any, exists bool) {
	object, err := CheckObject[T](s.key, item)
	if err != nil {
		return
	}
	if exists {
		object.SetManagedFields(nil)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.replaced {
		s.storeLocked(s.order.Event(s.Load(), object, exists))
	}
}

// storeLocked makes a state that of the slot and closes the channel of Changed, unless it
// is the state that the slot holds, or came late.
func (s *Slot[T]) storeLocked(state State[T], verdict Verdict) {
	if verdict == Late || verdict == Same {
		return
	}
	s.state.Store(&state)
	if s.changed != nil {
		close(s.changed)
		s.changed = nil
	}
}
