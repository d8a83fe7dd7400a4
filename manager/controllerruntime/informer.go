// SPDX-License-Identifier: Apache-2.0

package controllerruntime

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/refwatch/refwatch/objectcache"
)

// informer is client-go's informer of the objects that a view holds. Handlers, indexers,
// resyncs and events with old and new object are client-go's. Its list is empty, so that
// it syncs at once, and its watch yields the changes of the store.
type informer struct {
	toolscache.SharedIndexInformer

	changes *changes
	cancel  context.CancelFunc // nil before Start
}

// informer returns the informer of a view, and whether the cache runs. It makes the
// informer if there is none.
func (c *Cache) informer(v *view) (made *informer, started bool) {
	c.mu.Lock()
	isNew := v.informer == nil
	if isNew {
		v.informer = v.newInformer()
		if c.ctx != nil {
			v.startInformerLocked()
		}
	}
	made, started = v.informer, c.ctx != nil
	c.mu.Unlock()
	if isNew {
		c.askForAll(v)
	}
	return made, started
}

func (v *view) newInformer() *informer {
	newInformer := toolscache.NewSharedIndexInformer
	if v.cache.stock.NewInformer != nil {
		newInformer = v.cache.stock.NewInformer
	}
	source := &changes{v: v}
	// Ten percent of jitter, as in the stock cache.
	resync := time.Duration(float64(v.settings.resyncPeriod()) * (0.9 + rand.Float64()/5))
	shared := newInformer(source.listerWatcher(), v.example(), resync, toolscache.Indexers{toolscache.NamespaceIndex: toolscache.MetaNamespaceIndexFunc})
	return &informer{SharedIndexInformer: shared, changes: source}
}

// AddEventHandler implements cache.Informer.
func (i *informer) AddEventHandler(handler toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	if err := refuseConsistency(handler); err != nil {
		return nil, err
	}
	return i.SharedIndexInformer.AddEventHandler(handler)
}

// refuseConsistency returns an error for the handler with which controller-runtime's
// client.CacheOptions.EnableReadYourWritesConsistency, of v0.25, waits for the events of all objects:
// of an object that no Get has asked for there are none, and so the client would wait for ever.
func refuseConsistency(handler toolscache.ResourceEventHandler) error {
	if fmt.Sprintf("%T", handler) != "*consistencyhandler.ConsistencyHandler" {
		return nil
	}
	return errors.New("a cache of referenced objects does not have the events that client.CacheOptions.EnableReadYourWritesConsistency " +
		"waits for: set ctrl.Options.NewClient to controllerruntime.NewClient, whose client reads its own writes")
}

// startInformerLocked runs the informer, if there is one, until it is removed or the
// context of Start ends.
func (v *view) startInformerLocked() {
	if v.informer == nil {
		return
	}
	informer := v.informer
	var ctx context.Context
	ctx, informer.cancel = context.WithCancel(v.cache.ctx)
	v.cache.goLocked(func() {
		informer.RunWithContext(ctx)
		informer.changes.running.Wait()
	})
	v.cache.goLocked(func() { v.noteIfUnasked(ctx) })
}

// silentAfter is how long an informer may have no object before that is logged.
const silentAfter = time.Minute

// silentNote says that the handlers of an informer get no events. That is so for a program that
// has nothing to do yet, and for one whose Gets do not pass this cache, or that has none.
const silentNote = "Handlers get no events: no Get has asked the cache for an object of this kind. " +
	"Get each object that matters, remove the kind from client.CacheOptions.DisableFor, or leave it out of CacheOptions.For"

// noteIfUnasked logs silentNote, and has it noted, unless a Get has asked for an object.
func (v *view) noteIfUnasked(ctx context.Context) {
	timer := time.NewTimer(silentAfter)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
		if v.leases.wereAcquired() {
			return
		}
		v.silent.Store(true)
		logf.FromContext(ctx).Info(silentNote, "kind", v.id.kind.Kind)
		<-ctx.Done()
		v.silent.Store(false)
	}
}

