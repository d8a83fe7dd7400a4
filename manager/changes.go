// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"iter"

	"k8s.io/apimachinery/pkg/types"

	"github.com/refwatch/refwatch/objectcache"
)

// Changes yields the first state of every referenced object, be it there, absent or
// refused, and then each change of it, until ctx ends or the store is stopped. A new
// owner of a known object counts as a change. Check Err before you use Object. The
// second value holds the owners that reference the object now; it is empty if only a Get
// has acquired the object ([objectcache.WatchOptions].AcquireOnGet).
// [objectcache.WatchStore.Changes] documents first states, order, loss and duplicates. A
// nil context is logged, and yields nothing.
func (m *Manager[T]) Changes(ctx context.Context) iter.Seq2[objectcache.Change[T], []Owner] {
	return func(yield func(objectcache.Change[T], []Owner) bool) {
		if ctx == nil {
			m.logger().Error(objectcache.ErrNilContext, "No changes are delivered")
			return
		}
		for change, ids := range m.store.Changes(ctx) {
			if !yield(change, m.ownersOf(change.Key, ids)) {
				return
			}
		}
	}
}

// ownersOf returns the owners with the given IDs, except those that no longer reference the object.
func (m *Manager[T]) ownersOf(key types.NamespacedName, ids []types.UID) []Owner {
	m.mu.Lock()
	defer m.mu.Unlock()
	owners := make([]Owner, 0, len(ids))
	for _, id := range ids {
		if registration := m.owners.byID[id]; registration.has(key) {
			owners = append(owners, registration.owner)
		}
	}
	return owners
}
