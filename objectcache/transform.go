// SPDX-License-Identifier: Apache-2.0

package objectcache

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/util/watchlist"

	"github.com/refwatch/refwatch/cache"
	"github.com/refwatch/refwatch/reflector/listwatch"
)

// ErrTransform is joined to [ErrNotSynced] when the function of
// [Resource.WithTransform] has panicked, or has returned another object than it was
// given. The server's object was not stored.
var ErrTransform error = transformError{}

// transformError is [listwatch.ErrStore] to a reflector: it says nothing about the server.
type transformError struct{}

func (transformError) Error() string { return "the function of WithTransform failed" }

// Is implements the method that errors.Is looks for.
func (transformError) Is(target error) bool { return target == listwatch.ErrStore }

// WithTransform returns the resource with a function that is applied to each object
// before it is stored, after its managedFields were dropped. It removes what the program
// does not read, so that it takes no memory. It may change its argument and return it,
// or return another object. A function that is given already is called first.
//
// The function must keep the name, namespace, UID and resource version. It must return
// the same for the same object, because a store takes another content at the same version
// for another state of the server. The field "immutable" must stay for a store to notice
// that an object is immutable. It is called by several goroutines, and must not block.
//
// An object for which the function panics, or returns another object or nil, is refused:
// Get returns [ErrTransform] as the cause, or the state before it if there is one, and
// the store tries again. The value of the panic is not logged, for it may hold data.
func (r Resource[T]) WithTransform(transform func(T) T) Resource[T] {
	before := r.userTransform
	switch {
	case transform == nil:
	case before == nil:
		r.userTransform = transform
	default:
		r.userTransform = func(object T) T { return transform(before(object)) }
	}
	return r
}

// transform returns what a store keeps of an object, which it may change: the object
// without managedFields, after the function of WithTransform. The error is ErrTransform.
func (r *Resource[T]) transform(object T) (result T, err error) {
	object.SetManagedFields(nil)
	if r.userTransform == nil {
		return object, nil
	}
	before := identityOf(object)
	if err = listwatch.CatchPanic(func() { result = r.userTransform(object) }); err != nil {
		return result, transformFailed(err.Error())
	}
	var none T
	if isNil(result) {
		return none, transformFailed("it returned nil")
	}
	if identityOf(result) != before {
		return none, transformFailed("it changed the name, namespace, UID or resource version")
	}
	return result, nil
}

func transformFailed(how string) error {
	return listwatch.Loggable(fmt.Errorf("%w: %s", ErrTransform, how))
}

// identity is what a transform must keep.
type identity struct{ namespace, name, uid, version string }

func identityOf(object metav1.Object) identity {
	return identity{object.GetNamespace(), object.GetName(), string(object.GetUID()), object.GetResourceVersion()}
}

// transformedSource returns a source whose objects are transformed as soon as they are decoded.
// A failure ends the attempt, with its cause.
func (r *Resource[T]) transformedSource(source listwatch.Source) listwatch.Source {
	if r.userTransform == nil {
		return source // the slot drops the managedFields
	}
	return &transformingSource[T]{source, r}
}

type transformingSource[T cache.Object] struct {
	listwatch.Source

	resource *Resource[T]
}

// IsWatchListSemanticsUnSupported implements the method that reflectors look for.
func (s *transformingSource[T]) IsWatchListSemanticsUnSupported() bool {
	return watchlist.DoesClientNotSupportWatchListSemantics(s.Source)
}

func (s *transformingSource[T]) List(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	list, err := s.Source.List(ctx, options)
	if err != nil {
		return nil, err
	}
	objects, err := meta.ExtractListWithAlloc(list)
	if err != nil {
		return list, nil // the reflector reports what it is
	}
	for i, object := range objects {
		if objects[i], err = s.resource.transformItem(object); err != nil {
			return nil, err
		}
	}
	if err := meta.SetList(list, objects); err != nil {
		return nil, listwatch.Loggable(fmt.Errorf("%w: a %T cannot hold a %T", ErrTransform, list, objects[0]))
	}
	return list, nil
}

func (s *transformingSource[T]) Watch(ctx context.Context, options metav1.ListOptions) (listwatch.Stream, error) {
	stream, err := s.Source.Watch(ctx, options)
	if err != nil || stream == nil {
		return nil, err
	}
	return &transformingStream[T]{stream, s.resource}, nil
}

type transformingStream[T cache.Object] struct {
	listwatch.Stream

	resource *Resource[T]
}

// Next returns the next event.
func (s *transformingStream[T]) Next() (watch.Event, error) {
	event, err := s.Stream.Next()
	if err != nil {
		return event, err
	}
	return s.resource.transformEvent(event)
}

// Park implements [listwatch.Parkable], if the stream within does.
func (s *transformingStream[T]) Park(wake listwatch.Waker) bool {
	stream, ok := s.Stream.(listwatch.Parkable)
	return ok && stream.Park(wake)
}

// TryNext implements [listwatch.Parkable].
func (s *transformingStream[T]) TryNext() (event watch.Event, ok bool, err error) {
	event, ok, err = s.Stream.(listwatch.Parkable).TryNext()
	if err == nil && ok {
		event, err = s.resource.transformEvent(event)
	}
	return event, ok, err
}

// transformEvent transforms the object of an event. That of a deletion is not stored, nor
// is that of a bookmark or an error.
func (r *Resource[T]) transformEvent(event watch.Event) (watch.Event, error) {
	if event.Type != watch.Added && event.Type != watch.Modified {
		return event, nil
	}
	var err error
	if event.Object, err = r.transformItem(event.Object); err != nil {
		return watch.Event{}, err
	}
	return event, nil
}

// transformItem is transform for what a source has decoded. A store refuses an object of
// another type.
func (r *Resource[T]) transformItem(item runtime.Object) (runtime.Object, error) {
	object, ok := item.(T)
	if !ok || isNil(object) {
		return item, nil
	}
	return r.transform(object)
}
