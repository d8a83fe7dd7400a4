// SPDX-License-Identifier: Apache-2.0

package states

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/refwatch/refwatch/cache"
)

// CheckObject returns item as the object with a key, or why it cannot be that object. The
// error wraps [cache.ErrForeign] or [cache.ErrMalformed]. It names types and keys, never data.
func CheckObject[T cache.Object](key types.NamespacedName, item any) (T, error) {
	var none T
	object, ok := item.(T)
	if !ok || any(object) == any(none) {
		return none, fmt.Errorf("%w: a %T where a %T belongs", cache.ErrForeign, item, none)
	}
	if err := checkHeader(key, object); err != nil {
		return none, err
	}
	return object, nil
}

// CheckRead returns the state that a complete read of the object with a key shows, or why
// that cannot be right: a foreign object, more than one object, a malformed version, or an
// object newer than the read. The errors are those of [CheckObject].
func CheckRead[T cache.Object](key types.NamespacedName, items []any, version string) (State[T], error) {
	if err := CheckVersion(version); err != nil {
		return State[T]{}, err
	}
	switch len(items) {
	case 0:
		return State[T]{Synced: true, ResourceVersion: version}, nil
	case 1:
	default:
		return State[T]{}, fmt.Errorf("%w: %d objects in a read of %s", cache.ErrForeign, len(items), key)
	}
	object, err := CheckObject[T](key, items[0])
	if err != nil {
		return State[T]{}, err
	}
	own := object.GetResourceVersion()
	if order, _ := CompareVersions(own, version); order > 0 {
		return State[T]{}, fmt.Errorf("%w: an object at a later version than the read that it is in", cache.ErrMalformed)
	}
	return State[T]{Object: object, Exists: true, Synced: true, ResourceVersion: own}, nil
}

// Holds reports whether a complete read of the object with a key brought this state, by UID
// and resource version. The read may have metadata only.
func (s State[T]) Holds(key types.NamespacedName, items []any) bool {
	if !s.Synced || len(items) > 1 || s.Exists != (len(items) == 1) {
		return false
	}
	if !s.Exists {
		return true
	}
	var header metav1.Object
	var err error
	if partial, ok := items[0].(*metav1.PartialObjectMetadata); ok {
		header, err = partial, checkHeader(key, partial)
	} else {
		header, err = CheckObject[T](key, items[0])
	}
	return err == nil && header.GetUID() == s.Object.GetUID() && header.GetResourceVersion() == s.ResourceVersion
}

// checkHeader returns why an object with that metadata cannot be the one with a key.
func checkHeader(key types.NamespacedName, object metav1.Object) error {
	if object.GetName() != key.Name || object.GetNamespace() != key.Namespace {
		return fmt.Errorf("%w: %s/%s where %s belongs", cache.ErrForeign, object.GetNamespace(), object.GetName(), key)
	}
	return CheckVersion(object.GetResourceVersion())
}
