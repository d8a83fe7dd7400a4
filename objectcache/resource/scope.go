// SPDX-License-Identifier: Apache-2.0

package resource

import "errors"

// ClusterScoped returns the resource as one of a cluster-scoped kind, which a client
// without types, a config or a REST client cannot know of:
//
//	Dynamic(client, clusterWidgets).ClusterScoped()
//
// For typed clients use [NewClusterResource]; for the resource of a client that takes a
// namespace, stores return an error. The namespace of the objects is empty, in
// keys, in references and in Get. Their permissions are ClusterRoles.
//
// A cluster-scoped kind that is not marked so is a [NotServedError] at the first
// request. A namespaced kind that is marked so is not always found: its requests select a
// name in all namespaces. The server refuses them (403) if it allows only one namespace.
// Otherwise Get returns an error that wraps [cache.ErrForeign] if any namespace has an
// object of that name, and NotFound if none has.
func (r Resource[T]) ClusterScoped() Resource[T] {
	r.clusterScoped = true
	if r.hasNamespaces && r.nameError == nil {
		r.nameError = errors.New("its client takes a namespace, so its kind is namespaced: omit ClusterScoped, or use NewClusterResource")
	}
	return r
}
