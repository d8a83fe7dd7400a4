// SPDX-License-Identifier: Apache-2.0

package resource

// ClusterScoped returns the resource as one of a cluster-scoped kind, of which no client
// knows:
//
//	Typed[*corev1.Node, *corev1.NodeList](clientset.CoreV1().RESTClient(),
//		corev1.SchemeGroupVersion.WithResource("nodes")).ClusterScoped()
//
// The namespace of the objects is empty, in keys, in references and in Get. Their
// permissions are ClusterRoles.
//
// A cluster-scoped kind that is not marked so is a [NotServedError] at the first
// request. A namespaced kind that is marked so is not always found: its requests select a
// name in all namespaces. The server refuses them (403) if it allows only one namespace.
// Otherwise Get returns an error that wraps [cache.ErrForeign] if any namespace has an
// object of that name, and NotFound if none has.
func (r Resource[T]) ClusterScoped() Resource[T] {
	r.clusterScoped = true
	return r
}
