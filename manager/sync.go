// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"errors"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/refwatch/refwatch/cache"
	"github.com/refwatch/refwatch/objectcache"
)

// WaitForSync waits until Get returns each of the objects, or that it is absent.
// Without keys these are all objects that owners reference at the call; one that loses
// its last owner meanwhile is not waited for. It returns when all objects have synced
// that can, or when ctx ends: the server's refusal of one is not waited for longer than
// Get waits.
//
// The error names the first few objects that did not sync, and has the errors of all:
// see [objectcache.WaitForSync]. For a key that no owner references it is
// [objectcache.ErrNotRegistered].
func (m *Manager[T]) WaitForSync(ctx context.Context, keys ...types.NamespacedName) error {
	if len(keys) == 0 {
		return objectcache.WaitForSync(ctx, stillRegistered[T]{m.store}, m.referenced()...)
	}
	return objectcache.WaitForSync(ctx, m.store, keys...)
}

// WaitForOwner is WaitForSync for the objects that an owner references at the call. The
// owner is identified as for [Manager.References]. An owner without references, or one
// that is not registered, has nothing to wait for, and no reference that is denied is
// waited for: see [Manager.CheckReference]. If a reference is deleted meanwhile,
// the error is [objectcache.ErrNotRegistered], unless another owner has it.
func (m *Manager[T]) WaitForOwner(ctx context.Context, owner Owner) error {
	return objectcache.WaitForSync(ctx, m.store, m.References(owner)...)
}

// HasSynced reports whether Get would return each of the objects, or that it is absent,
// without waiting: [objectcache.Status].Synced. Without keys these are all objects that
// owners reference now. It sends no request, and does not count as a use of the objects. A
// key without references is not synced, nor is an object that the server refuses: to be
// ready without those, call WaitForSync, and log its error. A [objectcache.DirectStore]
// keeps nothing, so nothing of it is synced.
func (m *Manager[T]) HasSynced(keys ...types.NamespacedName) bool {
	if len(keys) == 0 {
		keys = m.keys()
	}
	return m.haveSynced(keys)
}

// OwnerHasSynced is HasSynced for the objects that an owner references now. It is true
// for an owner without references, or with denied ones alone.
func (m *Manager[T]) OwnerHasSynced(owner Owner) bool { return m.haveSynced(m.References(owner)) }

func (m *Manager[T]) haveSynced(keys []types.NamespacedName) bool {
	return !slices.ContainsFunc(keys, func(key types.NamespacedName) bool {
		return !m.store.HasSynced(key.Namespace, key.Name)
	})
}

// stillRegistered is a reader whose GetWithOptions returns no error for an object without owners.
type stillRegistered[T cache.Object] struct{ objectcache.Reader[T] }

func (r stillRegistered[T]) GetWithOptions(ctx context.Context, namespace, name string, options objectcache.GetOptions) (T, error) {
	object, err := r.Reader.GetWithOptions(ctx, namespace, name, options)
	if errors.Is(err, objectcache.ErrNotRegistered) {
		err = nil
	}
	return object, err
}
