// SPDX-License-Identifier: Apache-2.0

package listwatch

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/refwatch/refwatch/internal/reflector/internal/failure"
)

// Source lists and watches one selection of one resource on an API server. It adds
// its own namespace and selectors to the options of a call, and passes on the rest.
// Both methods must return when their context ends, and must be safe for concurrent
// use.
//
// A reflector asks for a WatchList first (KEP-3157), unless the source has a method
// IsWatchListSemanticsUnSupported that returns true, or client-go's feature gate WatchListClient is off.
//
// An error that is an API status (package apierrors) is treated by its code. Any other
// error means that no answer arrived: if several reflectors of a gate get such errors, the
// gate takes the server for down. Logs and errors show what package redact leaves of an error. A
// panic in a method fails the attempt, as an error does.
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

// Parkable is a Stream that needs no goroutine between two events: instead of blocking
// in Next, it calls Wake when there is an event.
type Parkable interface {
	Stream
	// Park makes the stream ready for TryNext, and returns true. From then on Next is not called, and the
	// stream ends only with Close, not with the context of its Watch. It is called once, and not beside Next.
	// It changes nothing and returns false if the stream cannot be parked: it does not come from the HTTP/2
	// client of package h2, or a wrapper of the client's transport hides its body.
	Park(wake Waker) bool
	// TryNext returns the next event, or the error that Next would return, and true. It does not block. It
	// returns false if there is none: Wake is then called once, as soon as there is one. It is called from one
	// goroutine at a time, and may be called beside Wake. After Close it returns an error. What has arrived
	// stays in memory until TryNext has returned it: call TryNext until it returns false.
	TryNext() (event watch.Event, ok bool, err error)
}

// Waker is notified by a [Parkable] stream.
type Waker interface {
	// Wake is called when TryNext has an event or an error to return: after Park, and after each TryNext that
	// returned false. It must not block, for all streams of the connection wait until it returns. It may be
	// called before Park returns, and not after Close, except for a call that was under way. small says that
	// TryNext decodes at most 16 KiB: Wake may call it itself.
	Wake(small bool)
	// TakeBookmark may be called in place of Wake, and as Wake is, with the version of a bookmark, if TryNext
	// has returned all that came before it. If it returns false, TryNext returns the bookmark.
	TakeBookmark(version string) (taken bool)
}

// ErrStore may be wrapped by an error of a Source that could not hand over what the
// server has sent, or of a store that could not take it, for a reason of the program. Such
// an error says nothing about the server: it counts for this selection alone.
var ErrStore = failure.ErrStore
