// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/refwatch/refwatch/reflector"
	"github.com/refwatch/refwatch/test/apiserver"
)

// The code of docs/guides/from-reflector.md.

// configMapsOf lists and watches the ConfigMaps of a namespace.
func configMapsOf(client kubernetes.Interface) toolscache.ListerWatcher {
	return toolscache.ToListWatcherWithWatchListSemantics(toolscache.NewListWatchFromClient(
		client.CoreV1().RESTClient(), "configmaps", "shop", fields.Everything()), client)
}

// reflectBefore runs client-go's reflector.
func reflectBefore(ctx context.Context, lw toolscache.ListerWatcher, store toolscache.ReflectorStore, _ func(error)) {
	r := toolscache.NewReflectorWithOptions(lw, &corev1.ConfigMap{}, store, toolscache.ReflectorOptions{
		Name: "configmaps", ResyncPeriod: time.Hour,
	})
	r.RunWithContext(ctx)
}

// reflectAfter runs that of refwatch.
func reflectAfter(ctx context.Context, lw toolscache.ListerWatcher, store toolscache.ReflectorStore, report func(error)) {
	var r *reflector.Reflector
	r = reflector.New(lw, store, reflector.Options{
		Name: "configmaps", ExpectedType: &corev1.ConfigMap{}, ResyncPeriod: time.Hour,
		OnChange: func() {
			if status := r.Status(); status.Failures > 0 {
				report(status.LastError)
			}
		},
	})
	r.Run(ctx)
}

// keyed makes a store of a ThreadSafeStore, whose methods take a key and return no error.
type keyed struct{ toolscache.ThreadSafeStore }

func (k keyed) Add(object any) error { return k.Update(object) }

func (k keyed) Update(object any) error {
	key, err := toolscache.MetaNamespaceKeyFunc(object)
	if err == nil {
		k.ThreadSafeStore.Update(key, object)
	}
	return err
}

func (k keyed) Delete(object any) error {
	key, err := toolscache.MetaNamespaceKeyFunc(object)
	if err == nil {
		k.DeleteWithObject(key, object)
	}
	return err
}

func (k keyed) Replace(objects []any, version string) error {
	items := make(map[string]any, len(objects))
	for _, object := range objects {
		key, err := toolscache.MetaNamespaceKeyFunc(object)
		if err != nil {
			return err
		}
		items[key] = object
	}
	k.ThreadSafeStore.Replace(items, version)
	return nil
}

// reflected is a store, and what it holds.
type reflected struct {
	store toolscache.ReflectorStore
	list  func() []any
}

// pushed is the last state that an UndeltaStore has pushed.
type pushed struct {
	mu      sync.Mutex
	objects []any
}

func (p *pushed) set(objects []any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.objects = objects
}

func (p *pushed) list() []any {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.objects)
}

func intoStore(*testing.T) reflected {
	store := toolscache.NewStore(toolscache.MetaNamespaceKeyFunc)
	return reflected{store, store.List}
}

func intoIndexer(t *testing.T) reflected {
	indexers := toolscache.Indexers{toolscache.NamespaceIndex: toolscache.MetaNamespaceIndexFunc}
	store := toolscache.NewIndexer(toolscache.MetaNamespaceKeyFunc, indexers)
	return reflected{store, func() []any {
		objects, err := store.ByIndex(toolscache.NamespaceIndex, "shop")
		if err != nil {
			t.Error(err)
		}
		return objects
	}}
}

func intoThreadSafeStore(*testing.T) reflected {
	store := keyed{toolscache.NewThreadSafeStore(toolscache.Indexers{}, toolscache.Indices{})}
	return reflected{store, store.List}
}

func intoUndeltaStore(*testing.T) reflected {
	state := &pushed{}
	store := toolscache.NewUndeltaStore(state.set, toolscache.MetaNamespaceKeyFunc) // calls set with all objects
	return reflected{store, state.list}
}

func intoExpirationStore(*testing.T) reflected {
	store := toolscache.NewTTLStore(toolscache.MetaNamespaceKeyFunc, 24*time.Hour) // an ExpirationStore
	return reflected{store, store.List}
}

func intoFIFO(t *testing.T) reflected {
	known := toolscache.NewStore(toolscache.MetaNamespaceKeyFunc)
	queue := toolscache.NewFIFO(toolscache.MetaNamespaceKeyFunc)
	consume(t, queue, func(object any, _ bool) error { return known.Update(object) })
	return reflected{queue, known.List}
}

func intoDeltaFIFO(t *testing.T) reflected {
	known := toolscache.NewStore(toolscache.DeletionHandlingMetaNamespaceKeyFunc)
	queue := toolscache.NewDeltaFIFOWithOptions(toolscache.DeltaFIFOOptions{
		KnownObjects: known, EmitDeltaTypeReplaced: true,
	})
	consume(t, queue, into(known))
	return reflected{queue, known.List}
}

