// SPDX-License-Identifier: Apache-2.0

package controllerruntime

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
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

// getSelected returns an object of the set that meets the demands, and nil if the Get must go by
// reference. With a version, the Get must go by reference too, for a state that is not older than that.
func (v *view) getSelected(key types.NamespacedName, demands objectcache.GetOptions) (object client.Object, version string) {
	object = v.example()
	if !v.settings.selected || v.cache.inStock(key, object) != nil {
		return nil, ""
	}
	version = object.GetResourceVersion()
	if demands.Live || isOlder(version, demands.NotOlderThan) {
		return nil, ""
	}
	// What a Get has got by reference before may be newer.
	held, err := v.store.TryGet(key.Namespace, key.Name)
	switch {
	case err == nil && isOlder(version, held.GetResourceVersion()):
		return nil, ""
	case apierrors.IsNotFound(err): // it was deleted, or has been created since
		return object, version
	}
	return object, ""
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

// setInformer is the stock cache's informer of a set.
type setInformer struct{ cache.Informer }

// AddEventHandler implements cache.Informer.
func (s setInformer) AddEventHandler(handler toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	if err := refuseConsistency(handler); err != nil {
		return nil, err
	}
	return s.Informer.AddEventHandler(handler)
}
