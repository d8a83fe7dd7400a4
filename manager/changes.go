// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"iter"

	"k8s.io/apimachinery/pkg/types"

	"github.com/refwatch/refwatch/cache"
	"github.com/refwatch/refwatch/objectcache"
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
	// Owners are those that reference the object now.
	Owners []Owner
}

// Changes yields the referenced objects as they are, and then each that
// changes, with the owners it concerns, until ctx ends or the store is stopped.
// What is delivered, and in which order, is said at [objectcache.Watch.Changes].
// A store that does not follow objects yields nothing, until ctx ends. A nil
// context is logged, and yields nothing.
func (m *Manager[T]) Changes(ctx context.Context) iter.Seq[Change[T]] {
	store, ok := m.store.(interface {
		Changes(context.Context) iter.Seq[objectcache.Change[T]]
	})
	return func(yield func(Change[T]) bool) {
		if ctx == nil {
			m.logger().Error(objectcache.ErrNilContext, "No changes are delivered")
			return
		}
		if !ok {
			<-ctx.Done()
			return
		}
		for change := range store.Changes(ctx) {
			if !yield(Change[T]{change.Key, change.Object, change.Deleted, m.known(change.Owners)}) {
				return
			}
		}
	}
}

// known returns the owners of those UIDs; one that has gone meanwhile is left
// out.
func (m *Manager[T]) known(ids []types.UID) []Owner {
	m.mu.Lock()
	defer m.mu.Unlock()
	owners := make([]Owner, 0, len(ids))
	for _, id := range ids {
		if holding, ok := m.owners.byID[id]; ok {
			owners = append(owners, holding.owner)
		}
	}
	return owners
}
