// SPDX-License-Identifier: Apache-2.0

package resource

import (
	"context"
	"errors"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/util/watchlist"

	"github.com/refwatch/refwatch/cache"
	"github.com/refwatch/refwatch/internal/redact"
	"github.com/refwatch/refwatch/internal/reflector/listwatch"
)

// Refuses answers that are not of the resource, for clients that decode them.

// accepted returns a source that refuses answers that are not of the resource. An error ends
// the attempt. [listwatch.RESTResource] checks its answers itself.
func (r *Resource[T]) accepted(source listwatch.Source) listwatch.Source {
	if r.rest != nil {
		return source // whoever stores an object drops the managedFields
	}
	return &acceptedSource[T]{source, r}
}

type acceptedSource[T cache.Object] struct {
	listwatch.Source

	resource *Resource[T]
}

// IsWatchListSemanticsUnSupported implements the method that reflectors look for.
func (s *acceptedSource[T]) IsWatchListSemanticsUnSupported() bool {
	return watchlist.DoesClientNotSupportWatchListSemantics(s.Source)
}

func (s *acceptedSource[T]) List(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	return s.accept(s.Source.List(ctx, options))
}

// Peek implements [listwatch.Resumable].
func (s *acceptedSource[T]) Peek(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	if source, ok := s.Source.(listwatch.Resumable); ok {
		return s.accept(source.Peek(ctx, options))
	}
	return s.List(ctx, options)
}

func (s *acceptedSource[T]) accept(list runtime.Object, err error) (runtime.Object, error) {
	if err == nil {
		err = s.resource.checkList(list)
	}
	if err != nil {
		return nil, err
	}
	return list, nil
}

// IsLarge implements [listwatch.Resumable].
func (s *acceptedSource[T]) IsLarge() bool {
	source, ok := s.Source.(listwatch.Resumable)
	return ok && source.IsLarge()
}

// Compare implements [listwatch.Resumable]. It is called if IsLarge.
func (s *acceptedSource[T]) Compare(ctx context.Context, options metav1.ListOptions) (list runtime.Object, same bool, err error) {
	if source, ok := s.Source.(listwatch.Resumable); ok {
		return source.Compare(ctx, options)
	}
	return nil, false, errors.ErrUnsupported
}

func (s *acceptedSource[T]) Watch(ctx context.Context, options metav1.ListOptions) (listwatch.Stream, error) {
	stream, err := s.Source.Watch(ctx, options)
	if err != nil || stream == nil {
		return nil, err
	}
	accepted := &acceptedStream[T]{stream, s.resource}
	if parkable, ok := stream.(listwatch.Parkable); ok {
		return &acceptedParkable[T]{accepted, parkable}, nil
	}
	return accepted, nil
}

type acceptedStream[T cache.Object] struct {
	listwatch.Stream

	resource *Resource[T]
}

// Next returns the next event.
func (s *acceptedStream[T]) Next() (watch.Event, error) {
	event, err := s.Stream.Next()
	if err != nil {
		return event, err
	}
	return s.resource.accept(event)
}

// acceptedParkable is a [listwatch.Parkable] acceptedStream.
type acceptedParkable[T cache.Object] struct {
	*acceptedStream[T]

	parkable listwatch.Parkable
}

// Park implements [listwatch.Parkable].
func (s *acceptedParkable[T]) Park(wake listwatch.Waker) bool { return s.parkable.Park(wake) }

// TryNext implements [listwatch.Parkable].
func (s *acceptedParkable[T]) TryNext() (event watch.Event, ok bool, err error) {
	event, ok, err = s.parkable.TryNext()
	if err == nil && ok {
		event, err = s.resource.accept(event)
	}
	return event, ok, err
}

// accept checks the object of an event. A bookmark of another kind is refused too: it may end
// the initial events, and would prove that there is no object.
func (r *Resource[T]) accept(event watch.Event) (watch.Event, error) {
	if event.Type == watch.Error {
		return event, nil // it holds a Status
	}
	object, ok := event.Object.(T)
	if !ok || isNil(object) {
		return watch.Event{}, redact.Errorf("%w: a %T where a %v belongs", cache.ErrMalformed, event.Object, reflect.TypeFor[T]())
	}
	if err := r.checkVersion(event.Object); err != nil {
		return watch.Event{}, err
	}
	return event, nil
}

// checkList returns an error if an answer is a list without a Go type, and not of the
// resource. client-go's dynamic client takes a Table, and one object, for a list without items,
// as which it would prove that the object is absent. Only an object has a name.
func (r *Resource[T]) checkList(answer runtime.Object) error {
	list, ok := answer.(*unstructured.UnstructuredList)
	if !ok {
		return nil
	}
	if name, ok, _ := unstructured.NestedFieldNoCopy(list.Object, "metadata", "name"); ok && name != "" {
		return redact.Errorf("%w: one object where a list belongs", cache.ErrMalformed)
	}
	err := r.checkVersion(list)
	for i := 0; err == nil && i < len(list.Items); i++ {
		err = r.checkVersion(&list.Items[i])
	}
	return err
}

// checkVersion returns an error if an object without a Go type is of another group and
// version than the resource. Its kind is not compared: that of the resource is not known.
func (r *Resource[T]) checkVersion(object runtime.Object) error {
	if _, ok := object.(runtime.Unstructured); !ok {
		return nil
	}
	want := r.pathResource().GroupVersion()
	// Fake clients may leave it empty.
	if got := object.GetObjectKind().GroupVersionKind().GroupVersion(); got.Empty() || got == want {
		return nil
	}
	// Without that of the object: where bodies are mixed up, it may be data.
	return redact.Errorf("%w: an object of another group and version where one of %q belongs", cache.ErrMalformed, want)
}
