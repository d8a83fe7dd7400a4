// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"iter"

	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/objectcache/access"
)

// Status returns the status of an object, and false if no owner references it.
// [Manager.OwnersOf] returns the owners whose IDs it has.
func (m *Manager[T]) Status(namespace, name string) (objectcache.Status, bool) {
	return m.store.Status(namespace, name)
}

// Statuses yields the status of every referenced object, in no order.
func (m *Manager[T]) Statuses() iter.Seq[objectcache.Status] { return m.store.Statuses() }

// Stats returns what the store holds and has done so far.
func (m *Manager[T]) Stats() objectcache.Stats { return m.store.Stats() }

// Access returns the objects that owners reference now, and what the store needs for each,
// for package access:
//
//	roles, err := access.Roles("gateway", m.Access())
func (m *Manager[T]) Access() access.Objects { return access.Of(m.store, m.referenced()...) }
