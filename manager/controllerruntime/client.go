// SPDX-License-Identifier: Apache-2.0

package controllerruntime

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/refwatch/refwatch/objectcache"
)

// NewClient is a function for ctrl.Options.NewClient, beside [NewCache]:
//
//	ctrl.Options{NewCache: controllerruntime.NewCache(options), NewClient: controllerruntime.NewClient}
//
// Its client reads its own writes: a Get of an object that is cached by reference returns no
// state from before the last write of that object through the client. It waits for the event,
// or reads the object again after 0.1 s: see objectcache.GetOptions.NotOlderThan. No other
// object waits. DeleteAllOf, creations of subresources and dry runs do not count. If the server
// no longer has the write, because it was restored from a backup, Get returns what it has.
//
// A write that fails may have been done: after a time-out, a lost connection, or a status such as 408, 429 or 5xx. If
// client-go has repeated the request after such a status, any error counts. The next Get of the object then
// is live: it costs a read by name, and further live Gets of that object begin 1.1 to 1.6 s after each other. A write
// that kube-apiserver has refused, as with Conflict, costs nothing. Repetitions by a proxy are not noticed, nor are
// those of a transport below that of the client.
//
// With client.CacheOptions.EnableReadYourWritesConsistency, of controller-runtime v0.25, kinds that the stock cache
// serves are read as that says; a List of a kind of CacheOptions.Selected is not. Without NewClient the cache refuses
// the option with the first read or write of a kind that is cached by reference.
//
// What another client has written, also one of the same program, is seen when its event has come.
//
// Of each object of the kinds of CacheOptions.For that it has written and not read since, the client keeps
// the version, about 200 bytes. NewClient fails if options.Cache has no cache of NewCache, or if DisableFor has one of
// its kinds. It also returns the errors of client.New.
func NewClient(config *rest.Config, options client.Options) (client.Client, error) {
	var cache *Cache
	if options.Cache != nil {
		cache, _ = options.Cache.Reader.(*Cache)
	}
	if cache == nil {
		return nil, errors.New("new client that reads its own writes: it has no cache of referenced objects: set ctrl.Options.NewCache to one of controllerruntime.NewCache")
	}
	for _, object := range options.Cache.DisableFor {
		if gvk, ok := cache.kindOf(object); ok {
			return nil, fmt.Errorf("new client that reads its own writes: client.CacheOptions.DisableFor has %s, which is cached by reference: "+
				"remove it there, or set CacheOptions.For of controllerruntime, by default Secrets, to other kinds", gvk.Kind)
		}
	}
	var err error
	if options.HTTPClient, err = withAttempts(config, options.HTTPClient); err != nil {
		return nil, err
	}
	without, changed := withoutConsistency(*options.Cache)
	dryRun := options.DryRun != nil && *options.DryRun // nothing is written
	if dryRun {
		options.Cache = &without
	}
	stock, err := client.New(config, options)
	if err != nil || dryRun {
		return stock, err
	}
	referenced := stock
	if changed {
		options.Cache = &without
		if referenced, err = client.New(config, options); err != nil {
			return nil, err
		}
	}
	return &consistentClient{Client: stock, referenced: referenced, cache: cache, written: map[writtenID]demand{}}, nil
}

// withoutConsistency clears EnableReadYourWritesConsistency, which controller-runtime has since v0.25:
// it waits for events of all objects of a kind. It reports whether the field was set.
func withoutConsistency(options client.CacheOptions) (client.CacheOptions, bool) {
	field := reflect.ValueOf(&options).Elem().FieldByName("EnableReadYourWritesConsistency")
	if !field.IsValid() || field.IsZero() {
		return options, false
	}
	field.SetZero()
	return options, true
}

// consistentClient demands of each Get of an object that it has written what that write has made.
type consistentClient struct {
	client.Client // of kinds that the stock cache serves

	referenced client.Client // of the others; often the same
	cache      *Cache

	mu      sync.Mutex
	written map[writtenID]demand // what the next Get demands
	writes  uint64
}

// writtenID identifies an object in one representation: each has a store of its own.
type writtenID struct {
	view viewID
	key  client.ObjectKey
}

// demand is what a Get demands after a write.
type demand struct {
	version string    // that of the object after the write; empty if it is not known: the read must be live
	write   uint64    // of the client
	deleted types.UID // of the object that the write has deleted and the view held before; may be empty
}

func (d demand) options() objectcache.GetOptions {
	return objectcache.GetOptions{NotOlderThan: d.version, Live: d.version == ""}
}

// demandKey is the key of the context of a Get with demands.
type demandKey struct{}

// demandsOf returns the demands of a Get; none if its client has written nothing.
func demandsOf(ctx context.Context) objectcache.GetOptions {
	demands, _ := ctx.Value(demandKey{}).(objectcache.GetOptions)
	return demands
}

