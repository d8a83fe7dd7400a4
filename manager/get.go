// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"

	"github.com/refwatch/refwatch/cache"
	"github.com/refwatch/refwatch/objectcache"
)

// A Manager may be passed wherever a reader is wanted.
var _ objectcache.Reader[cache.Object] = (*Manager[cache.Object])(nil)

// Get returns an object that an owner references, shared and read-only.
// [objectcache.WatchStore.Get] documents how long it waits, and its errors. For a nil
// context it returns [objectcache.ErrNilContext].
func (m *Manager[T]) Get(ctx context.Context, namespace, name string) (T, error) {
	if ctx == nil {
		var none T
		return none, objectcache.ErrNilContext
	}
	return m.store.Get(ctx, namespace, name)
}

// GetWithOptions is Get with demands on the state that it returns:
// [objectcache.GetOptions].
func (m *Manager[T]) GetWithOptions(ctx context.Context, namespace, name string, options objectcache.GetOptions) (T, error) {
	if ctx == nil {
		var none T
		return none, objectcache.ErrNilContext
	}
	return m.store.GetWithOptions(ctx, namespace, name, options)
}

// TryGet is Get without waiting. Where Get would wait for a read for a new owner, TryGet
// returns the previous state. Where Get would wait for a first state, or for one that is not
// too old, TryGet asks for a read of the object, and returns [objectcache.ErrNotSynced]
// joined with why the state is not known.
func (m *Manager[T]) TryGet(namespace, name string) (T, error) {
	return m.store.TryGet(namespace, name)
}
