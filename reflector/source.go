// SPDX-License-Identifier: Apache-2.0

package reflector

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

// Source is one selection of one resource on an API server: it adds its own
// namespace and selectors to the options that it is given. Both methods must
// follow their context, and be ready to be called at the same time.
//
// An error of theirs is shown, in a [Status] and in logs, with its text if it is
// of a kind that quotes no object: an API status of the server's, a *url.Error or
// another error of the network, of a context, or io.EOF. Of any other error only
// the type is shown; errors.Is still finds what it wraps. A panic in a method
// fails the attempt, as an error does.
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

// careful is implemented by the sources and streams of this package whose errors
// quote no object, whatever their type is. Those of an API status may.
type careful interface{ careful() }

// errNoStream is the cause when a source returned neither a stream nor an error.
var errNoStream = fmt.Errorf("%w: no stream, and no error", ErrMalformed)

// sourceError is the error of a source or stream as it may be handed on.
func sourceError(of any, err error) error {
	if _, ok := of.(careful); ok && statusCode(err) == 0 {
		return err
	}
	return harmless(err)
}

// listFrom lists a source, which may be anybody's code.
func listFrom(ctx context.Context, source Source, options metav1.ListOptions) (list runtime.Object, err error) {
	defer recovered(&err)
	list, err = source.List(ctx, options)
	return list, sourceError(source, err)
}

// watchFrom opens a stream of a source, which may be anybody's code.
func watchFrom(ctx context.Context, source Source, options metav1.ListOptions) (stream Stream, err error) {
	defer recovered(&err)
	stream, err = source.Watch(ctx, options)
	if stream == nil && err == nil {
		return nil, errNoStream
	}
	return stream, sourceError(source, err)
}

// closeStream closes a stream. There is nothing to be done about a failure.
func closeStream(stream Stream) {
	var ignored error
	defer recovered(&ignored)
	_ = stream.Close()
}
