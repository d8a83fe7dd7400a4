// SPDX-License-Identifier: Apache-2.0

package controllerruntime

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/objectcache/resource"
)

// Cache is what [NewCache] makes: GetCache() of controller-runtime's manager returns it as a
// cache.Cache.
type Cache struct {
	cache.Cache // the stock cache, for all other kinds

	options CacheOptions
	stock   cache.Options
	config  *rest.Config // for many streams
	client  *http.Client // of config, for all views
	live    client.Reader
	kinds   map[schema.GroupVersionKind]settings
	running sync.WaitGroup // views and informers, which Start waits for
	own     *connections   // of the clients that NewCache has made

	mappings singleflight.Group // the requests of restMapping

	mu      sync.Mutex
	ctx     context.Context // of Start; nil before
	stopped bool
	views   map[viewID]*view
	// metadata are the kinds of which the stock cache has an informer of metadata, with
	// CacheOptions.StockMetadata.
	metadata map[schema.GroupVersionKind]bool
	// asked is since when the server is asked for the resource of a kind: see restMapping.
	asked map[schema.GroupVersionKind]time.Time
}

// NewCache returns a function for ctrl.Options.NewCache:
//
//	ctrl.Options{NewCache: controllerruntime.NewCache(controllerruntime.CacheOptions{})}
//
// The cache serves Secrets, or the kinds of [CacheOptions].For, by reference, and leaves
// all other kinds to the stock cache.
//
//   - Get opens a list and watch of the one object, by its name, and answers from memory
//     from then on. The first Get waits for the state: see CacheOptions.SyncTimeout.
//     apierrors.IsNotFound holds only if the server has no such object. If the server
//     refuses to let the program read it, the error is that refusal, and if the server
//     does not answer, the error is objectcache.ErrNotSynced joined with the cause. If the
//     context or SyncTimeout has ended, apierrors.IsTimeout holds, as for the stock cache,
//     unless the server has answered with an error. Before Start it is
//     cache.ErrCacheNotStarted.
//   - List returns [ErrListRefused], or reads from the server: CacheOptions.LiveList.
//   - GetInformer returns an informer of the objects that a Get has asked for, so Owns and
//     Watches get their events, and no others. It has synced at once. An object that cannot
//     be read has no events, and delays nothing.
//   - IndexField returns [ErrListRefused]: an index serves List alone.
//
// Typed, unstructured and metadata-only reads of an object have a stream each. If one of them has an
// informer, a Get in another opens that stream, too. It returns no state that is older than the last
// event of the handlers: if its own stream is behind, it waits, for SyncTimeout at most. It fails if
// the server refuses its own stream.
//
// Without an informer, an object that no Get asks for is dropped after
// CacheOptions.IdleTimeout. With one, an object that was asked for is kept until
// RemoveInformer, so that none of its changes is lost, if it exists or has never existed.
// One that was deleted is kept
//
//   - for IdleTimeout, if no Get has asked for it since.
//   - else for two and a half cache.Options.SyncPeriods after the last Get, 25 hours by
//     default. So its creation is not missed if the reconcile that needs it is repeated
//     with each SyncPeriod, as those of For are. (client-go may skip the first one.) They
//     are not repeated if For has a predicate that ignores updates without a change, such
//     as predicate.GenerationChangedPredicate: then set the SyncPeriod to 0, which keeps
//     the object until RemoveInformer. The SyncPeriods of ByObject and of namespaces do
//     not count here.
//
// Objects have their managedFields, as in the stock cache. To save their memory, 0.3 to 0.9 kB for
// each manager, set cache.TransformStripManagedFields as a transform of the kind in cache.Options,
// BUT NOT if the program, or a library of it, calls Extract functions of apply configurations (such
// as ExtractSecret), csaupgrade or GetManagedFields: they do nothing then, without an error, and an
// Apply of what Extract has returned removes the fields that the program has applied before.
//
// Of cache.Options, Get and GetInformer honour namespaces, label and field selectors,
// transforms, UnsafeDisableDeepCopy, SyncPeriod and NewInformer. An object that a selector
// does not select is not found, as in the stock cache; its requests have the selector beside
// the name, so rights for single names suffice. What its terms on metadata.name and
// metadata.namespace exclude is not found without a request. HTTPClient is not used, because
// streams need connections of their own; ReaderFailOnMissingInformer, watch error handlers and
// bookmarks have no meaning.
//
// For the kinds of CacheOptions.Selected, List, GetInformer and IndexField are those of the stock
// cache, as are all calls for metadata with CacheOptions.StockMetadata.
//
// The first call for a kind may ask the server which resource it is. It waits until its context
// ends, SyncTimeout at most. The request has no context, and may outlive Start if it has the client
// of cache.Options.HTTPClient.
//
// When Start returns, the connections of the clients that NewCache has made are closed. Those of
// cache.Options.HTTPClient, which cluster.New and ctrl.NewManager set, and of a rest.Config with a
// Transport, are not.
//
// The function returns an error, too, for options with invalid values.
func NewCache(options CacheOptions) cache.NewCacheFunc {
	return func(config *rest.Config, stock cache.Options) (cache.Cache, error) {
		c, err := newCache(config, stock, options)
		if err != nil {
			return nil, fmt.Errorf("new cache of referenced objects: %w", err)
		}
		return c, nil
	}
}

