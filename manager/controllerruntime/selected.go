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

// sides returns what all sides have of an object that is held by name, and the object of the set, which may
// be shared; nil if it is not in the set.
func (v *view) sides(key types.NamespacedName, held memory) (known sides, selected client.Object) {
	if known.isHeld = held.isKnown(); held.err == nil {
		known.held = held.object.GetResourceVersion()
	}
	if v.settings.selected {
		v.hasSet.Store(true)
		if example := v.example(); v.cache.inStock(key, example) == nil {
			selected, known.set = example, example.GetResourceVersion()
		}
	}
	tell := func(version string, exists bool) {
		known.elsewhere, known.missing = newer(known.elsewhere, version), known.missing || !exists
	}
	if v.cache.hasMetadata(v.id.kind) {
		metadata := &metav1.PartialObjectMetadata{}
		metadata.SetGroupVersionKind(v.id.kind)
		v.cache.tellStock(key, metadata, tell)
	}
	for _, other := range v.cache.othersWithHandlers(v) {
		if other.settings.selected {
			v.cache.tellStock(key, other.example(), tell)
		} else if status, ok := other.store.Status(key.Namespace, key.Name); ok && status.Synced {
			tell(status.ResourceVersion, status.Exists)
		}
	}
	return known, selected
}

// tellStock calls tell with what the stock cache has of an object of the kind of example, if its informer has synced.
func (c *Cache) tellStock(key types.NamespacedName, example client.Object, tell func(version string, exists bool)) {
	if err := c.inStock(key, example); err == nil {
		tell(example.GetResourceVersion(), true)
	} else if apierrors.IsNotFound(err) {
		tell("", false)
	}
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
		d.informer.cache.noteDeletion(d.informer.kind, types.NamespacedName(key), nil)
	}
	d.ResourceEventHandler.OnDelete(object)
}
