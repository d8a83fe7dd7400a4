// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

// Observer has the functions that a server calls. A nil function is not called. They must return at once and must not
// call the [Server].
type Observer struct {
	// Write is called for each write, in the order of versions, before any client can read the result: the server holds
	// the lock of its store. A deletion of a namespace is one write for each object in it, and one for the namespace.
	// [Server.Restore] writes nothing.
	Write func(Write)
	// Request is called when a request arrives. Its Code is zero.
	Request func(Request)
	// Response is called when the server is about to send the status of its response, also if the client has
	// disconnected.
	Response func(Request)
	// StreamOpened and StreamClosed are called when a watch begins, before its first byte is sent, and after its end.
	// No event of the watch is sent before or after.
	StreamOpened, StreamClosed func(Request)
}

// Write is one write to one object.
type Write struct {
	// Type is Added, Modified or Deleted.
	Type     watch.EventType
	Resource schema.GroupResource
	Key      types.NamespacedName
	// Object is the state that was written. For a deletion it is the last state, at the version of the deletion. It is
	// also a runtime.Object. It is shared: do not change it.
	Object metav1.Object
}

// Observe notifies o of everything that happens from now on. It replaces the observer before.
func (s *Server) Observe(o Observer) {
	s.store.mu.Lock()
	s.store.observe = o.Write
	s.store.mu.Unlock()
	s.records.mu.Lock()
	s.records.observer = o
	s.records.mu.Unlock()
}

// write returns the event as an observer gets it.
func (e *event) write(resource schema.GroupResource) Write {
	w := Write{Type: watch.Modified, Resource: resource, Key: e.key, Object: e.object}
	switch {
	case e.deleted:
		w.Type = watch.Deleted
	case e.previous == nil:
		w.Type = watch.Added
	}
	return w
}