// Get implements client.Reader.
func (c *consistentClient) Get(ctx context.Context, key client.ObjectKey, out client.Object, opts ...client.GetOption) error {
	gvk, _ := c.cache.isReferenced(out)
	id := writtenID{viewID{gvk, representationOf(out)}, key}
	if c.cache.isClusterScoped(id.view) {
		id.key.Namespace = ""
	}
	c.mu.Lock()
	demand, ok := c.written[id]
	c.mu.Unlock()
	if !ok {
		return c.clientOf(out).Get(ctx, key, out, opts...)
	}
	if demand.deleted != "" {
		err := c.referenced.Get(ctx, key, out, opts...)
		if apierrors.IsNotFound(err) || err == nil && out.GetUID() != demand.deleted {
			c.forget(id, demand)
			return err
		}
	}
	// The client decides whether it reads from the cache.
	err := c.referenced.Get(context.WithValue(ctx, demandKey{}, demand.options()), key, out, opts...)
	isLost := errors.Is(err, objectcache.ErrStale) // a read that began after the write is older
	if err == nil || apierrors.IsNotFound(err) || isLost {
		c.forget(id, demand)
	}
	if isLost {
		return c.referenced.Get(ctx, key, out, opts...)
	}
	return err
}

// isClusterScoped reports whether the objects of a view have no namespace; false if there is no such view.
func (c *Cache) isClusterScoped(id viewID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	v := c.views[id]
	return v != nil && v.clusterScoped
}

// forget removes a demand that was met, or cannot be, unless there was another write meanwhile.
func (c *consistentClient) forget(id writtenID, met demand) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.written[id] == met {
		delete(c.written, id)
	}
}

// record records a write of an object that mayBeDone. Each view that may hold an older state gets a demand; one that is
// made later uses no read from before that: see objectcache.WatchOptions.FirstReadMaxAge.
func (c *consistentClient) record(object client.Object, version string, err error, mayBeDone bool) error {
	gvk, ok := c.cache.kindOf(object)
	if !ok || !mayBeDone {
		return err
	}
	if err != nil || !hasOrder(version) {
		version = "" // the server may have done it, or its versions have no order
	}
	views := c.cache.viewsOf(gvk)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.writes++
	for _, view := range views {
		id := writtenID{view.id, client.ObjectKeyFromObject(object)}
		if view.clusterScoped {
			id.key.Namespace = ""
		}
		held, ok := c.written[id]
		before := held.version
		if order, err := resourceversion.CompareResourceVersion(before, version); version == "" || !ok || before != "" && (err != nil || order < 0) {
			held.version = version // else another write was later, and returned earlier, or the read is live
		}
		held.write, held.deleted = c.writes, "" // a Get that is under way does not meet it
		c.written[id] = held
	}
	return err
}

// recordObject records a write that has set object to the answer. If it removes the last finalizer of an object that
// is being deleted, the answer has the version from before the deletion.
func (c *consistentClient) recordObject(object client.Object, err error, mayBeDone bool) error {
	version := object.GetResourceVersion()
	if object.GetDeletionTimestamp() != nil && len(object.GetFinalizers()) == 0 {
		version = ""
	}
	return c.record(object, version, err, mayBeDone)
}

// Create implements client.Writer.
func (c *consistentClient) Create(ctx context.Context, object client.Object, opts ...client.CreateOption) error {
	ctx, sent := noteAttempts(ctx)
	err := c.clientOf(object).Create(ctx, object, opts...)
	return c.recordObject(object, err, sent.mayBeDone((&client.CreateOptions{}).ApplyOptions(opts).DryRun))
}

// Update implements client.Writer.
func (c *consistentClient) Update(ctx context.Context, object client.Object, opts ...client.UpdateOption) error {
	ctx, sent := noteAttempts(ctx)
	err := c.clientOf(object).Update(ctx, object, opts...)
	return c.recordObject(object, err, sent.mayBeDone((&client.UpdateOptions{}).ApplyOptions(opts).DryRun))
}

// Patch implements client.Writer.
func (c *consistentClient) Patch(ctx context.Context, object client.Object, patch client.Patch, opts ...client.PatchOption) error {
	ctx, sent := noteAttempts(ctx)
	err := c.clientOf(object).Patch(ctx, object, patch, opts...)
	return c.recordObject(object, err, sent.mayBeDone((&client.PatchOptions{}).ApplyOptions(opts).DryRun))
}

// Delete implements client.Writer.
func (c *consistentClient) Delete(ctx context.Context, object client.Object, opts ...client.DeleteOption) error {
	options := (&client.DeleteOptions{}).ApplyOptions(opts)
	held := c.cache.uidsHeld(object)
	ctx, sent := noteAttempts(ctx)
	err := c.clientOf(object).Delete(ctx, object, opts...)
	err = c.record(object, "", err, sent.mayBeDone(options.DryRun))
	if err == nil {
		c.recordDeletion(object, held, sent.deleted)
	}
	return err
}

