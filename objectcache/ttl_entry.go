// SPDX-License-Identifier: Apache-2.0

package objectcache

import (
	"context"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/refwatch/refwatch/cache"
	"github.com/refwatch/refwatch/reflector"
)

// ttlEntry is a referenced object of a [TTLStore], from its first reference to its
// last. All fields without a note are guarded by TTLStore.mu.
type ttlEntry[T cache.Object] struct {
	waker

	key     types.NamespacedName
	number  uint64                     // differs from that of other entries of the key
	reader  *reflector.Reader          // set once
	reading atomic.Pointer[reading[T]] // nil before the first read, and when stopped. Written with TTLStore.mu held
	order   cache.Order[T]             // of the reads, which do not overlap; only they use it

	owners       owners
	newestOwner  atomic.Uint64 // the read that the newest owner needs. Written with TTLStore.mu held
	ownerAddedAt time.Time     // when the last owner was added

	cancel    context.CancelFunc // ends the goroutine that reads; nil if there is none
	underWay  bool               // a request is under way
	asked     uint64             // the newest read that a Get has asked for
	lastBegan time.Time          // when the last request began
}

// reading is what the reads of an object have brought so far. It never changes.
type reading[T cache.Object] struct {
	state cache.State[T]
	began time.Time     // when the read that brought the state began
	ttl   time.Duration // for how long the state is served from then on
	// readFor is the number of the newest read that was asked for before that read
	// began, and triedFor the same of the last attempt, which may have failed.
	readFor, triedFor uint64
	failing           bool // the last attempt failed
}

// entry returns the entry of a key, nil if no owner references it.
func (s *TTLStore[T]) entry(key types.NamespacedName) *ttlEntry[T] {
	if e, ok := s.entries.Load(key); ok {
		return e.(*ttlEntry[T])
	}
	return nil
}

// replacedBy returns the reading that follows r, which may be nil, when a read has
// succeeded. The object that is held stays the same one if nothing has changed. It
// compares content, so no lock is held.
func (r *reading[T]) replacedBy(read *reading[T], order *cache.Order[T]) *reading[T] {
	var held cache.State[T]
	if r != nil {
		held = r.state
	}
	read.state, _ = order.ReadObject(held, read.state, held.SameContent(read.state))
	return read
}

// afterFailure returns the reading that follows r, which may be nil, when an attempt has
// failed.
func (r *reading[T]) afterFailure(triedFor uint64) *reading[T] {
	if r == nil {
		return nil
	}
	next := *r
	next.triedFor, next.failing = triedFor, true
	return &next
}

// isImmutable reports whether a state can never change.
func (s *TTLStore[T]) isImmutable(state cache.State[T]) bool {
	return s.resource.immutable != nil && state.Exists && s.resource.immutable(state.Object)
}

// isStale reports whether a reading is older than a bound; 0 is no bound. An immutable
// object is never stale.
func (s *TTLStore[T]) isStale(r *reading[T], bound time.Duration) bool {
	return bound > 0 && time.Since(r.began) > bound && !s.isImmutable(r.state)
}

// servable reports whether Get may return a reading, which may be nil, to all owners up
// to newestOwner. An object whose TTL is over is served while it cannot be read. An
// absence is not: NotFound would be older than TTLOptions.NotFoundTTL.
func (s *TTLStore[T]) servable(r *reading[T], newestOwner uint64, maxStaleness time.Duration) bool {
	if r == nil || r.triedFor < newestOwner || s.isStale(r, maxStaleness) {
		return false
	}
	return r.failing && r.state.Exists || time.Since(r.began) < r.ttl
}