func (c *Cache) removeInformer(id viewID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	v := c.views[id]
	if v == nil {
		return
	}
	v.hasSet.Store(false)
	v.setHandled = false
	if v.informer == nil {
		return
	}
	if v.informer.cancel != nil {
		v.informer.cancel()
	}
	v.informer = nil
}

// askOthers takes leases on an object that a Get asks for, in the other views of its
// kind that have an informer, and returns a function that releases them with the result
// of the Get. With builder.OnlyMetadata the events are those of metadata, and Gets are
// often typed.
func (c *Cache) askOthers(v *view, key types.NamespacedName) (release func(error)) {
	others := c.othersWithHandlers(v)
	held := make([]*lease, len(others))
	for i, other := range others {
		if !other.settings.selected { // the set has the events of all
			held[i] = other.leases.acquire(key)
		}
	}
	return func(err error) {
		for i, other := range others {
			if held[i] != nil {
				other.leases.release(held[i], err)
			}
		}
	}
}

// othersWithHandlers returns the other views of a view's kind that have an informer, of their own or of the set.
func (c *Cache) othersWithHandlers(v *view) (others []*view) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for as := typed; as <= metadataOnly; as++ {
		if other := c.views[viewID{v.id.kind, as}]; other != nil && other != v && (other.informer != nil || other.setHandled) {
			others = append(others, other)
		}
	}
	return others
}

// noteSetHandled notes that there is an informer of the set in a view's representation.
func (c *Cache) noteSetHandled(v *view) {
	c.mu.Lock()
	defer c.mu.Unlock()
	v.setHandled = true
}

// noteDeletion notes an event by which an object was deleted, or has left the set, in all views of the kind but one.
// The version is that of the event; empty if it is not known. Handlers get the event afterwards.
func (c *Cache) noteDeletion(kind schema.GroupVersionKind, key types.NamespacedName, version string, but *view) {
	for _, v := range c.viewsOf(kind) {
		if v != but {
			v.leases.note(key, func(k *versions) { k.leave(version) })
		}
	}
}

// viewsOf returns the views of a kind that there are.
func (c *Cache) viewsOf(kind schema.GroupVersionKind) (views []*view) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for as := typed; as <= metadataOnly; as++ {
		if v := c.views[viewID{kind, as}]; v != nil {
			views = append(views, v)
		}
	}
	return views
}

// askForAll takes leases on all objects that Gets have asked for in other views.
func (c *Cache) askForAll(v *view) {
	for _, other := range c.viewsOf(v.id.kind) {
		if other == v {
			continue
		}
		for _, key := range other.leases.keys() {
			v.ask(key)
		}
	}
}

// ask takes a lease on an object, or uses the one that there is.
func (v *view) ask(key types.NamespacedName) {
	v.leases.release(v.leases.acquire(key), objectcache.ErrNotSynced)
}

// retention returns for how long leases are kept now.
func (v *view) retention() retention {
	v.cache.mu.Lock()
	defer v.cache.mu.Unlock()
	rule := retention{handlers: v.informer != nil, idle: v.cache.options.IdleTimeout, absent: v.cache.absentTimeout()}
	if v.settings.selected {
		rule.keep = v.isNewerThanSet
	}
	return rule
}

// absentTimeout returns how long an object that was deleted is kept for an informer after
// the last Get that asked for it; 0 if it is kept for ever.
func (c *Cache) absentTimeout() time.Duration {
	period := defaultSyncPeriod
	if c.stock.SyncPeriod != nil {
		period = *c.stock.SyncPeriod
	}
	if period == 0 {
		return 0
	}
	// A handler that is added when its informer runs already, as that of For, is first
	// called after up to two periods, each with ten percent of jitter.
	return 2*period + period/2
}

// changes is the list and watch of an informer.
type changes struct {
	v       *view // whose changes these are
	running sync.WaitGroup
}

