// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

// Rewriter changes responses on their way to the client. A nil function changes nothing. The server calls both
// concurrently and without locks, with objects that they may change. They may block until ctx ends, which is when the
// client disconnects or the server closes. An object that they return needs its TypeMeta.
type Rewriter struct {
	// Event returns the events that a watch sends instead of event: the same, none, another, or several. The type of an
	// event may be any word. The watch ends after an ERROR event, as in kube-apiserver. Bookmarks are events too: the
	// one that ends the initial events has the annotation metav1.InitialEventsAnnotationKey.
	Event func(ctx context.Context, request Request, event watch.Event) []watch.Event
	// Object returns the object that a response has instead of object: a single one, a list or a Status. The HTTP
	// status stays. If it returns nil, the response is as it was.
	Object func(ctx context.Context, request Request, object runtime.Object) runtime.Object
}

// Rewrite applies r from now on, also to open watches. It replaces the Rewriter before; the zero value changes nothing.
// To add an event that no write has caused, use [Server.Send].
func (s *Server) Rewrite(r Rewriter) {
	s.faults.mu.Lock()
	defer s.faults.mu.Unlock()
	s.faults.rewriter = r
}

func (f *faults) rewrite() Rewriter {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.rewriter
}

// rewriteEvent returns the events to send instead of e.
func (c *call) rewriteEvent(e watch.Event) []watch.Event {
	rewrite := c.faults.rewrite().Event
	if rewrite == nil {
		return []watch.Event{e}
	}
	e.Object = e.Object.DeepCopyObject()
	return rewrite(c.r.Context(), c.request, e)
}

// rewriteObject returns the object to send instead of obj.
func (c *call) rewriteObject(obj runtime.Object) runtime.Object {
	rewrite := c.faults.rewrite().Object
	if rewrite == nil {
		return obj
	}
	if other := rewrite(c.r.Context(), c.request, obj.DeepCopyObject()); other != nil {
		return other
	}
	return obj
}

// Send sends events on the open watches for which match returns true, or on all if match is nil, behind those that the
// server has queued for them. No selection and no [Rewriter] applies to them. They may be old, of another object or
// type, or have a Status: the watch ends after an ERROR event. Their objects need their TypeMeta; do not change them
// afterwards. Send returns the number of watches, and does not wait until the events are sent.
func (s *Server) Send(match func(Request) bool, events ...watch.Event) int {
	watchers := s.watchers(match)
	for _, w := range watchers {
		for _, e := range events {
			w.inject(&event{injected: &e})
		}
	}
	return len(watchers)
}
