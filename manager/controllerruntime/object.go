// SPDX-License-Identifier: Apache-2.0

package controllerruntime

import (
	"fmt"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// representation is the form in which objects are read and held. Each has streams of its
// own, as in the stock cache.
type representation int

const (
	typed representation = iota
	untyped
	metadataOnly
)

func representationOf(object runtime.Object) representation {
	switch object.(type) {
	case runtime.Unstructured:
		return untyped
	case *metav1.PartialObjectMetadata, *metav1.PartialObjectMetadataList:
		return metadataOnly
	}
	return typed
}

// newFuncs returns functions that make an empty object and an empty list of a kind.
func newFuncs(scheme *runtime.Scheme, gvk schema.GroupVersionKind, as representation) (object func() client.Object, list func() runtime.Object, err error) {
	switch as {
	case untyped:
		object = func() client.Object { return &unstructured.Unstructured{} }
		list = func() runtime.Object { return &unstructured.UnstructuredList{} }
		return object, list, nil
	case metadataOnly:
		object = func() client.Object { return &metav1.PartialObjectMetadata{} }
		list = func() runtime.Object { return &metav1.PartialObjectMetadataList{} }
		return object, list, nil
	}
	example, err := newTyped(scheme, gvk)
	if err != nil {
		return nil, nil, err
	}
	exampleList, err := scheme.New(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
	if err != nil {
		return nil, nil, err
	}
	object = func() client.Object { return emptyLike(example).(client.Object) }
	list = func() runtime.Object { return emptyLike(exampleList).(runtime.Object) }
	return object, list, nil
}

// newTyped returns an empty object of the Go type of a kind.
func newTyped(scheme *runtime.Scheme, gvk schema.GroupVersionKind) (client.Object, error) {
	created, err := scheme.New(gvk)
	if err != nil {
		return nil, err
	}
	object, ok := created.(client.Object)
	if !ok {
		return nil, fmt.Errorf("the type of %s, %T, is no client.Object", gvk, created)
	}
	return object, nil
}

// emptyLike returns a new value of the type that a pointer points to.
func emptyLike(pointer any) any { return reflect.New(reflect.TypeOf(pointer).Elem()).Interface() }

// copyInto sets out to a copy of an object from memory, or to the object itself.
func copyInto(out, object client.Object, gvk schema.GroupVersionKind, unsafeDisableDeepCopy *bool) error {
	shared := unsafeDisableDeepCopy != nil && *unsafeDisableDeepCopy
	if !shared {
		object = object.DeepCopyObject().(client.Object)
	}
	to, from := reflect.ValueOf(out), reflect.ValueOf(object)
	if to.Type() != from.Type() {
		return fmt.Errorf("the cache has a %T, and a %T was asked for", object, out)
	}
	to.Elem().Set(from.Elem())
	if !shared {
		out.GetObjectKind().SetGroupVersionKind(gvk)
	}
	return nil
}

// isNil reports whether an interface is nil or holds a nil pointer.
func isNil(v any) bool {
	value := reflect.ValueOf(v)
	return v == nil || value.Kind() == reflect.Pointer && value.IsNil()
}
