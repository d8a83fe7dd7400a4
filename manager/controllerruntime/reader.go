// SPDX-License-Identifier: Apache-2.0

package controllerruntime

import (
	"context"
	"fmt"
	"reflect"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/refwatch/refwatch/objectcache"
)

// Reader is a client.Reader of the objects that owners reference. Make one with
// [NewReader].
type Reader[T client.Object] struct {
	source objectcache.Reader[T]
}

// NewReader returns a client.Reader of a manager.Manager or an objectcache.Store, for code
// that takes a client.Reader. It returns an error if the source is nil.
func NewReader[T client.Object](source objectcache.Reader[T]) (*Reader[T], error) {
	if isNil(source) {
		return nil, fmt.Errorf("new reader of %v: the source is nil: pass a manager or a store", reflect.TypeFor[T]())
	}
	return &Reader[T]{source}, nil
}

// Get sets out, which must be a T, to a copy of a referenced object. With
// client.UnsafeDisableDeepCopy it shares the object of the cache, which must not be
// changed. It waits for the first state as the source does: for as long as ctx allows, so
// give ctx a deadline. The errors are those of the source; apierrors.IsNotFound holds
// only if the server has no such object.
func (r *Reader[T]) Get(ctx context.Context, key client.ObjectKey, out client.Object, opts ...client.GetOption) error {
	to, ok := out.(T)
	if !ok || isNil(to) {
		return fmt.Errorf("get %s: the reader has objects of type %v, not %T", key, reflect.TypeFor[T](), out)
	}
	object, err := r.source.Get(ctx, key.Namespace, key.Name)
	if err != nil {
		return err
	}
	options := client.GetOptions{}
	options.ApplyOptions(opts)
	return copyInto(out, object, object.GetObjectKind().GroupVersionKind(), options.UnsafeDisableDeepCopy)
}

// List returns [ErrListRefused].
func (r *Reader[T]) List(_ context.Context, out client.ObjectList, _ ...client.ListOption) error {
	return fmt.Errorf("list %T: %w", out, ErrListRefused)
}
