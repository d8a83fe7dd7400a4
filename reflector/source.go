// SPDX-License-Identifier: Apache-2.0

package reflector

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

// Source is one selection of one resource on an API server: it adds its own
// namespace and selectors to the options that it is given. Both methods must
// follow their context, and be ready to be called at the same time.
type Source interface {
	// List reads the selection. The result is a list type with a resource version.
	List(ctx context.Context, options metav1.ListOptions) (runtime.Object, error)
	// Watch opens a stream of changes. The stream ends when ctx does.
	Watch(ctx context.Context, options metav1.ListOptions) (Stream, error)
}

// Stream is an open watch.
type Stream interface {
	// Next blocks until there is an event. At the regular end of the stream the
	// error is io.EOF; after any error there is nothing more to come. It is
	// called from one goroutine.
	Next() (watch.Event, error)
	// Close ends the stream and makes a blocked Next return. It may be called
	// from any goroutine, more than once.
	Close() error
}