func (c *changes) listerWatcher() toolscache.ListerWatcher {
	return toolscache.ToListWatcherWithWatchListSemantics(&toolscache.ListWatch{
		ListWithContextFunc: func(context.Context, metav1.ListOptions) (runtime.Object, error) {
			return &metav1.PartialObjectMetadataList{ListMeta: metav1.ListMeta{ResourceVersion: "0"}}, nil
		},
		WatchFuncWithContext: c.watch,
	}, withoutWatchList{})
}

// withoutWatchList makes the reflector list and watch.
type withoutWatchList struct{}

// IsWatchListSemanticsUnSupported implements the method that client-go looks for.
func (withoutWatchList) IsWatchListSemanticsUnSupported() bool { return true }

// watch returns a watch that yields the first state of each object, and its changes. It
// lasts until ctx ends: after a second list, handlers would see deletions of all objects.
func (c *changes) watch(ctx context.Context, _ metav1.ListOptions) (watch.Interface, error) {
	ctx, cancel := context.WithCancel(ctx)
	w := &changesWatch{events: make(chan watch.Event), cancel: cancel}
	c.running.Go(func() {
		defer close(w.events)
		w.run(ctx, c.v.store.Changes(ctx), c.observe)
		<-ctx.Done()
	})
	return w, nil
}

// observe is called before handlers get the events of a change.
func (c *changes) observe(change objectcache.Change[client.Object]) {
	exists := change.Err == nil
	if wasKnown := c.v.leases.observe(change.Key, exists); wasKnown && !exists {
		c.v.cache.noteDeletion(c.v.id.kind, change.Key, change.ResourceVersion, c.v)
	}
}

type changesWatch struct {
	events chan watch.Event
	cancel context.CancelFunc
}

// Stop implements watch.Interface.
func (w *changesWatch) Stop() { w.cancel() }

// ResultChan implements watch.Interface.
func (w *changesWatch) ResultChan() <-chan watch.Event { return w.events }

// run sends the events of all changes until ctx ends. It calls observe before it sends.
func (w *changesWatch) run(ctx context.Context, changes iter.Seq2[objectcache.Change[client.Object], []types.UID], observe func(objectcache.Change[client.Object])) {
	known := map[types.NamespacedName]client.Object{} // as last sent
	for change := range changes {
		before, exists := known[change.Key], change.Err == nil
		switch {
		case exists:
			known[change.Key] = change.Object
		case apierrors.IsNotFound(change.Err):
			delete(known, change.Key)
		default: // a refusal does not say whether the object exists
			continue
		}
		observe(change)
		for _, event := range eventsOf(before, change) {
			select {
			case w.events <- event:
			case <-ctx.Done():
				return
			}
		}
	}
}

// eventsOf returns the events of a change of an object that handlers know as before, nil
// if they do not. An object that was deleted and created again is another one. So is one
// that changed and kept its version, because the server was restored from a backup:
// client-go takes an update between equal versions for a resync, which not all handlers get.
func eventsOf(before client.Object, change objectcache.Change[client.Object]) (events []watch.Event) {
	replaced := before != nil && (change.Err != nil || before.GetUID() != change.Object.GetUID() || sameVersionOnly(before, change.Object))
	if replaced {
		events = append(events, watch.Event{Type: watch.Deleted, Object: before})
	}
	switch {
	case change.Err != nil: // absent
	case before == nil || replaced:
		events = append(events, watch.Event{Type: watch.Added, Object: change.Object})
	default:
		events = append(events, watch.Event{Type: watch.Modified, Object: change.Object})
	}
	return events
}

// sameVersionOnly reports whether two states of an object differ, though their versions
// are equal.
func sameVersionOnly(a, b client.Object) bool {
	return a.GetResourceVersion() == b.GetResourceVersion() && a != b &&
		(a.GetUID() != b.GetUID() || !equality.Semantic.DeepEqual(a, b))
}
