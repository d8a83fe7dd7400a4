// SPDX-License-Identifier: Apache-2.0

package listwatch

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/refwatch/refwatch/reflector/internal/failure"
	"github.com/refwatch/refwatch/reflector/internal/redact"
)

// Source lists and watches one selection of one resource on an API server. It adds
// its own namespace and selectors to the options of a call, and passes on the rest.
// Both methods must return when their context ends, and must be safe for concurrent
// use.
//
// A reflector asks for a WatchList first (KEP-3157): it calls Watch with
// SendInitialEvents set, and expects the state as Added events, then a bookmark with
// the annotation "k8s.io/initial-events-end", then the changes. A Source that serves
// only lists and plain watches has a method
//
//	IsWatchListSemanticsUnSupported() bool
//
// that returns true, as client-go's clients have; a reflector then calls List, and
// Watch from the version of the list. It does so for every Source if client-go's
// feature gate WatchListClient is off.
//
// An error that is an API status (package apierrors) is treated by its code. Any other
// error means that no answer arrived: if many reflectors of a gate that have synced
// before get such errors, the gate takes the server for down.
//
// The text of an error appears in logs and in errors of a reflector if the type of
// the error quotes no object: an API status, a *url.Error or another error of the
// network, of a context, or io.EOF, or if it is marked by [Loggable]. Otherwise
// only the type of the error appears; errors.Is still finds what it wraps. A panic
// in a method fails the attempt, as an error does.
type Source interface {
	// List reads the selection. The result is a list type with a resource version.
	List(ctx context.Context, options metav1.ListOptions) (runtime.Object, error)
	// Watch opens a stream of changes. The stream ends when ctx does.
	Watch(ctx context.Context, options metav1.ListOptions) (Stream, error)
}

// Stream is an open watch.
type Stream interface {
	// Next blocks until there is an event. At the regular end of the stream it
	// returns io.EOF; after an error there are no more events. It is called from one
	// goroutine at a time.
	Next() (watch.Event, error)
	// Close ends the stream and makes a blocked Next return. It may be called from
	// any goroutine, and more than once.
	Close() error
}

// ErrStore may be wrapped by an error of a Source that could not hand over what the
// server has sent, for a reason of the program. Such an error says nothing about the
// server: it counts for this selection alone.
var ErrStore = failure.ErrStore

// Loggable marks an error of a Source: its text holds no object data and is not hidden.
func Loggable(err error) error { return redact.Loggable(err) }

// CatchPanic calls f, and returns an error if f panics. The value of the panic may hold
// an object: the text of the error has its type and where f panicked, and no more.
func CatchPanic(f func()) (err error) {
	defer redact.Panic(&err)
	f()
	return nil
}
