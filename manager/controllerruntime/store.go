// SPDX-License-Identifier: Apache-2.0

package controllerruntime

import (
	"cmp"
	"errors"
	"fmt"
	"iter"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/refwatch/refwatch/objectcache"
)

// Store is what a [Cache] holds of one kind, in all representations: typed, unstructured
// and metadata only. It is for metrics.NewCollector, debug.Options and [Healthz]. Make one
// with [Cache.Store].
type Store struct {
	cache *Cache
	kind  schema.GroupVersionKind
}

// Store returns what the cache holds of one kind, of which object is any object:
//
//	held := mgr.GetCache().(*controllerruntime.Cache) // if its NewCache made it
//	secrets, err := held.Store(&corev1.Secret{})
//
// It returns an error if the kind is not cached by reference. It sends no request, and may
// be called before Start.
func (c *Cache) Store(object client.Object) (*Store, error) {
	if isNil(object) {
		return nil, errors.New("store of a kind: the object is nil: name an object of the kind, such as &corev1.Secret{}")
	}
	gvk, ok := c.kindOf(object)
	if !ok {
		return nil, fmt.Errorf("store of %s: the kind is not cached by reference: add it to CacheOptions.For", cmp.Or(gvk.Kind, fmt.Sprintf("%T", object)))
	}
	return &Store{cache: c, kind: gvk}, nil
}

// Stats returns the sum of what the representations count. An object that is read in two
// of them has two streams and counts twice. A Get that memory does not answer counts as
// not_held, and then with the result of its wait; the first one of an object counts as
// not_registered before.
//
// Until the first read of the kind all numbers are 0, and Resource is what
// meta.UnsafeGuessKindToResource makes of the kind. Gate is that of the cache, also if
// [CacheOptions] has none.
func (s *Store) Stats() objectcache.Stats {
	var all []objectcache.Stats
	for _, store := range s.cache.stores(s.kind) {
		all = append(all, store.Stats())
	}
	sum := objectcache.SumStats(all...)
	if len(all) == 0 {
		sum.Gate = s.cache.options.Gate
		sum.Resource, _ = meta.UnsafeGuessKindToResource(s.kind)
	}
	return sum
}

// Permissions returns what the cache uses for each object of the kind that a Get asks for, by its name. It
// needs list and watch, and does without get: see [objectcache.WatchStore.Permissions]. Until the first
// read of the kind, Resource is a guess as that of [Store.Stats], and the kind counts as namespaced and
// without a selector.
func (s *Store) Permissions() objectcache.Permissions {
	for _, store := range s.cache.stores(s.kind) {
		return store.Permissions()
	}
	resource, _ := meta.UnsafeGuessKindToResource(s.kind)
	return objectcache.Permissions{Resource: resource, Verbs: []string{"get", "list", "watch"}}
}

// Statuses yields the status of each object of the kind, in no order: once for each
// representation in which it is held. It has no object data.
func (s *Store) Statuses() iter.Seq[objectcache.Status] {
	return func(yield func(objectcache.Status) bool) { yieldStatuses(s.cache.stores(s.kind), yield) }
}

// Notes returns what is noteworthy of the kind as a whole, for the debug page: that its informer has
// run for a minute, and that no Get has asked for an object yet, so that handlers get no events.
func (s *Store) Notes() []string {
	for _, v := range s.cache.viewsOf(s.kind) {
		if v.silent.Load() && !v.leases.wereAcquired() {
			return []string{silentNote}
		}
	}
	return nil
}

// stores returns the stores of the kinds, one for each representation.
func (c *Cache) stores(kinds ...schema.GroupVersionKind) []*objectcache.WatchStore[client.Object] {
	c.mu.Lock()
	defer c.mu.Unlock()
	var stores []*objectcache.WatchStore[client.Object]
	for _, kind := range kinds {
		for as := typed; as <= metadataOnly; as++ {
			if v := c.views[viewID{kind, as}]; v != nil {
				stores = append(stores, v.store)
			}
		}
	}
	return stores
}

func yieldStatuses(stores []*objectcache.WatchStore[client.Object], yield func(objectcache.Status) bool) {
	for _, store := range stores {
		for status := range store.Statuses() {
			if !yield(status) {
				return
			}
		}
	}
}
