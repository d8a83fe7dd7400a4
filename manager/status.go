// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"errors"
	"iter"
	"slices"

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

// Stats returns what the store holds and has done so far.
func (m *Manager[T]) Stats() objectcache.Stats { return m.store.Stats() }

// Roles returns the permissions that the store needs for the given objects: one Role of
// that name per namespace. Without keys it returns those for all objects that owners
// reference now, and leaves out keys that no object can have.
// [objectcache.Resource.Roles] documents Roles and errors.
func (m *Manager[T]) Roles(name string, keys ...types.NamespacedName) ([]rbacv1.Role, error) {
	if len(keys) == 0 {
		keys = slices.DeleteFunc(m.referenced(), func(key types.NamespacedName) bool {
			_, err := m.store.Roles(name, key)
			return errors.Is(err, objectcache.ErrInvalidName)
		})
	}
	return m.store.Roles(name, keys...)
}

// ClusterRoles is Roles for a cluster-scoped kind.
func (m *Manager[T]) ClusterRoles(name string, keys ...types.NamespacedName) ([]rbacv1.ClusterRole, error) {
	if len(keys) == 0 {
		keys = slices.DeleteFunc(m.referenced(), func(key types.NamespacedName) bool {
			_, err := m.store.ClusterRoles(name, key)
			return errors.Is(err, objectcache.ErrInvalidName)
		})
	}
	return m.store.ClusterRoles(name, keys...)
}
