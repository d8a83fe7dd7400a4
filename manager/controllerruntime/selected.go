// SPDX-License-Identifier: Apache-2.0

package controllerruntime

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	refcache "github.com/refwatch/refwatch/cache"
	"github.com/refwatch/refwatch/objectcache"
)

// Of a kind of CacheOptions.Selected, the stock cache holds the objects that cache.Options select: the
// set. A Get of another object, and one that demands more than the set has, goes by reference.

// inStock sets out to what the stock cache has of it, which may be shared, and returns its error: if
// the informer has not synced, that of the context. It does not wait.
func (c *Cache) inStock(key types.NamespacedName, out client.Object) error {
	ctx, cancel := context.WithCancel(context.Background())
	cancel() // the stock cache looks at it only to wait
	return c.Cache.Get(ctx, key, out, client.UnsafeDisableDeepCopy)
}

// getSelected returns an object of the set that meets the demands, with its version, and nil if the Get
// must go by reference. The version is then the newest that the set has, or that a Get has returned, if
// the state by name is not known to be as new.
func (v *view) getSelected(key types.NamespacedName, demands objectcache.GetOptions) (object client.Object, version string) {
	if !v.settings.selected {
		return nil, ""
	}
	held, err := v.store.TryGet(key.Namespace, key.Name)
	known := v.leases.peek(key)
	object = v.example()
	v.hasSet.Store(true)
	inSet := v.cache.inStock(key, object) == nil
	if inSet {
		version = object.GetResourceVersion()
	}
	switch {
	case !inSet || version == known.lost:
		version = known.shown
	case demands.Live, isOlder(version, demands.NotOlderThan), isOlder(version, known.shown):
		version = newest(version, known.shown)
	case err == nil && isOlder(version, held.GetResourceVersion()), apierrors.IsNotFound(err):
		// It is older than by name, or was deleted, or has been created since.
	default:
		return object, version
	}
	if err == nil && !isOlder(held.GetResourceVersion(), version) {
		version = "" // from memory
	}
	return nil, version
}

// isNewerThanSet reports whether a state by name is to be kept, because the set has an older one. It makes no
// informer if there is none.
func (v *view) isNewerThanSet(key types.NamespacedName) bool {
	object := v.example()
	if !v.hasSet.Load() || v.cache.inStock(key, object) != nil {
		return false
	}
	held, err := v.store.TryGet(key.Namespace, key.Name)
	return apierrors.IsNotFound(err) || err == nil && isOlder(object.GetResourceVersion(), held.GetResourceVersion())
}

// hasLeft reports whether handlers know that an object has left the set, and how often it has, unless a live read has
// found out since whether it is deleted.
func (v *view) hasLeft(key types.NamespacedName) (left uint64, ok bool) {
	known := v.leases.peek(key)
	return known.left, known.left > known.confirmed
}

func newest(a, b string) string {
	if isOlder(a, b) {
		return b
	}
	return a
}

// isOlder reports whether a version is older than another one. Versions without an order are not.
func isOlder(version, than string) bool {
	order, err := refcache.CompareVersions(version, than)
	return err == nil && order < 0
}

// example returns an empty object of the view's kind.
func (v *view) example() client.Object {
	object := v.newObject()
	object.GetObjectKind().SetGroupVersionKind(v.id.kind)
	return object
}

// stockInformer is an informer of the stock cache, of a kind that is cached by reference as well.
type stockInformer struct {
	cache.Informer

	cache    *Cache
	kind     schema.GroupVersionKind
	selected bool // it is of a set, and else of metadata
}

// AddEventHandler implements cache.Informer.
func (s stockInformer) AddEventHandler(handler toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	if s.selected {
		if err := refuseConsistency(handler); err != nil {
			return nil, err
		}
	}
	return s.Informer.AddEventHandler(deletionsNoted{handler, s})
}

// AddEventHandlerWithResyncPeriod implements cache.Informer.
func (s stockInformer) AddEventHandlerWithResyncPeriod(handler toolscache.ResourceEventHandler, period time.Duration) (toolscache.ResourceEventHandlerRegistration, error) {
	return s.Informer.AddEventHandlerWithResyncPeriod(deletionsNoted{handler, s}, period)
}

// AddEventHandlerWithOptions implements cache.Informer.
func (s stockInformer) AddEventHandlerWithOptions(handler toolscache.ResourceEventHandler, options toolscache.HandlerOptions) (toolscache.ResourceEventHandlerRegistration, error) {
	return s.Informer.AddEventHandlerWithOptions(deletionsNoted{handler, s}, options)
}

// deletionsNoted is a handler, before whose events of deletions it is noted that the state by name may be older.
type deletionsNoted struct {
	toolscache.ResourceEventHandler

	informer stockInformer
}

// OnDelete implements cache.ResourceEventHandler.
func (d deletionsNoted) OnDelete(object any) {
	if key, err := toolscache.DeletionHandlingObjectToName(object); err == nil {
		for _, v := range d.informer.cache.viewsOf(d.informer.kind) {
			v.leases.note(types.NamespacedName(key), func(held *lease) {
				held.alone = ""
				if v.settings.selected {
					held.left++
				}
			})
		}
	}
	d.ResourceEventHandler.OnDelete(object)
}
