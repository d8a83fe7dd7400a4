// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"iter"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/refwatch/refwatch/objectcache"
)

// Status returns the status of an object, and false if no owner references it.
// [Manager.OwnersOf] returns the owners whose IDs it has.
func (m *Manager[T]) Status(namespace, name string) (objectcache.Status, bool) {
	return m.store.Status(namespace, name)
}

// Statuses yields the status of every referenced object, in no order.
func (m *Manager[T]) Statuses() iter.Seq[objectcache.Status] { return m.store.Statuses() }

// Roles returns the permissions that the store needs for the given objects: one Role of
// that name per namespace. Without keys it returns those for all objects that are
// referenced now. [objectcache.Resource.Roles] documents Roles and errors.
func (m *Manager[T]) Roles(name string, keys ...types.NamespacedName) ([]rbacv1.Role, error) {
	if len(keys) == 0 {
		for status := range m.store.Statuses() {
			keys = append(keys, status.Key)
		}
	}
	return m.store.Roles(name, keys...)
}

// OwnersOf returns the owners that reference an object now, sorted by their UIDs. It
// returns none for an object that only a Get has acquired
// ([objectcache.WatchOptions].AcquireOnGet).
func (m *Manager[T]) OwnersOf(namespace, name string) []Owner {
	status, _ := m.store.Status(namespace, name)
	return m.ownersByID(status.Owners)
}
