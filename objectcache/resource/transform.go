// SPDX-License-Identifier: Apache-2.0

package resource

import (
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/refwatch/refwatch/reflector/listwatch"
)

// ErrTransform is joined to ErrNotSynced of objectcache when the function of
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
// does not read, so that it takes no memory. It may change its argument and return it, or
// return another object with the same name, namespace, UID and resource version, which the
// store does not change. A function that is given already is called first.
//
// The function must keep the name, namespace, UID and resource version. It must return
// the same for the same object, because a store takes another content at the same version
// for another state of the server. The field "immutable" must stay for a store to notice
// that an object is immutable. Several goroutines call it.
//
// The function must not block. While it works with an object, Get returns the state before
// it. If there is none, Get waits, and its error says for how long the function has not
// returned. So does TransformingSince of the object's Status. Nothing limits that time. Run waits
// for the function when its context ends, and so does Get of a DirectStore.
//
// However many functions block, the changes of other objects are late by less than a second. Those
// of objects that share a stream wait for each other: when one call has taken half a second, the
// others get streams of their own. Shorter calls add up. While calls run, memory has the objects
// that they were given: as many as the server has answered for.
//
// The age of a state is that of the server's answer: see reflector.Options.Transform. So with a
// MaxStaleness below the time that the function takes, no Get is served from memory: each waits for
// a read, and TryGet asks for one.
//
// If the function panics, calls runtime.Goexit, or returns nil or an object with another name,
// namespace, UID or resource version, the object is refused: Get returns [ErrTransform] as the
// cause, or the state before it if there is one, and the store tries again. The value of a panic is
// not logged, for it may hold data.
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
	err = listwatch.Isolate(func() (err error) {
		before := identityOf(object)
		switch result = r.userTransform(object); {
		case isNil(result):
			return errNil
		case identityOf(result) != before:
			return errChanged
		}
		return nil
	})
	if err != nil {
		var none T
		return none, listwatch.Loggable(fmt.Errorf("%w: %s", ErrTransform, err)) //nolint:errorlint // ErrTransform is the only cause
	}
	return result, nil
}

var (
	errNil     = errors.New("it returned nil")
	errChanged = errors.New("it changed the name, namespace, UID or resource version")
)

// identity is what a transform must keep.
type identity struct{ namespace, name, uid, version string }

func identityOf(object metav1.Object) identity {
	return identity{object.GetNamespace(), object.GetName(), string(object.GetUID()), object.GetResourceVersion()}
}
