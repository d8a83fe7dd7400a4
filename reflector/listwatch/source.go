// SPDX-License-Identifier: Apache-2.0

package listwatch

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/refwatch/refwatch/reflector/internal/redact"
)

// Source lists and watches one selection of one resource on an API server. It adds
// its own namespace and selectors to the options of a call. Both methods must return
// when their context ends, and must be safe for concurrent use.
//
// The text of an error appears in logs and in errors of a reflector if the type of
// the error quotes no object: an API status, a *url.Error or another error of the
// network, of a context, or io.EOF, or if the error wraps [ErrLoggable]. Otherwise
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

// ErrLoggable is for sources of your own: the text of an error that wraps it holds no
// object data and is not hidden.
var ErrLoggable = redact.ErrLoggable
