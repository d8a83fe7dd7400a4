// SPDX-License-Identifier: Apache-2.0

package model

import (
	"context"
	"net/http"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/refwatch/refwatch/test/apiserver"
	"github.com/refwatch/refwatch/test/network"
)

// injections are the places where faults are injected, beside World.intercept and World.onDial.
type injections struct {
	events   list[func(context.Context, apiserver.Request, watch.Event) []watch.Event]
	answers  list[func(apiserver.Request, runtime.Object) runtime.Object]
	wraps    list[apiserver.Middleware]
	connects list[func(*network.Conn)]
}

// events changes the events of the subjects' watches, until remove is called: see [apiserver.Rewriter].
func (w *World) events(f func(apiserver.Request, watch.Event) []watch.Event) (remove func()) {
	return w.eventsOf(func(_ context.Context, request apiserver.Request, e watch.Event) []watch.Event { return f(request, e) })
}

// eventsOf is events for a function that may block until the context of the watch ends.
func (w *World) eventsOf(f func(context.Context, apiserver.Request, watch.Event) []watch.Event) (remove func()) {
	return addTo(w, &w.injected.events, f)
}

// answers changes the lists and objects that the subjects read, until remove is called: see [apiserver.Rewriter].
func (w *World) answers(f func(apiserver.Request, runtime.Object) runtime.Object) (remove func()) {
	return addTo(w, &w.injected.answers, f)
}

// wrap changes the responses to the subjects, until remove is called: see [apiserver.Server.Wrap].
func (w *World) wrap(f apiserver.Middleware) (remove func()) { return addTo(w, &w.injected.wraps, f) }

// connects calls f with each connection that the subjects dial, until remove is called.
func (w *World) connects(f func(*network.Conn)) (remove func()) {
	return addTo(w, &w.injected.connects, f)
}

// reached counts that a fault has changed something for a subject. The test of the catalog needs it.
func (w *World) reached() { w.effects.Add(1) }

// hook hooks the world into its server and its network.
func (w *World) hook() {
	w.server.Rewrite(apiserver.Rewriter{
		Event: func(ctx context.Context, request apiserver.Request, e watch.Event) []watch.Event {
			events := []watch.Event{e}
			if !ofSubjects(request) {
				return events
			}
			for _, f := range functionsOf(w, &w.injected.events) {
				var changed []watch.Event
				for _, e := range events {
					changed = append(changed, f(ctx, request, e)...)
				}
				events = changed
			}
			return events
		},
		Object: func(_ context.Context, request apiserver.Request, object runtime.Object) runtime.Object {
			if !ofSubjects(request) {
				return nil
			}
			for _, f := range functionsOf(w, &w.injected.answers) {
				object = f(request, object)
			}
			return object
		},
	})
	w.server.Wrap(func(rw http.ResponseWriter, r *http.Request, request apiserver.Request, next http.HandlerFunc) {
		if ofSubjects(request) {
			for _, f := range functionsOf(w, &w.injected.wraps) {
				server := next
				next = func(rw http.ResponseWriter, r *http.Request) { f(rw, r, request, server) }
			}
		}
		next(rw, r)
	})
	w.network.OnConnect(func(c *network.Conn) {
		for _, f := range functionsOf(w, &w.injected.connects) {
			w.reached()
			f(c)
		}
	})
}

// list holds the functions of faults, in the order in which they were added. It is guarded by World.mu. The elements
// are pointers, so that they can be compared.
type list[T any] []*T

// addTo adds a function to a list.
func addTo[T any](w *World, l *list[T], f T) (remove func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	added := &f
	*l = append(*l, added)
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		*l = slices.DeleteFunc(*l, func(other *T) bool { return other == added })
	}
}

// functionsOf returns the functions of a list.
func functionsOf[T any](w *World, l *list[T]) (functions []T) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, f := range *l {
		functions = append(functions, *f)
	}
	return functions
}

// connections calls f for each connection of the subjects.
func (w *World) connections(f func(*network.Conn)) {
	w.network.Each(func(c *network.Conn) {
		w.reached()
		f(c)
	})
}

// closeStreams ends the streams that a fault affects.
func (w *World) closeStreams(t Target) {
	w.effects.Add(int64(w.server.CloseStreams(func(r apiserver.Request) bool { return ofSubjects(r) && t.Has(r) })))
}
