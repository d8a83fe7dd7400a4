// SPDX-License-Identifier: Apache-2.0

package resource

import (
	"errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/refwatch/refwatch/internal/redact"
	"github.com/refwatch/refwatch/internal/reflector/listwatch"
)

// ErrTransform is joined to ErrNotSynced of objectcache when the function of
// [Resource.WithTransform] has panicked, or has returned nil or an object that it must not return.
var ErrTransform error = transformError{}

// transformError is [listwatch.ErrStore] to a reflector: it says nothing about the server.
type transformError struct{}

func (transformError) Error() string { return "the transform failed" }

// Is implements the method that errors.Is looks for.
func (transformError) Is(target error) bool { return target == listwatch.ErrStore }

// WithTransform returns the resource with a function that is applied to each object
// before it is stored, after its managedFields were dropped ([Resource.WithManagedFields]). It removes what the program
// does not read, so that it takes no memory. It may change its argument and return it, or
// return another object, to which the store does not write. A function that is given already is
// called first. Several goroutines call it.
//
// The function must keep the name, namespace, UID and resource version, and the field "immutable":
// a store looks at that. Its result must depend on the object alone. Another content at the same
// version looks like another state of the server.
//
// The function must not block. It has no time limit. While it works with an object, all that the
// server sends of this object waits: Get returns the state before it, or waits if there is none, and
// a bookmark is no contact. After minutes its stream counts as silent, and another one follows it
// when the function has returned. Run returns only when each function has returned, and so does Get
// of a DirectStore, whatever its context says. Each function that blocks keeps a goroutine, and its
// object in memory. Other objects are late by less than a second, however many functions block.
//
// The function must not end its goroutine (runtime.Goexit, as t.FailNow does). The store then logs it, and
// reads the object again only after its last reference was deleted.
//
// The age of a state counts from the server's answer, and not from when the function has returned:
// see LastContact of the object's Status. If the function takes longer than MaxStaleness, each state
// is too old when it is stored. So each Get waits for a read, and TryGet fails. While updates come as
// fast as the function works, so that one always waits, a state counts as older than it is, by up to 32
// times what the function takes. In a stream that is not parked, or with more than 16 of them, an event
// that has waited while the function worked with an earlier one may be older than its age says.
//
// If the function panics, or returns nil or an object that it must not return, the object is not
// stored, and is read again, with pauses. Get returns the state before it, or waits until its context
// ends, and returns [ErrTransform] as the cause. Changes yields nothing. The value of a panic is not
// logged, for it may hold data.
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
// without managedFields, unless they are kept, after the function of WithTransform. The error
// is ErrTransform.
func (r *Resource[T]) transform(object T) (result T, err error) {
	if !r.managedFields {
		object.SetManagedFields(nil)
	}
	if r.userTransform == nil {
		return object, nil
	}
	if result, err = r.callTransform(object); err != nil {
		var none T
		return none, redact.Errorf("%w: %s", ErrTransform, err)
	}
	return result, nil
}

// callTransform calls the function of WithTransform, which may panic.
func (r *Resource[T]) callTransform(object T) (result T, err error) {
	defer redact.Panic(&err)
	before := identityOf(object)
	switch result = r.userTransform(object); {
	case isNil(result):
		return result, errNil
	case identityOf(result) != before:
		return result, errChanged
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
