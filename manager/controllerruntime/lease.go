// SPDX-License-Identifier: Apache-2.0

package controllerruntime

import (
	"errors"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/refwatch/refwatch/objectcache"
)

// lease is a reference to an object that a Get has asked for.
type lease struct {
	versions // guarded by leases.mu

	since time.Time // of the first Get

	// Guarded by leases.mu.
	used    time.Time              // when a Get last used it, or its object was deleted
	unmet   objectcache.GetOptions // what Gets demand because the state by name is behind another side
	behind  time.Time              // since when they do
	readers int                    // Gets under way
	known   bool                   // handlers know the object: its deletion must reach them
	existed bool                   // the object has existed since the first Get
	missed  bool                   // a Get has found no object since it last existed
}

// retention says for how long the leases of a store are kept: see [NewCache].
type retention struct {
	handlers bool          // the kind has an informer
	idle     time.Duration // CacheOptions.IdleTimeout
	absent   time.Duration // of what was deleted and is asked for; 0: for ever
	// keep reports whether an object is kept in any case; nil: none is.
	keep func(types.NamespacedName) bool
}

// leases holds the leases on the objects of a store.
type leases struct {
	store *objectcache.WatchStore[client.Object]

	mu       sync.Mutex
	byKey    map[types.NamespacedName]*lease
	acquired bool // there has been a lease
}

func newLeases(store *objectcache.WatchStore[client.Object]) *leases {
	return &leases{store: store, byKey: map[types.NamespacedName]*lease{}}
}

// acquire takes the lease on an object for a Get, which must release it. The first one
// adds a reference.
func (l *leases) acquire(key types.NamespacedName) *lease {
	l.mu.Lock()
	defer l.mu.Unlock()
	held := l.byKey[key]
	if held == nil {
		held = &lease{since: time.Now()}
		l.byKey[key], l.acquired = held, true
		l.store.AddReference(key.Namespace, key.Name, objectcache.LeaseOwner) // does not block
	}
	held.readers++
	return held
}

// wereAcquired reports whether there has been a lease.
func (l *leases) wereAcquired() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.acquired
}

// release ends the use of a lease by a Get, of which err is the result.
func (l *leases) release(held *lease, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	held.readers--
	held.used = time.Now()
	if !errors.Is(err, objectcache.ErrNotSynced) {
		held.unmet = objectcache.GetOptions{}
	}
	switch {
	case err == nil:
		held.existed = true
	case apierrors.IsNotFound(err):
		held.missed = true
	}
}

// behindSince returns since when Gets have these demands, because the state by name is behind another side.
func (l *leases) behindSince(held *lease, demands objectcache.GetOptions) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	if held.unmet != demands {
		held.unmet, held.behind = demands, time.Now()
	}
	return held.behind
}

// note changes the versions of an object, if there is a lease on it.
func (l *leases) note(key types.NamespacedName, change func(*versions)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if held := l.byKey[key]; held != nil {
		change(&held.versions)
	}
}

// peek returns the versions of an object, and whether there is a lease on it.
func (l *leases) peek(key types.NamespacedName) (known versions, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	held := l.byKey[key]
	if held == nil {
		return versions{}, false
	}
	return held.versions, true
}

// observe notes whether an object exists, before handlers are called. It reads the state
// with mu held, so that it does not undo what a later Get has found. It reports whether handlers knew
// the object before.
func (l *leases) observe(key types.NamespacedName, exists bool) (wasKnown bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	held := l.byKey[key]
	if held == nil {
		return false
	}
	wasKnown = held.known
	if wasKnown && !exists {
		held.used = time.Now()
	}
	held.known = exists
	held.existed = held.existed || exists
	if status, _ := l.store.Status(key.Namespace, key.Name); status.Exists {
		held.missed = false
	}
	return wasKnown
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

// sweep ends the leases that are no longer kept. The references are deleted with mu held,
// so that no Get takes a lease meanwhile.
func (l *leases) sweep(rule retention) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	for key, held := range l.byKey {
		if held.readers == 0 && !l.keepsLocked(key, held, rule, now.Sub(held.used)) {
			delete(l.byKey, key)
			l.store.DeleteReference(key.Namespace, key.Name, objectcache.LeaseOwner)
		}
	}
}

func (l *leases) keepsLocked(key types.NamespacedName, held *lease, rule retention, unused time.Duration) bool {
	switch {
	case unused < rule.idle, rule.keep != nil && rule.keep(key):
		return true
	case !rule.handlers:
		return false
	}
	status, _ := l.store.Status(key.Namespace, key.Name)
	switch {
	case status.Exists || held.known || !held.existed:
		return true
	case held.missed:
		return rule.absent == 0 || unused < rule.absent
	}
	return false // it was deleted, and no Get has asked for it since
}