func newCache(config *rest.Config, stock cache.Options, options CacheOptions) (*Cache, error) {
	if config == nil {
		return nil, errors.New("the config is nil")
	}
	if err := options.validate(); err != nil {
		return nil, err
	}
	options.setDefaults()
	own := &connections{open: map[*connection]struct{}{}}
	stock, err := withStockDefaults(config, stock, own)
	if err != nil {
		return nil, err
	}
	c := &Cache{options: options, stock: stock, own: own, views: map[viewID]*view{}}
	c.metadata, c.asked = map[schema.GroupVersionKind]bool{}, map[schema.GroupVersionKind]time.Time{}
	if c.kinds, err = settingsOfKinds(&options, &stock); err != nil {
		return nil, err
	}
	c.config = resource.ConfigFor(own.configFor(config))
	if c.client, err = rest.HTTPClientFor(c.config); err != nil {
		return nil, err
	}
	if options.LiveList {
		if c.live, err = client.New(config, client.Options{HTTPClient: stock.HTTPClient, Scheme: stock.Scheme, Mapper: stock.Mapper}); err != nil {
			return nil, err
		}
	}
	if c.Cache, err = cache.New(config, stock); err != nil {
		return nil, err
	}
	return c, nil
}

// withStockDefaults sets what the stock cache would set for itself.
func withStockDefaults(config *rest.Config, stock cache.Options, own *connections) (cache.Options, error) {
	var err error
	if stock.Scheme == nil {
		stock.Scheme = scheme.Scheme
	}
	if stock.HTTPClient == nil {
		if stock.HTTPClient, err = own.httpClientFor(config); err != nil {
			return stock, err
		}
	}
	if stock.Mapper == nil {
		stock.Mapper, err = apiutil.NewDynamicRESTMapper(config, stock.HTTPClient)
	}
	return stock, err
}

// isReferenced returns the kind of an object or a list, and whether it is cached by reference in
// the representation of the object.
func (c *Cache) isReferenced(object runtime.Object) (gvk schema.GroupVersionKind, ok bool) {
	gvk, ok = c.kindOf(object)
	return gvk, ok && !(c.options.StockMetadata && representationOf(object) == metadataOnly)
}

// kindOf returns the kind of an object or a list, and whether it is one of CacheOptions.For.
func (c *Cache) kindOf(object runtime.Object) (gvk schema.GroupVersionKind, ok bool) {
	gvk, err := apiutil.GVKForObject(object, c.stock.Scheme)
	if err != nil {
		return gvk, false // the stock cache returns the error
	}
	if _, isList := object.(client.ObjectList); isList {
		gvk.Kind = strings.TrimSuffix(gvk.Kind, "List")
	}
	_, ok = c.kinds[gvk]
	return gvk, ok
}

