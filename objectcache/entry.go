// SPDX-License-Identifier: Apache-2.0

package objectcache

import (
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/refwatch/refwatch/cache"
	"github.com/refwatch/refwatch/objectcache/internal/engine"
)

// entry is a referenced object, from its first reference to its last. All fields
// without a note are guarded by WatchStore.mu.
type entry[T cache.Object] struct {
	waker

	key    types.NamespacedName
	number uint64                         // differs from that of other entries of the key
	view   atomic.Pointer[view[T]]        // nil while nothing is known. Written with WatchStore.mu held
	watch  atomic.Pointer[objectWatch[T]] // nil before Run, when idle, and when stopped. Written with WatchStore.mu held
	used   atomic.Uint32                  // uses: which timers have not fired since the last use
	// contact is when the server last sent something, as a duration since WatchStore.base; 0
	// for never. It is written after the state, with WatchStore.mu held: see WatchStore.contact.
	contact atomic.Int64

	order     cache.Order[T] // of what its watches have brought
	immutable bool           // the state can never change, and needs no stream
	// live is set while a stream brings the changes of the state, to which a new owner then
	// needs no read of its own.
	live    bool
	noticed bool // a read has been recorded
	// readFor is the highest number of a read that was asked for before the consistent read
	// of the state began: see owners.
	readFor uint64
	// newestOwner is the number of the newest read for an owner that a Get must have. If an
	// object that needs no stream has no such read, it is read again.
	newestOwner uint64
	// previousFor is the newest owner without whose read all owners have the previous
	// state.
	previousFor uint64

	owners       engine.Owners
	watching     int       // references that are not read-once
	ownerAddedAt time.Time // when the last owner was added
	startedAt    time.Time // just before the first of its watches began, or the first after it was idle
	readBegan    time.Time // when the last read began that startReadLocked started
	readsUntil   time.Time // when the reads for owners will have been demandSpacing apart

	idleTimer  *timer // nil without an IdleTimeout
	readTimer  *timer // of the next read of an object without a stream; may be nil
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
func (e *entry[T]) readOnce() bool { return e.watching == 0 }

// newestOwnerLocked returns the number of the read for the newest owner that is not gone. It
// looks through the owners only if there was no read for the newest of all. It updates
// newestOwner: to see whether an owner that is gone was the newest, load that before.
func (e *entry[T]) newestOwnerLocked() uint64 {
	if e.readFor < e.newestOwner {
		e.newestOwner = e.owners.Newest()
	}
	return e.newestOwner
}

// needsOwnerRead reports whether the state may be served to a new owner only if it was read
// for that owner.
func (e *entry[T]) needsOwnerRead() bool {
	return engine.NeedsOwnerRead(e.state().Synced, e.live, e.immutable)
}

// forgetLocked drops what is known of the object, which nothing else keeps in memory. What is
// known next is of another epoch.
func (e *entry[T]) forgetLocked() {
	e.order.NewEpoch()
	e.view.Store(nil)
	e.contact.Store(0)
	e.immutable, e.live, e.noticed, e.readFor = false, false, false, 0
}
