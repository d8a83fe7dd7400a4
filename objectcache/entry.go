// SPDX-License-Identifier: Apache-2.0

package objectcache

import (
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/refwatch/refwatch/cache"
)

// entry is a referenced object, from its first reference to its last. All fields
// without a note are guarded by WatchStore.mu.
type entry[T cache.Object] struct {
	waker

	key    types.NamespacedName
	number uint64                         // differs from that of other entries of the key
	epoch  uint64                         // of the next watch that has no predecessor
	watch  atomic.Pointer[objectWatch[T]] // nil before Run, when idle, and when stopped. Written with WatchStore.mu held
	used   atomic.Uint32                  // uses: which timers have not fired since the last use
	// watching counts the references that are not read-once. Written with
	// WatchStore.mu held.
	watching atomic.Int32
	owners   owners
	// newestOwner is the number of the newest read for an owner that a Get must
	// have. If an object that needs no stream has no such read, it is read again.
	// Written with WatchStore.mu held.
	newestOwner atomic.Uint64
	// previousFor is the newest owner without whose read all owners have the previous
	// state.
	previousFor  atomic.Uint64
	ownerAddedAt time.Time // when the last owner was added
	readBegan    time.Time // when the last read began that startReadLocked started
	readsUntil   time.Time // when the reads for owners will have been demandSpacing apart

	idleTimer  *timer // nil without an IdleTimeout
	readTimer  *timer // of the next read of an object that is unwatched, or was; may be nil
	leaseTimer *timer // nil unless a Get has acquired the object

	synced  bool // its state has been known, also if it is not known now
	counted bool // needs a stream: see sharedNamespace.counted

	waiters int // Gets that wait
}

// entry returns the entry of a key, nil if no owner references it.
func (s *WatchStore[T]) entry(key types.NamespacedName) *entry[T] {
	if e, ok := s.entries.Load(key); ok {
		return e.(*entry[T])
	}
	return nil
}

// readOnce reports whether all references are read-once.
func (e *entry[T]) readOnce() bool { return e.watching.Load() == 0 }

// newestOwnerLocked returns the number of the read for the newest owner that is not gone. It
// looks through the owners only if w has no read for the newest of all.
func (e *entry[T]) newestOwnerLocked(w *objectWatch[T]) uint64 {
	if w.readFor.Load() < e.newestOwner.Load() {
		e.newestOwner.Store(e.owners.newest())
	}
	return e.newestOwner.Load()
}
