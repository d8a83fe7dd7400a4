// SPDX-License-Identifier: Apache-2.0

package controllerruntime

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/objectcache/resource"
)

// viewID identifies a view.
type viewID struct {
	kind schema.GroupVersionKind
	as   representation
}

// view holds the referenced objects of one kind in one representation.
type view struct {
	id            viewID
	cache         *Cache
	settings      settings
	clusterScoped bool
	newObject     func() client.Object
	store         *objectcache.WatchStore[client.Object]
	objects       resource.Resource[client.Object]
	leases        *leases
	informer      *informer   // nil without GetInformer; guarded by Cache.mu
	setHandled    bool        // there is an informer of the set; guarded by Cache.mu
	silent        atomic.Bool // silentNote was logged, and its informer still runs
	hasSet        atomic.Bool // a Get has asked the stock cache since the last RemoveInformer
}

// view returns the view of an object's kind and representation. The first call for a kind
// may ask the server which resource the kind is.
func (c *Cache) view(ctx context.Context, gvk schema.GroupVersionKind, object runtime.Object) (*view, error) {
	id := viewID{gvk, representationOf(object)}
	c.mu.Lock()
	v := c.views[id]
	c.mu.Unlock()
	if v != nil {
		return v, nil
	}
	made, err := c.newView(ctx, id)
	if err != nil {
		return nil, fmt.Errorf("cache of referenced objects: %s: %w", gvk.Kind, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if v := c.views[id]; v != nil {
		return v, nil
	}
	if c.stopped { // nothing would run it
		return nil, c.stoppedLocked()
	}
	c.views[id] = made
	if c.ctx != nil {
		made.startLocked()
	}
	return made, nil
}

func (c *Cache) newView(ctx context.Context, id viewID) (*view, error) {
	mapping, err := c.restMapping(ctx, id.kind)
	if err != nil {
		return nil, err
	}
	v := &view{id: id, cache: c, settings: c.kinds[id.kind], clusterScoped: mapping.Scope.Name() == meta.RESTScopeNameRoot}
	if v.settings.selected && v.clusterScoped && !isSelective(v.settings.all) {
		return nil, errors.New("CacheOptions.Selected: the kind has no namespaces, so all objects would be held: set a label or field selector")
	}
	var newList func() runtime.Object
	if v.newObject, newList, err = newFuncs(c.stock.Scheme, id.kind, id.as); err != nil {
		return nil, err
	}
	restClient, err := c.restClientFor(mapping.Resource.GroupVersion())
	if err != nil {
		return nil, err
	}
	objects := resource.TypedFunc(restClient, mapping.Resource, v.newObject, newList).WithManagedFields() // as the stock cache
	if v.clusterScoped {
		objects = objects.ClusterScoped()
	}
	if v.settings.hasSelector() && !v.settings.selected {
		objects = objects.WithSelector(v.selectorIn)
	}
	if id.as == metadataOnly || v.settings.hasTransform() {
		objects = objects.WithTransform(v.transform)
	}
	v.objects = objects
	options := objectcache.WatchOptions{
		Gate:         c.options.Gate,
		RefusalGrace: time.Nanosecond,               // a reconcile is repeated, so a Get need not wait for a grant
		OutageGrace:  min(c.options.SyncTimeout, 0), // without a bound there is none, either
	}
	if !v.settings.selected && !c.options.StockMetadata { // handlers may have had events of what no Get has asked for
		options.FirstReadMaxAge = c.options.FirstReadMaxAge
	}
	if v.store, err = objectcache.NewWatchStore(objects, options); err != nil {
		return nil, err
	}
	v.leases = newLeases(v.store)
	return v, nil
}

// restMapping returns the resource of a kind. The first call for a kind may ask the server, and others
// join it. It waits until ctx ends, and until SyncTimeout after the request has begun. A context that
// has ended before does not count, as in the stock cache: the answer is mostly known. The request,
// which has no context, goes on.
func (c *Cache) restMapping(ctx context.Context, kind schema.GroupVersionKind) (*meta.RESTMapping, error) {
	timeout := c.options.SyncTimeout
	if ctx.Err() != nil {
		ctx = context.WithoutCancel(ctx)
		timeout = cmp.Or(max(timeout, 0), defaultSyncTimeout)
	}
	c.mu.Lock()
	since, ok := c.asked[kind]
	if !ok {
		since = time.Now()
		c.asked[kind] = since
	}
	c.mu.Unlock()
	asked := c.mappings.DoChan(kind.String(), func() (any, error) {
		mapping, err := c.stock.Mapper.RESTMapping(kind.GroupKind(), kind.Version)
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.asked, kind)
		return mapping, err
	})
	if timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadlineCause(ctx, since.Add(timeout), fmt.Errorf("CacheOptions.SyncTimeout is %v", timeout))
		defer cancel()
	}
	select {
	case result := <-asked:
		mapping, _ := result.Val.(*meta.RESTMapping)
		if err := result.Err; err != nil && !meta.IsNoMatchError(err) {
			return nil, fmt.Errorf("%w: the server has not said which resource the kind is: %w", objectcache.ErrNotSynced, resource.NotServed(err))
		}
		return mapping, result.Err
	case <-ctx.Done():
		return nil, timedOut(ctx, errors.New("the server has not said yet which resource the kind is"))
	}
}

