// SPDX-License-Identifier: Apache-2.0

package cache

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Object is any Kubernetes object with metadata: every generated API type as a
// pointer, and *unstructured.Unstructured.
type Object interface {
	metav1.Object
	runtime.Object
}

// State is the last known state of one object. In the zero State nothing is known
// yet.
type State[T Object] struct {
	// Object is the object, shared and read-only; nil unless Exists.
	Object T
	// Exists is set if the object exists on the server. If neither Exists nor Synced
	// is set, that is not known.
	Exists bool
	// Synced is set once a complete read (a list, or the initial events of a
	// WatchList, or a GET) has reached the holder.
	Synced bool
	// ResourceVersion is the version of this state: the object's own if it exists,
	// otherwise that of the read or the deletion that showed its absence. Empty if a GET
	// has shown it.
	ResourceVersion string
	// Epoch is the number of the epoch in which the holder stored this state. A new
	// epoch begins when the server was rolled back. Versions of different epochs
	// cannot be compared: the same version may have other content.
	Epoch uint64
}