// DeleteAllOf implements client.Writer.
func (c *consistentClient) DeleteAllOf(ctx context.Context, object client.Object, opts ...client.DeleteAllOfOption) error {
	return c.clientOf(object).DeleteAllOf(ctx, object, opts...)
}

// Apply implements client.Writer.
func (c *consistentClient) Apply(ctx context.Context, configuration runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
	to := c.Client
	if c.isOfKind(configuration) {
		to = c.referenced
	}
	ctx, sent := noteAttempts(ctx)
	err := to.Apply(ctx, configuration, opts...)
	return c.recordConfiguration(configuration, err, sent.mayBeDone((&client.ApplyOptions{}).ApplyOptions(opts).DryRun))
}

// recordConfiguration records an apply, of which the client has set the configuration to the answer.
func (c *consistentClient) recordConfiguration(configuration runtime.ApplyConfiguration, err error, mayBeDone bool) error {
	return c.recordObject(metadataOf(configuration), err, mayBeDone)
}

// isOfKind reports whether a configuration is of a kind of CacheOptions.For.
func (c *consistentClient) isOfKind(configuration runtime.ApplyConfiguration) bool {
	_, ok := c.cache.kindOf(metadataOf(configuration))
	return ok
}

// metadataOf returns the kind and the metadata of a configuration; empty if it cannot be encoded, which the client
// reports.
func metadataOf(configuration runtime.ApplyConfiguration) *metav1.PartialObjectMetadata {
	metadata := &metav1.PartialObjectMetadata{}
	text, _ := json.Marshal(configuration)
	_ = json.Unmarshal(text, metadata)
	return metadata
}

// List implements client.Reader.
func (c *consistentClient) List(ctx context.Context, out client.ObjectList, opts ...client.ListOption) error {
	return c.clientOf(out).List(ctx, out, opts...)
}

// clientOf returns the client for an object or a list.
func (c *consistentClient) clientOf(object runtime.Object) client.Client {
	if _, ok := c.cache.isReferenced(object); ok {
		return c.referenced
	}
	return c.Client
}

// Status implements client.StatusClient.
func (c *consistentClient) Status() client.SubResourceWriter {
	return c.SubResource("status")
}

// SubResource implements client.SubResourceClientConstructor.
func (c *consistentClient) SubResource(name string) client.SubResourceClient {
	return &consistentSubResource{c.Client.SubResource(name), c.referenced.SubResource(name), c}
}

// consistentSubResource records writes of a subresource that change its object.
type consistentSubResource struct {
	client.SubResourceClient // of kinds that the stock cache serves

	referenced client.SubResourceClient
	client     *consistentClient
}

// clientOf returns the client for an object.
func (s *consistentSubResource) clientOf(object runtime.Object) client.SubResourceClient {
	if _, ok := s.client.cache.isReferenced(object); ok {
		return s.referenced
	}
	return s.SubResourceClient
}

// Update implements client.SubResourceWriter.
func (s *consistentSubResource) Update(ctx context.Context, object client.Object, opts ...client.SubResourceUpdateOption) error {
	ctx, sent := noteAttempts(ctx)
	err := s.clientOf(object).Update(ctx, object, opts...)
	options := (&client.SubResourceUpdateOptions{}).ApplyOptions(opts)
	return s.record(object, options.SubResourceBody, err, sent.mayBeDone(options.DryRun))
}

// Patch implements client.SubResourceWriter.
func (s *consistentSubResource) Patch(ctx context.Context, object client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
	ctx, sent := noteAttempts(ctx)
	err := s.clientOf(object).Patch(ctx, object, patch, opts...)
	options := (&client.SubResourcePatchOptions{}).ApplyOptions(opts)
	return s.record(object, options.SubResourceBody, err, sent.mayBeDone(options.DryRun))
}

// record records a write of an object's subresource. Of one with a body of its own the version of
// the object is not known.
func (s *consistentSubResource) record(object, body client.Object, err error, mayBeDone bool) error {
	if body != nil {
		return s.client.record(object, "", err, mayBeDone)
	}
	return s.client.recordObject(object, err, mayBeDone)
}

// Apply implements client.SubResourceWriter.
func (s *consistentSubResource) Apply(ctx context.Context, configuration runtime.ApplyConfiguration, opts ...client.SubResourceApplyOption) error {
	to := s.SubResourceClient
	if s.client.isOfKind(configuration) {
		to = s.referenced
	}
	ctx, sent := noteAttempts(ctx)
	err := to.Apply(ctx, configuration, opts...)
	return s.client.recordConfiguration(configuration, err, sent.mayBeDone((&client.SubResourceApplyOptions{}).ApplyOpts(opts).DryRun))
}
