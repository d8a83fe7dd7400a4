// SPDX-License-Identifier: Apache-2.0

package controllerruntime

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	refcache "github.com/refwatch/refwatch/cache"
)

// Of a kind of CacheOptions.Selected, the stock cache holds the objects that cache.Options select: the
// set. A Get of another object, and one that demands more than the set has, goes by reference.

// setSynced reports whether the set has synced. The first call makes its informer.
func (v *view) setSynced() bool {
	v.cache.mu.Lock()
	set := v.set
	v.cache.mu.Unlock()
	if set == nil {
		var err error
		if set, err = v.cache.Cache.GetInformer(context.Background(), v.example(), cache.BlockUntilSynced(false)); err != nil {
			return false // the Get that goes by reference returns the cause
		}
		v.cache.mu.Lock()
		v.set = set
		v.cache.mu.Unlock()
	}
	return set.HasSynced()
}

// inSet returns an object of the set, which may be shared, and nil if the set has none, or has not
// synced: no Get waits for the set.
func (v *view) inSet(key types.NamespacedName) client.Object {
	if _, err := v.settings.in(key); !v.clusterScoped && err != nil || !v.setSynced() {
		return nil
	}
	object := v.example()
	if v.cache.Cache.Get(context.Background(), key, object, client.UnsafeDisableDeepCopy) != nil { // waits for nothing
		return nil
	}
	return object
}

// getSelected returns an object of the set, and nil if the Get must go by reference.
func (v *view) getSelected(ctx context.Context, key types.NamespacedName) client.Object {
	if !v.settings.selected {
		return nil
	}
	object := v.inSet(key)
	if object == nil {
		return nil
	}
	version := object.GetResourceVersion()
	if demands, _ := demandsOf(ctx); demands.Live || isOlder(version, demands.NotOlderThan) {
		return nil
	}
	if held, err := v.store.TryGet(key.Namespace, key.Name); err == nil && isOlder(version, held.GetResourceVersion()) {
		return nil // no Get returns an older state than the one before
	}
	return object
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

// setAndReferenced is the informer of a kind of CacheOptions.Selected. It has the events of the set,
// and those of the other objects that a Get has asked for.
type setAndReferenced struct {
	cache.Informer // of the set: its indexers, which only List uses

	referenced cache.Informer
	inSet      func(types.NamespacedName) client.Object
}

// both is the registration of a handler at both informers.
type both struct {
	toolscache.ResourceEventHandlerRegistration // of the set: that of the other one has synced at once

	referenced toolscache.ResourceEventHandlerRegistration
}

// AddEventHandler implements cache.Informer.
func (s *setAndReferenced) AddEventHandler(handler toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	if err := refuseConsistency(handler); err != nil {
		return nil, err
	}
	return s.AddEventHandlerWithOptions(handler, toolscache.HandlerOptions{})
}

// AddEventHandlerWithResyncPeriod implements cache.Informer.
func (s *setAndReferenced) AddEventHandlerWithResyncPeriod(handler toolscache.ResourceEventHandler, period time.Duration) (toolscache.ResourceEventHandlerRegistration, error) {
	return s.AddEventHandlerWithOptions(handler, toolscache.HandlerOptions{ResyncPeriod: &period})
}

// AddEventHandlerWithOptions implements cache.Informer.
func (s *setAndReferenced) AddEventHandlerWithOptions(handler toolscache.ResourceEventHandler, options toolscache.HandlerOptions) (toolscache.ResourceEventHandlerRegistration, error) {
	ofSet, err := s.Informer.AddEventHandlerWithOptions(handler, options)
	if err != nil {
		return nil, err
	}
	// An event of an object of the set comes from the set: it has it, or it will have it, or has lost it.
	others := toolscache.FilteringResourceEventHandler{FilterFunc: s.isNotInSet, Handler: handler}
	referenced, err := s.referenced.AddEventHandlerWithOptions(others, options)
	if err != nil {
		return nil, errors.Join(err, s.Informer.RemoveEventHandler(ofSet))
	}
	return &both{ofSet, referenced}, nil
}

// RemoveEventHandler implements cache.Informer.
func (s *setAndReferenced) RemoveEventHandler(handle toolscache.ResourceEventHandlerRegistration) error {
	registered, ok := handle.(*both)
	if !ok {
		return fmt.Errorf("remove event handler: the registration, a %T, is not one of this informer", handle)
	}
	return errors.Join(s.Informer.RemoveEventHandler(registered.ResourceEventHandlerRegistration), s.referenced.RemoveEventHandler(registered.referenced))
}

func (s *setAndReferenced) isNotInSet(event any) bool {
	object, ok := event.(client.Object)
	return !ok || s.inSet(client.ObjectKeyFromObject(object)) == nil
}
