// SPDX-License-Identifier: Apache-2.0

package controllerruntime

import (
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/refwatch/refwatch/objectcache"
)

// demandOfMetadata returns what a Get that has got this result demands beyond it, and whether it
// demands anything: with CacheOptions.StockMetadata, no state from before that of the metadata, of
// which a handler may have had an event.
func (v *view) demandOfMetadata(key types.NamespacedName, object client.Object, err error) (demand objectcache.GetOptions, ok bool) {
	if err != nil && !apierrors.IsNotFound(err) || !v.cache.hasMetadata(v.id.kind) {
		return demand, false
	}
	metadata := &metav1.PartialObjectMetadata{}
	metadata.SetGroupVersionKind(v.id.kind)
	missing := v.cache.inStock(key, metadata)
	known := v.leases.peek(key)
	switch {
	case missing == nil && metadata.ResourceVersion == known.lost:
		return demand, false
	case missing == nil:
		v.leases.note(key, func(held *lease) { held.alone = "" })
		return objectcache.GetOptions{NotOlderThan: metadata.ResourceVersion}, err != nil || isOlder(object.GetResourceVersion(), metadata.ResourceVersion)
	case apierrors.IsNotFound(missing) && err == nil:
		// It was deleted, its metadata is late, or no selector selects it.
		return objectcache.GetOptions{Live: true}, known.alone != object.GetResourceVersion()
	}
	return demand, false // the informer has not synced
}