// noteMetadata notes whether the stock cache has an informer of the metadata of a kind. It does nothing
// for kinds that are not cached by reference.
func (c *Cache) noteMetadata(gvk schema.GroupVersionKind, has bool) {
	if _, ok := c.kinds[gvk]; !ok {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.metadata[gvk] = has
}

func (c *Cache) hasMetadata(gvk schema.GroupVersionKind) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.metadata[gvk]
}

// Start runs the cache until ctx ends and all its goroutines have ended. Then it closes the connections of the clients
// that NewCache has made.
func (c *Cache) Start(ctx context.Context) error {
	ctx, cancel := context.WithCancel(logf.IntoContext(ctx, logf.FromContext(ctx).WithName("refwatch")))
	defer cancel()
	if err := c.startViews(ctx); err != nil {
		return err
	}
	c.own.start()
	defer c.own.close()
	defer c.running.Wait()
	defer cancel()
	defer c.stop()
	return c.Cache.Start(ctx)
}

func (c *Cache) startViews(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ctx != nil {
		return errors.New("informer already started: a cache starts once, so make a new one")
	}
	c.ctx = ctx
	for _, v := range c.views {
		v.startLocked()
	}
	return nil
}

func (c *Cache) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stopped = true
}

// isRunning returns an error unless Start has been called and its context has not ended.
func (c *Cache) isRunning() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.ctx == nil:
		return &cache.ErrCacheNotStarted{}
	case c.stopped || c.ctx.Err() != nil:
		return c.stoppedLocked()
	}
	return nil
}

// stoppedLocked returns the error of a cache whose Start has ended, with the error and the cause of its context.
func (c *Cache) stoppedLocked() error {
	end, cause := c.ctx.Err(), context.Cause(c.ctx)
	if end == nil { // the stock cache has failed
		return objectcache.ErrStopped
	}
	if !errors.Is(cause, end) && !apierrors.IsNotFound(cause) { // of another object
		end = fmt.Errorf("%w; %w", end, cause)
	}
	return fmt.Errorf("%w: %w", objectcache.ErrStopped, end)
}

// lastError returns the error of a Get of a cache that does not run. If it has run, its store knows why it did not know
// the object.
func (c *Cache) lastError(ctx context.Context, err error, gvk schema.GroupVersionKind, key client.ObjectKey, object client.Object) error {
	if !errors.Is(err, objectcache.ErrStopped) {
		return err
	}
	c.mu.Lock()
	v := c.views[viewID{gvk, representationOf(object)}]
	c.mu.Unlock()
	if v != nil {
		if v.clusterScoped {
			key.Namespace = ""
		}
		if _, stopped := v.store.Get(ctx, key.Namespace, key.Name); errors.Is(stopped, objectcache.ErrStopped) {
			err = stopped
		}
	}
	return timedOut(ctx, err)
}

// goLocked runs a function in a goroutine that Start waits for.
func (c *Cache) goLocked(run func()) {
	if !c.stopped {
		c.running.Go(run)
	}
}

// WaitForCacheSync waits for the stock cache, and returns false if ctx ends first. The
// informers of referenced objects sync at once.
func (c *Cache) WaitForCacheSync(ctx context.Context) bool {
	if !c.Cache.WaitForCacheSync(ctx) {
		return false
	}
	var synced []toolscache.InformerSynced
	c.mu.Lock()
	for _, v := range c.views {
		if v.informer != nil {
			synced = append(synced, v.informer.HasSynced)
		}
	}
	c.mu.Unlock()
	return toolscache.WaitForCacheSync(ctx.Done(), synced...)
}

// NeedLeaderElection returns false: the cache runs on each replica, as the stock one.
func (c *Cache) NeedLeaderElection() bool { return false }

// Statuses yields the status of each object that is cached by reference, in no order, for
// [Healthz] and for logs. It has no object data. [Cache.Store] has those of one kind.
func (c *Cache) Statuses() iter.Seq[objectcache.Status] {
	return func(yield func(objectcache.Status) bool) {
		yieldStatuses(c.stores(slices.Collect(maps.Keys(c.kinds))...), yield)
	}
}
