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

// State is what is known of one object at one moment. The zero State means that
// nothing is known yet.
type State[T Object] struct {
	// Object is the object, shared and read-only; nil unless Exists.
	Object T
	// Exists tells whether the object was there. It means something only when
	// Synced is set.
	Exists bool
	// Synced is set once a complete read (a list, or the initial events of a
	// WatchList) has reached the slot.
	Synced bool
	// ResourceVersion is the version this state is from: the object's own when
	// it exists, otherwise that of the read or the deletion that showed its
	// absence.
	ResourceVersion string
	// Epoch counts the times the server was found rolled back and the state was
	// another one then. Versions of different epochs cannot be compared: the same
	// one may mean other content.
	Epoch uint64
}

// Dropped counts what a slot refused to store.
type Dropped struct {
	// Foreign counts objects of another name, namespace or type.
	Foreign uint64
	// Stale counts objects and reads that were not newer than what the slot
	// had seen, or came after [Slot.Next].
	Stale uint64
	// Malformed counts objects and reads without a usable resource version.
	Malformed uint64
}
