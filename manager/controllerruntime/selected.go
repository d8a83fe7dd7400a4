// SPDX-License-Identifier: Apache-2.0

package controllerruntime

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
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

// sides returns what all sides have of an object that is held by name, without versions that are lost, and the
// object of the set, which may be shared.
func (v *view) sides(key types.NamespacedName, held memory, before *versions) (known sides, selected client.Object) {
	if known.isHeld = held.isKnown(); held.err == nil {
		known.held = held.object.GetResourceVersion()
	}
	if v.settings.selected {
		v.hasSet.Store(true)
		if selected = v.example(); v.cache.inStock(key, selected) == nil {
			known.set = before.unlessLost(selected.GetResourceVersion())
		}
	}
	tell := func(version string) { known.elsewhere = newer(known.elsewhere, before.unlessLost(version)) }
	tellStock := func(example client.Object) {
		err := v.cache.inStock(key, example)
		tell(example.GetResourceVersion())
		if apierrors.IsNotFound(err) && known.set != "" && !v.cache.isBehind(example, known.set) {
			known.passed = true
		}
	}
	if v.cache.hasMetadata(v.id.kind) {
		metadata := &metav1.PartialObjectMetadata{}
		metadata.SetGroupVersionKind(v.id.kind)
		tellStock(metadata)
	}
	for _, other := range v.cache.othersWithHandlers(v) {
		if other.settings.selected {
			tellStock(other.example())
		} else if status, ok := other.store.Status(key.Namespace, key.Name); ok && status.Synced {
			tell(status.ResourceVersion)
			known.gone = known.gone || !status.Exists && v.cache.options.FirstReadMaxAge > 0
		}
	}
	return known, selected
}

// isBehind reports whether the stock cache's informer of an object's kind has for certain not come to a version yet.
func (c *Cache) isBehind(object client.Object, version string) bool {
	informer, err := c.Cache.GetInformer(context.Background(), object, cache.BlockUntilSynced(false))
	if err != nil {
		return false
	}
	at, ok := informer.(interface{ LastSyncResourceVersion() string }) // that of several namespaces has none
	return ok && isOlder(at.LastSyncResourceVersion(), version)
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
		version := ""
		if last, ok := object.(client.Object); ok { // and else one of before the deletion
			version = last.GetResourceVersion()
		}
		d.informer.cache.noteDeletion(d.informer.kind, types.NamespacedName(key), version, nil)
	}
	d.ResourceEventHandler.OnDelete(object)
}
