// SPDX-License-Identifier: Apache-2.0

package controllerruntime

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/refwatch/refwatch/objectcache"
)

// Get, List and the informers of a Cache.

// ErrListRefused is returned by List, and by IndexField, for a kind of which only
// referenced objects are in memory.
var ErrListRefused = errors.New("only referenced objects are in memory, so they cannot be listed: " +
	"Get each by its name, or list with GetAPIReader() of controller-runtime's manager")

// Get implements client.Reader: see [NewCache].
func (c *Cache) Get(ctx context.Context, key client.ObjectKey, out client.Object, opts ...client.GetOption) error {
	gvk, ok := c.isReferenced(out)
	if !ok {
		return c.Cache.Get(ctx, key, out, opts...)
	}
	if err := c.isRunning(); err != nil {
		return c.lastError(ctx, err, gvk, key, out)
	}
	v, err := c.view(ctx, gvk, out)
	if err != nil {
		if stopped := c.isRunning(); stopped != nil && !errors.Is(err, objectcache.ErrStopped) {
			err = fmt.Errorf("%w; %w", err, stopped)
		}
		return fmt.Errorf("get %s: %w", key, err)
	}
	if v.clusterScoped {
		key.Namespace = ""
	}
	config, err := v.settingsIn(key)
	if err != nil {
		return err
	}
	object, err := v.get(ctx, key, demandsOf(ctx))
	if err != nil {
		return err
	}
	options := client.GetOptions{UnsafeDisableDeepCopy: config.UnsafeDisableDeepCopy}
	options.ApplyOptions(opts)
	return copyInto(out, object, gvk, options.UnsafeDisableDeepCopy)
}

// List implements client.Reader: see [NewCache].
func (c *Cache) List(ctx context.Context, out client.ObjectList, opts ...client.ListOption) error {
	gvk, ok := c.isReferenced(out)
	if !ok {
		return c.Cache.List(ctx, out, opts...)
	}
	if c.kinds[gvk].selected && c.live == nil {
		if _, err := c.view(ctx, gvk, out); err != nil { // NewClient notes the writes for views
			return err
		}
		return c.Cache.List(ctx, out, opts...)
	}
	if c.live == nil {
		return fmt.Errorf("list %s: %w, or set CacheOptions.LiveList or Selected", gvk.Kind, ErrListRefused)
	}
	return c.listLive(ctx, gvk, out, opts)
}

// GetInformer implements cache.Informers: see [NewCache].
func (c *Cache) GetInformer(ctx context.Context, object client.Object, opts ...cache.InformerGetOption) (cache.Informer, error) {
	gvk, ok := c.isReferenced(object)
	if !ok {
		c.noteMetadata(gvk, true)
		informer, err := c.Cache.GetInformer(ctx, object, opts...)
		if _, ok := c.kinds[gvk]; ok && err == nil {
			informer = stockInformer{informer, c, gvk, false}
		}
		return informer, err
	}
	v, err := c.view(ctx, gvk, object)
	if err != nil {
		return nil, err
	}
	if v.settings.selected {
		informer, err := c.Cache.GetInformer(ctx, object, opts...)
		if err != nil {
			return nil, err
		}
		c.noteSetHandled(v)
		return stockInformer{informer, c, gvk, true}, nil
	}
	informer, started := c.informer(v)
	options := cache.InformerGetOptions{}
	for _, opt := range opts {
		opt(&options)
	}
	if block := options.BlockUntilSynced; started && (block == nil || *block) {
		if !toolscache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
			return nil, timedOut(ctx, fmt.Errorf("informer of %s: not synced", gvk.Kind))
		}
	}
	return informer, nil
}

// GetInformerForKind implements cache.Informers, as GetInformer of an object of the Go
// type that the scheme has for the kind.
func (c *Cache) GetInformerForKind(ctx context.Context, gvk schema.GroupVersionKind, opts ...cache.InformerGetOption) (cache.Informer, error) {
	if _, ok := c.kinds[gvk]; !ok {
		return c.Cache.GetInformerForKind(ctx, gvk, opts...)
	}
	object, err := newTyped(c.stock.Scheme, gvk)
	if err != nil {
		return nil, err
	}
	return c.GetInformer(ctx, object, opts...)
}

// RemoveInformer implements cache.Informers: it stops the informer. Objects that no Get
// asks for are then dropped after CacheOptions.IdleTimeout.
func (c *Cache) RemoveInformer(ctx context.Context, object client.Object) error {
	gvk, ok := c.isReferenced(object)
	if !ok {
		c.noteMetadata(gvk, false)
		return c.Cache.RemoveInformer(ctx, object)
	}
	c.removeInformer(viewID{gvk, representationOf(object)})
	if !c.kinds[gvk].selected {
		return nil
	}
	return c.Cache.RemoveInformer(ctx, object)
}

// IndexField implements client.FieldIndexer: see [NewCache].
func (c *Cache) IndexField(ctx context.Context, object client.Object, field string, extract client.IndexerFunc) error {
	gvk, ok := c.isReferenced(object)
	if ok && !c.kinds[gvk].selected {
		return fmt.Errorf("index of %s by %q, which only List could use: %w, or set CacheOptions.Selected", gvk.Kind, field, ErrListRefused)
	}
	if ok {
		if _, err := c.view(ctx, gvk, object); err != nil { // as for List
			return err
		}
	}
	return c.Cache.IndexField(ctx, object, field, extract)
}
