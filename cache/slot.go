// SPDX-License-Identifier: Apache-2.0

package cache

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
)

var (
	// ErrForeign is returned by [Slot.Check] for an object that is not the
	// slot's: another name, namespace or type.
	ErrForeign = errors.New("foreign object")
	// ErrMalformed is returned by [Slot.Check] for an object whose resource
	// version is missing, "0" or not a number.
	ErrMalformed = errors.New("malformed object")
)

// SlotOptions changes how a [Slot] keeps its object. The zero value is valid.
type SlotOptions[T Object] struct {
	// Transform is applied to every object before it is stored or dropped as
	// stale. It owns its argument, may change it in place, and must return an
	// object with the same name, namespace, UID and resource version. Default:
	// drop managedFields.
	Transform func(T) T
	// Epoch is the number of the first epoch. Default: 0.
	Epoch uint64
}

// Slot holds the last known state of one object. Its methods are safe for
// concurrent use. Make one with [NewSlot].
type Slot[T Object] struct {
	key       types.NamespacedName
	transform func(T) T
	state     atomic.Pointer[State[T]] // nil until the first read or event

	mu      sync.Mutex    // serialises writers; readers of state do not take it
	version string        // highest resource version seen in this epoch
	next    bool          // nothing was read yet; state and version are from the slot before
	over    bool          // Next was called
	epoch   uint64        // of what is stored next
	dropped Dropped       // what was refused
	changed chan struct{} // made when first asked for, closed at the next change
}

var _ toolscache.ReflectorStore = (*Slot[Object])(nil)
var _ toolscache.ReflectorBookmarkStore = (*Slot[Object])(nil)

// NewSlot returns an empty slot for the object of that key.
func NewSlot[T Object](key types.NamespacedName, options SlotOptions[T]) *Slot[T] {
	transform := options.Transform
	if transform == nil {
		transform = dropManagedFields[T]
	}
	return &Slot[T]{key: key, transform: transform, epoch: options.Epoch}
}

// Next returns a slot for another writer, in place of this one, which keeps its
// state from now on, whatever is written to it. The new slot begins with that
// state, and its epochs go on from there. Its first read must be a consistent
// one: if that is older than what this slot has seen, or cannot have followed
// from what it holds, a new epoch begins.
func (s *Slot[T]) Next() *Slot[T] {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
	next := &Slot[T]{key: s.key, transform: s.transform, version: s.version, epoch: s.epoch, next: true}
	if state := s.state.Load(); state != nil && state.Synced {
		next.state.Store(state)
	}
	return next
}

func dropManagedFields[T Object](object T) T {
	object.SetManagedFields(nil)
	return object
}

// Load returns the last known state. It never blocks and never allocates.
func (s *Slot[T]) Load() State[T] {
	if state := s.state.Load(); state != nil {
		return *state
	}
	return State[T]{}
}

// Changed returns a channel that is closed at the next change of state. Take
// the channel first and Load after it: a change in between is then never missed.
// A read that brings what is already held is not a change.
func (s *Slot[T]) Changed() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.changed == nil {
		s.changed = make(chan struct{})
	}
	return s.changed
}

// Dropped tells what the slot refused so far.
func (s *Slot[T]) Dropped() Dropped {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.dropped
}

// Check tells whether an object may be stored here, without storing it. The
// error is [ErrForeign] or [ErrMalformed]; it names types and keys, never data.
func (s *Slot[T]) Check(object runtime.Object) error {
	_, err := s.checked(object)
	return err
}

// CheckRead tells whether a complete read says anything of the slot's object,
// without storing it. A read that holds something foreign, more than one object,
// no usable version, or an object newer than itself says nothing. The errors are
// those of Check.
func (s *Slot[T]) CheckRead(items []any, version string) error {
	_, err := s.checkedRead(items, version)
	return err
}

// NewEpoch forgets the highest version seen. The state stays and is served until
// the next Replace, and if that brings the very same object, the state does not
// change at all. Only a writer that has seen a consistent read below the highest
// version may call it: the server's history was rolled back.
func (s *Slot[T]) NewEpoch() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return
	}
	s.version = ""
	s.epoch++
}

// Holds tells whether a complete read brought what the slot holds already, by
// UID and resource version.
func (s *Slot[T]) Holds(items []any) bool {
	state := s.Load()
	if !state.Synced || len(items) > 1 || state.Exists != (len(items) == 1) {
		return false
	}
	if !state.Exists {
		return true
	}
	object, err := s.checked(items[0])
	return err == nil && object.GetUID() == state.Object.GetUID() && object.GetResourceVersion() == state.ResourceVersion
}

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

// Bookmark implements client-go's ReflectorBookmarkStore: every change up to
// this version has been delivered. It always returns nil.
func (s *Slot[T]) Bookmark(version string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := CheckVersion(version); err != nil {
		s.dropLocked(err)
		return nil
	}
	if order, _ := CompareVersions(version, s.version); order > 0 && !s.over {
		s.version = version
	}
	return nil
}