// restClientFor returns a REST client for many streams. All share their connections.
func (c *Cache) restClientFor(version schema.GroupVersion) (rest.Interface, error) {
	config := rest.CopyConfig(c.config)
	config.GroupVersion = &version
	config.APIPath = "/apis"
	if version.Group == "" {
		config.APIPath = "/api"
	}
	config.NegotiatedSerializer = scheme.Codecs.WithoutConversion() // for the errors of the server
	return rest.RESTClientForConfigAndClient(config, c.client)
}

// transform is applied to each object before it is stored. It returns nil for an object
// that the store must refuse.
func (v *view) transform(object client.Object) client.Object {
	if metadata, ok := object.(*metav1.PartialObjectMetadata); ok {
		metadata.SetGroupVersionKind(v.id.kind) // as the stock cache does
	}
	config, err := v.settingsIn(client.ObjectKeyFromObject(object))
	if err != nil || config.Transform == nil {
		return object
	}
	transformed, err := config.Transform(object)
	if err != nil {
		return nil // the store refuses it
	}
	result, _ := transformed.(client.Object)
	return result
}

// settingsIn returns the settings for an object, and an error if the cache is restricted
// to other namespaces.
func (v *view) settingsIn(key client.ObjectKey) (cache.Config, error) {
	if v.clusterScoped {
		return v.settings.all, nil
	}
	config, err := v.settings.in(key)
	if err != nil && v.settings.selected { // the namespaces are those of the set
		return v.settings.all, nil
	}
	return config, err
}

// selectorIn returns the selector of the objects of a namespace.
func (v *view) selectorIn(namespace string) resource.Selector {
	config, _ := v.settingsIn(client.ObjectKey{Namespace: namespace}) // Get checks the namespace before
	return resource.Selector{Label: config.LabelSelector, Field: config.FieldSelector}
}

// startLocked runs the view until the context of Start ends.
func (v *view) startLocked() {
	ctx := v.cache.ctx
	v.cache.goLocked(func() { _ = v.store.Run(ctx) }) // nil at its first call
	v.cache.goLocked(func() { v.sweep(ctx) })
	v.startInformerLocked()
}

