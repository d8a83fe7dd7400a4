// SPDX-License-Identifier: Apache-2.0

package controllerruntime

import (
	"context"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/refwatch/refwatch/objectcache"
)

// sinceMetadata returns a state of an object that is not older than its metadata in the stock
// cache, of which a handler may have had an event: the given one, or that of another read. Without
// CacheOptions.StockMetadata it returns the given one.
func (v *view) sinceMetadata(ctx context.Context, lease *lease, key types.NamespacedName, object client.Object, err error) (client.Object, error) {
	demand, ok := v.demandOfMetadata(lease, key, object, err)
	if !ok {
		return object, err
	}
	newer, newerErr := v.read(ctx, lease, key, demand, true)
	switch {
	case errors.Is(newerErr, objectcache.ErrStale): // the server was restored: the metadata is of before
		return v.store.TryGet(key.Namespace, key.Name)
	case newerErr == nil && demand.Live:
		v.leases.setAlone(lease, newer.GetResourceVersion())
	}
	return newer, newerErr
}

// demandOfMetadata returns what a Get demands beyond the state in memory, and whether it demands anything.
func (v *view) demandOfMetadata(lease *lease, key types.NamespacedName, object client.Object, err error) (demand objectcache.GetOptions, ok bool) {
	if err != nil && !apierrors.IsNotFound(err) {
		return demand, false
	}
	v.cache.mu.Lock()
	informer := v.cache.metadata[v.id.kind]
	v.cache.mu.Unlock()
	if informer == nil || !informer.HasSynced() {
		return demand, false
	}
	metadata := &metav1.PartialObjectMetadata{}
	metadata.SetGroupVersionKind(v.id.kind)
	missing := v.cache.Cache.Get(context.Background(), key, metadata, client.UnsafeDisableDeepCopy)
	switch {
	case missing == nil && (err != nil || isOlder(object.GetResourceVersion(), metadata.ResourceVersion)):
		return objectcache.GetOptions{NotOlderThan: metadata.ResourceVersion}, true
	case apierrors.IsNotFound(missing) && err == nil && !v.leases.isAlone(lease, object.GetResourceVersion()):
		return objectcache.GetOptions{Live: true}, true // it was deleted, its metadata is late, or no selector selects it
	}
	return demand, false
}