// Replace implements client-go's ReflectorStore: a complete read at that
// version. One that CheckRead refuses is dropped whole, as is one from before
// what the slot has seen. It always returns nil.
//
// A later read that brings an older object than the one held, or other content
// under the same version, proves that the server was rolled back and has
// overtaken since: a new epoch begins.
func (s *Slot[T]) Replace(items []any, version string) error {
	state, err := s.checkedRead(items, version)
	if state.Exists {
		state.Object = s.transform(state.Object)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.dropLocked(err)
		return nil
	}
	order, _ := CompareVersions(version, s.version)
	if s.over || order < 0 && !s.next {
		s.dropped.Stale++
		return nil
	}
	held := s.Load()
	same := identical(held, state)
	// Without a version NewEpoch was called, or there is nothing to compare with.
	if s.version != "" && (order < 0 || !same && rolledBack(held, state)) {
		s.epoch++
	}
	s.version, s.next = version, false
	if !same || !held.Synced {
		s.publishLocked(state)
	}
	return nil
}

// identical reports whether two states hold the same object with the same
// content, or none.
func identical[T Object](a, b State[T]) bool {
	if a.Exists != b.Exists || !a.Exists {
		return a.Exists == b.Exists
	}
	return a.ResourceVersion == b.ResourceVersion && equality.Semantic.DeepEqual(a.Object, b.Object)
}

// rolledBack reports whether a later read that is not identical to what is held
// cannot have followed from it.
func rolledBack[T Object](held, read State[T]) bool {
	if !held.Exists || !read.Exists {
		return false
	}
	order, _ := CompareVersions(read.ResourceVersion, held.ResourceVersion)
	return order <= 0
}

// put applies one event.
func (s *Slot[T]) put(item any, exists bool) {
	object, err := s.checked(item)
	if err == nil && exists {
		object = s.transform(object)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.dropLocked(err)
		return
	}
	version := object.GetResourceVersion()
	switch order, _ := CompareVersions(version, s.version); {
	case order > 0 && !s.over:
		s.version = version
	case !s.over && !exists && s.holdsLocked(object):
		// Some servers send a deletion with the object's last version. The
		// absence is then as new as anything that was seen.
		version = s.version
	default:
		s.dropped.Stale++
		return
	}
	// An event alone does not sync the slot: before the first complete read
	// nothing is known of an object that no event names.
	state := State[T]{Synced: s.Load().Synced, Exists: exists, ResourceVersion: version}
	if exists {
		state.Object = object
	}
	s.publishLocked(state)
}

// holdsLocked reports whether the state is this very object at this version.
func (s *Slot[T]) holdsLocked(object T) bool {
	held := s.Load()
	return held.Exists && held.ResourceVersion == object.GetResourceVersion() &&
		held.Object.GetUID() == object.GetUID()
}

// checkedRead returns the state that a complete read tells of, or why it tells
// of none.
func (s *Slot[T]) checkedRead(items []any, version string) (State[T], error) {
	if err := CheckVersion(version); err != nil {
		return State[T]{}, err
	}
	switch len(items) {
	case 0:
		return State[T]{Synced: true, ResourceVersion: version}, nil
	case 1:
	default:
		return State[T]{}, fmt.Errorf("%w: %d objects in a read of %s", ErrForeign, len(items), s.key)
	}
	object, err := s.checked(items[0])
	if err != nil {
		return State[T]{}, err
	}
	own := object.GetResourceVersion()
	if order, _ := CompareVersions(own, version); order > 0 {
		return State[T]{}, fmt.Errorf("%w: an object at version %s in a read at %s", ErrMalformed, own, version)
	}
	return State[T]{Object: object, Exists: true, Synced: true, ResourceVersion: own}, nil
}

// checked returns item as the slot's object, or why it is not.
func (s *Slot[T]) checked(item any) (T, error) {
	var none T
	object, ok := item.(T)
	if !ok || any(object) == any(none) {
		return none, fmt.Errorf("%w: a %T where a %T belongs", ErrForeign, item, none)
	}
	if object.GetName() != s.key.Name || object.GetNamespace() != s.key.Namespace {
		return none, fmt.Errorf("%w: %s/%s where %s belongs",
			ErrForeign, object.GetNamespace(), object.GetName(), s.key)
	}
	if err := CheckVersion(object.GetResourceVersion()); err != nil {
		return none, err
	}
	return object, nil
}

func (s *Slot[T]) dropLocked(err error) {
	if errors.Is(err, ErrForeign) {
		s.dropped.Foreign++
	} else {
		s.dropped.Malformed++
	}
}

// publishLocked makes state the current one, unless it is the one held already.
func (s *Slot[T]) publishLocked(state State[T]) {
	state.Epoch = s.epoch
	if held := s.state.Load(); held != nil && held.same(state) {
		return
	}
	s.state.Store(&state)
	if s.changed != nil {
		close(s.changed)
		s.changed = nil
	}
}

// same compares two states by what a reader can tell apart: an absence is the
// same whatever the version that showed it.
func (s *State[T]) same(other State[T]) bool {
	if s.Synced != other.Synced || s.Exists != other.Exists || s.Epoch != other.Epoch {
		return false
	}
	return !s.Exists || s.ResourceVersion == other.ResourceVersion && s.Object.GetUID() == other.Object.GetUID()
}