// get returns an object that meets the demands and may be shared: one of the set, or one by name.
func (v *view) get(ctx context.Context, key types.NamespacedName, demands objectcache.GetOptions) (client.Object, error) {
	before, leased := v.leases.peek(key)
	held := memory{err: objectcache.ErrNotRegistered}
	if leased && (v.settings.selected || demands == objectcache.GetOptions{}) {
		held.object, held.err = v.store.TryGet(key.Namespace, key.Name)
	}
	known, selected := v.sides(key, held, &before)
	fromSet, byName := before.choose(known, demands)
	if fromSet {
		v.leases.note(key, func(k *versions) { k.show(known.set) })
		return selected, nil
	}
	object, err := v.getReferenced(ctx, key, byName, held, byName != demands)
	if errors.Is(err, objectcache.ErrStale) && byName.NotOlderThan != demands.NotOlderThan { // the server was restored
		v.leases.note(key, func(k *versions) { k.lose(byName.NotOlderThan) })
		return v.getReferenced(ctx, key, demands, memory{err: objectcache.ErrNotRegistered}, false)
	}
	if err == nil || apierrors.IsNotFound(err) {
		v.leases.note(key, func(k *versions) { k.check(before) })
	}
	return object, err
}

// memory is what TryGet has returned.
type memory struct {
	object client.Object
	err    error
}

// isKnown reports whether it is known of the object that it exists, or that it does not.
func (m memory) isKnown() bool { return m.err == nil || apierrors.IsNotFound(m.err) }

// getReferenced returns an object by reference, and takes a lease on it. It returns what is held, if there are no
// demands. If the state isBehind a version of another side, Gets wait for that version for SyncTimeout in all. A Get
// with other demands waits for SyncTimeout itself: what another one has read live is no answer to it.
func (v *view) getReferenced(ctx context.Context, key types.NamespacedName, demands objectcache.GetOptions, held memory, isBehind bool) (object client.Object, err error) {
	if errors.Is(held.err, objectcache.ErrNotRegistered) && v.objects.CheckKey(key) != nil {
		return v.getImpossible(key)
	}
	lease := v.leases.acquire(key)
	// Now that the lease is held: GetInformer, which looks for leases, does not miss it.
	release := v.cache.askOthers(v, key)
	defer func() {
		v.leases.release(lease, err)
		release(err)
	}()
	demanding := demands != objectcache.GetOptions{}
	since := lease.since
	if demanding {
		if since = time.Now(); isBehind && !demands.Live { // the state may have been known for long
			since = v.leases.behindSince(lease, demands)
		}
	} else {
		if errors.Is(held.err, objectcache.ErrNotRegistered) { // there was no lease
			held.object, held.err = v.store.TryGet(key.Namespace, key.Name)
		}
		object, err = held.object, held.err
		if !errors.Is(err, objectcache.ErrNotSynced) && !errors.Is(err, objectcache.ErrStopped) { // needs no timer
			return object, err
		}
	}
	if timeout := v.cache.options.SyncTimeout; timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadlineCause(ctx, since.Add(timeout), fmt.Errorf("CacheOptions.SyncTimeout is %v", timeout))
		defer cancel()
	}
	object, err = v.store.GetWithOptions(ctx, key.Namespace, key.Name, demands)
	if errors.Is(err, objectcache.ErrNotStarted) { // the goroutine that calls Run has not begun
		err = fmt.Errorf("%s %q: %w", v.id.kind.Kind, strings.TrimPrefix(key.String(), "/"), objectcache.ErrNotSynced)
	}
	if errors.Is(err, objectcache.ErrNotSynced) {
		err = timedOut(ctx, err)
	}
	return object, err
}

// getImpossible returns what Get returns for an object that is absent for good, or whose key is a mistake, which the
// stock cache does not have either. It takes no lease: one on each such name would be kept for IdleTimeout, and longer
// with handlers.
func (v *view) getImpossible(key types.NamespacedName) (object client.Object, err error) {
	object, err = v.store.TryGet(key.Namespace, key.Name)
	if errors.Is(err, objectcache.ErrInvalidName) && !apierrors.IsNotFound(err) {
		err = fmt.Errorf("%w: %w", apierrors.NewNotFound(schema.GroupResource{Group: v.id.kind.Group, Resource: v.id.kind.Kind}, key.Name), err)
	}
	return object, err
}

// sweep ends the leases that are no longer used.
func (v *view) sweep(ctx context.Context) {
	ticker := time.NewTicker(max(v.cache.options.IdleTimeout/2, time.Millisecond))
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			v.leases.sweep(v.retention())
		}
	}
}
