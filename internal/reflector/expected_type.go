// SPDX-License-Identifier: Apache-2.0

package reflector

import (
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/refwatch/refwatch/cache"
)

// expectedType is what Options.ExpectedType asks for. A nil one expects any type.
type expectedType struct {
	goType reflect.Type
	kind   schema.GroupVersionKind // empty: not compared
}

func expectedTypeOf(example runtime.Object) *expectedType {
	if example == nil {
		return nil
	}
	expected := &expectedType{goType: reflect.TypeOf(example)}
	if untyped, ok := example.(*unstructured.Unstructured); ok && untyped != nil {
		expected.kind = untyped.GroupVersionKind()
	}
	return expected
}

// check returns an error if an object is of another type.
func (e *expectedType) check(object any) error {
	if e == nil {
		return nil
	}
	if reflect.TypeOf(object) != e.goType {
		return fmt.Errorf("%w: a %T where a %v belongs", cache.ErrMalformed, object, e.goType)
	}
	untyped, ok := object.(*unstructured.Unstructured)
	if ok && !e.kind.Empty() && untyped.GroupVersionKind() != e.kind {
		// Without that of the object: where bodies are mixed up, it may be data.
		return fmt.Errorf("%w: an object of another kind where one of %q belongs", cache.ErrMalformed, e.kind)
	}
	return nil
}

// checkAll returns an error if an object in a list is of another type.
func (e *expectedType) checkAll(items []any) error {
	for _, item := range items {
		if err := e.check(item); err != nil {
			return err
		}
	}
	return nil
}