func intoRealFIFO(t *testing.T) reflected {
	known := toolscache.NewStore(toolscache.DeletionHandlingMetaNamespaceKeyFunc)
	queue := toolscache.NewRealFIFOWithOptions(toolscache.RealFIFOOptions{KnownObjects: known})
	consume(t, queue, into(known))
	return reflected{queue, known.List}
}

// into applies the deltas of a queue to the store that the queue knows.
func into(known toolscache.Store) toolscache.PopProcessFunc {
	return func(popped any, _ bool) (err error) {
		for _, delta := range popped.(toolscache.Deltas) {
			if delta.Type == toolscache.Deleted {
				err = errors.Join(err, known.Delete(delta.Object))
			} else {
				err = errors.Join(err, known.Update(delta.Object))
			}
		}
		return err
	}
}

// consume pops a queue until the test ends.
func consume(t *testing.T, queue toolscache.Queue, process toolscache.PopProcessFunc) {
	var running sync.WaitGroup
	running.Go(func() {
		for {
			if _, err := queue.Pop(process); errors.Is(err, toolscache.ErrFIFOClosed) {
				return
			} else if err != nil {
				t.Error(err)
			}
		}
	})
	t.Cleanup(running.Wait)
	t.Cleanup(queue.Close)
}

// Both reflectors of the guide fill each store of client-go with the objects of the server,
// through changes and the end of a stream.
func TestFromReflector(t *testing.T) {
	type test struct {
		into func(*testing.T) reflected
		want string
	}
	const current = "a=2 c=1"
	tests := map[string]test{
		"Store": {intoStore, current}, "Indexer": {intoIndexer, current}, "ThreadSafeStore": {intoThreadSafeStore, current},
		"UndeltaStore": {intoUndeltaStore, current}, "ExpirationStore": {intoExpirationStore, current},
		"FIFO":      {intoFIFO, "a=2 b=1 c=1"}, // delivers no deletions
		"DeltaFIFO": {intoDeltaFIFO, current}, "RealFIFO": {intoRealFIFO, current},
	}
	reflectors := map[string]func(context.Context, toolscache.ListerWatcher, toolscache.ReflectorStore, func(error)){
		"before": reflectBefore, "after": reflectAfter,
	}
	for name, test := range tests {
		for when, reflect := range reflectors {
			t.Run(name+" "+when, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { reflectInto(t, test.into(t), reflect, test.want) })
			})
		}
	}
}

// reflectInto runs a reflector into a store, and compares what the store holds in the end.
func reflectInto(
	t *testing.T, r reflected,
	reflect func(context.Context, toolscache.ListerWatcher, toolscache.ReflectorStore, func(error)), want string,
) {
	server := apiserver.New(t, apiserver.Options{InMemory: true})
	shop := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}
	_, err := server.Client().CoreV1().Namespaces().Create(t.Context(), shop, metav1.CreateOptions{})
	check(t, err)
	objects := server.Client().CoreV1().ConfigMaps("shop")
	create := func(name string) {
		_, err := objects.Create(t.Context(), configMap(name, "1"), metav1.CreateOptions{})
		check(t, err)
	}
	create("a")
	create("b")
	ctx, cancel := context.WithCancel(t.Context())
	failures, ended := make(chan error, 100), make(chan struct{})
	go func() {
		defer close(ended)
		reflect(ctx, configMapsOf(server.Client()), r.store, func(err error) { failures <- err })
	}()
	time.Sleep(time.Minute)
	wantHeld(t, r, "a=1 b=1")
	_, err = objects.Update(t.Context(), configMap("a", "2"), metav1.UpdateOptions{})
	check(t, err)
	server.CloseStreams(nil) // the next stream brings what follows
	check(t, objects.Delete(t.Context(), "b", metav1.DeleteOptions{}))
	create("c")
	time.Sleep(time.Minute)
	wantHeld(t, r, want)
	cancel()
	<-ended
	if got := len(failures); got != 0 {
		t.Errorf("failures: got %d, the first of them %v; want none", got, <-failures)
	}
}

// The function of the guide gets the failures that client-go's WatchErrorHandler gets.
func TestFromReflectorReports(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := apiserver.New(t, apiserver.Options{InMemory: true})
		lw := configMapsOf(server.Client())
		server.Close()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		count := 0
		reflectAfter(ctx, lw, intoStore(t).store, func(err error) {
			if count++; err == nil {
				t.Error("a failure without an error")
			}
		})
		if count < 3 {
			t.Errorf("failures in a minute: got %d, want 3 or more", count)
		}
	})
}

func configMap(name, value string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"value": value}}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// wantHeld compares what a store holds with texts like "a=1 b=1".
func wantHeld(t *testing.T, r reflected, want string) {
	t.Helper()
	var all []string
	for _, object := range r.list() {
		configMap := object.(*corev1.ConfigMap)
		all = append(all, configMap.Name+"="+configMap.Data["value"])
	}
	slices.Sort(all)
	if got := strings.Join(all, " "); got != want {
		t.Errorf("objects: got %q, want %q", got, want)
	}
}
