// SPDX-License-Identifier: Apache-2.0

package manager

import (
	"context"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/refwatch/refwatch/cache"
	"github.com/refwatch/refwatch/objectcache"
)

// Manager drives the references of a store by what owners say they need. Make
// one with [NewSecrets], [NewConfigMaps] or [New].
type Manager[T cache.Object] struct {
	store      objectcache.Store[T]
	references References

	mu     sync.Mutex
	owners map[types.UID]holding
}

// holding is what one owner references now.
type holding struct {
	owner Owner
	keys  []types.NamespacedName // in order, each once
}

// New returns a manager over a store. references says which objects a pod
// names: [PodSecrets], [PodConfigMaps], or a function of one's own; nil if only
// SetReferences is used.
func New[T cache.Object](store objectcache.Store[T], references References) *Manager[T] {
	return &Manager[T]{store: store, references: references, owners: map[types.UID]holding{}}
}

// NewSecrets returns a manager of the Secrets that pods reference, each with a
// list-and-watch of its own.
func NewSecrets(client kubernetes.Interface, options objectcache.WatchOptions) *Manager[*corev1.Secret] {
	return New(objectcache.NewWatch(objectcache.Secrets(client), options), PodSecrets)
}

// NewConfigMaps returns a manager of the ConfigMaps that pods reference, each
// with a list-and-watch of its own.
func NewConfigMaps(client kubernetes.Interface, options objectcache.WatchOptions) *Manager[*corev1.ConfigMap] {
	return New(objectcache.NewWatch(objectcache.ConfigMaps(client), options), PodConfigMaps)
}

// Run runs the store. It blocks until ctx ends and every goroutine of the store
// has, and then returns nil, or the store's error. A store without a Run method
// has nothing to run; it is left alone until ctx ends.
func (m *Manager[T]) Run(ctx context.Context) error {
	if store, ok := m.store.(interface{ Run(context.Context) error }); ok {
		return store.Run(ctx)
	}
	<-ctx.Done()
	return nil
}

// Get returns an object that an owner references, shared and read-only. The
// store says how long it waits and what its errors are: see
// [objectcache.Watch.Get].
func (m *Manager[T]) Get(ctx context.Context, namespace, name string) (T, error) {
	return m.store.Get(ctx, namespace, name)
}
