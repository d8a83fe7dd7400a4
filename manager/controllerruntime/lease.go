// SPDX-License-Identifier: Apache-2.0

package controllerruntime

import (
	"errors"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/refwatch/refwatch/objectcache"
)

// lease is a reference to an object that a Get has asked for.
type lease struct {
	since time.Time // of the first Get

	// Guarded by leases.mu.
	used    time.Time // when a Get last used it
	readers int       // Gets under way
}

// leases holds the leases on the objects of a store.
type leases struct {
	store *objectcache.WatchStore[client.Object]

	mu    sync.Mutex
	byKey map[types.NamespacedName]*lease
}

func newLeases(store *objectcache.WatchStore[client.Object]) *leases {
	return &leases{store: store, byKey: map[types.NamespacedName]*lease{}}
}

// acquire takes the lease on an object for a Get, which must release it. The first one
// adds a reference. The error is objectcache.ErrInvalidName.
func (l *leases) acquire(key types.NamespacedName) (*lease, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	held := l.byKey[key]
	if held == nil {
		if _, err := l.store.TryGet(key.Namespace, key.Name); errors.Is(err, objectcache.ErrInvalidName) {
			return nil, err
		}
		held = &lease{since: time.Now()}
		l.byKey[key] = held
		l.store.AddReference(key.Namespace, key.Name, objectcache.LeaseOwner) // does not block
	}
	held.readers++
	return held, nil
}

func (l *leases) release(held *lease) {
	l.mu.Lock()
	defer l.mu.Unlock()
	held.readers--
	held.used = time.Now()
}

// keys returns the keys of all leases.
func (l *leases) keys() []types.NamespacedName {
	l.mu.Lock()
	defer l.mu.Unlock()
	keys := make([]types.NamespacedName, 0, len(l.byKey))
	for key := range l.byKey {
		keys = append(keys, key)
	}
	return keys
}

// sweep ends each lease for which keep returns false, given how long it was not used. The
// reference is deleted with mu held, so that no Get takes the lease meanwhile.
func (l *leases) sweep(keep func(key types.NamespacedName, unused time.Duration) bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	for key, held := range l.byKey {
		if held.readers == 0 && !keep(key, now.Sub(held.used)) {
			delete(l.byKey, key)
			l.store.DeleteReference(key.Namespace, key.Name, objectcache.LeaseOwner)
		}
	}
}
