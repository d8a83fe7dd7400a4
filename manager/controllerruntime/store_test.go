// SPDX-License-Identifier: Apache-2.0

package controllerruntime_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/refwatch/refwatch/manager/controllerruntime"
	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/test/apiserver"
)

// storeOf returns the store of an object's kind.
func (r *rig) storeOf(object client.Object) *controllerruntime.Store {
	r.t.Helper()
	store, err := r.cache.(*controllerruntime.Cache).Store(object)
	if err != nil {
		r.t.Fatal(err)
	}
	return store
}

// inAllRepresentations returns empty Secrets: typed, unstructured and metadata only.
func inAllRepresentations() []client.Object {
	gvk := corev1.SchemeGroupVersion.WithKind("Secret")
	untyped, metadata := &unstructured.Unstructured{}, &metav1.PartialObjectMetadata{}
	untyped.SetGroupVersionKind(gvk)
	metadata.SetGroupVersionKind(gvk)
	return []client.Object{&corev1.Secret{}, untyped, metadata}
}

// A store counts what all representations of its kind do, and nothing of other kinds.
func TestStoreSumsRepresentations(t *testing.T) {
	kinds := []client.Object{&corev1.Secret{}, &corev1.ConfigMap{}}
	inBubble(t, controllerruntime.CacheOptions{For: kinds}, cache.Options{}, func(t *testing.T, r *rig) {
		store := r.storeOf(&corev1.Secret{})
		r.create("one", "1")
		for i, out := range inAllRepresentations() {
			for range 10 {
				if err := r.cache.Get(t.Context(), keyOfOne, out); err != nil {
					t.Fatal(err)
				}
			}
			synctest.Wait()
			want, got := i+1, store.Stats()
			if got.Objects != want || got.References != want || got.OpenStreams != want || got.Opens["first"] != uint64(want) {
				t.Errorf("after %d representations: got %+v, want that many objects, references and streams", want, got)
			}
			if returned := got.Gets[objectcache.GetHit] + got.Gets[objectcache.GetWaited]; returned != uint64(10*want) {
				t.Errorf("after %d representations: got Gets %v, want %d that returned the object", want, got.Gets, 10*want)
			}
			if got.Gets[objectcache.GetNotRegistered] != 0 {
				t.Errorf("after %d representations: got Gets %v, want none of what is not registered", want, got.Gets)
			}
			if got.FirstSync.Count != uint64(want) {
				t.Errorf("after %d representations: got %d first syncs", want, got.FirstSync.Count)
			}
			if got := len(slices.Collect(store.Statuses())); got != want {
				t.Errorf("after %d representations: got %d statuses", want, got)
			}
		}
		if got := r.storeOf(&corev1.ConfigMap{}).Stats(); got.Objects != 0 || got.Resource.Resource != "configmaps" {
			t.Errorf("ConfigMaps: got %+v, want no objects", got)
		}
		if got := len(slices.Collect(r.cache.(*controllerruntime.Cache).Statuses())); got != 3 {
			t.Errorf("statuses of the cache: got %d, want 3", got)
		}
	})
}

// Before the first read a store has the resource, the Gate, and all numbers with 0; no
// request is sent for that. They are those of the first read, too.
func TestStoreBeforeTheFirstRead(t *testing.T) {
	gate := objectcache.NewGate(objectcache.GateOptions{})
	onServer(t, func(t *testing.T, server *apiserver.Server) {
		options := controllerruntime.CacheOptions{Gate: gate, For: []client.Object{&corev1.Secret{}, &corev1.ConfigMap{}}}
		made, err := controllerruntime.NewCache(options)(server.Config(), cache.Options{})
		if err != nil {
			t.Fatal(err)
		}
		r := &rig{t: t, server: server, client: server.Client(), cache: made}
		before := len(server.Requests())
		store := r.storeOf(&corev1.Secret{})
		for range store.Statuses() {
			t.Error("got a status, want none")
		}
		first := store.Stats()
		if got := len(server.Requests()); got != before {
			t.Errorf("got %d requests, want none", got-before)
		}
		r.stop = start(t, made)
		r.create("one", "1")
		r.wantValue("one", "1")
		second := store.Stats()
		if first.Resource != second.Resource || first.Gate != gate || second.Gate != gate {
			t.Errorf("got resource %v and then %v, Gates %p and %p, want those of the options: %p",
				first.Resource, second.Resource, first.Gate, second.Gate, gate)
		}
		if configMaps := r.storeOf(&corev1.ConfigMap{}).Stats(); configMaps.Gate != gate {
			t.Error("ConfigMaps: got a Gate of their own, want that of the cache")
		}
		if len(first.Gets) == 0 || len(first.Gets) != len(second.Gets) || len(first.Opens) != len(second.Opens) {
			t.Errorf("got counts of %v and %v, and then of %v and %v, want the same keys", first.Gets, first.Opens, second.Gets, second.Opens)
		}
		r.stop()
	})
}

// Reading a store beside Gets that make its views is safe.
func TestStoreBesideGets(t *testing.T) {
	inBubble(t, controllerruntime.CacheOptions{}, cache.Options{}, func(t *testing.T, r *rig) {
		store := r.storeOf(&corev1.Secret{})
		var running sync.WaitGroup
		for i, out := range slices.Repeat(inAllRepresentations(), 4) {
			running.Go(func() {
				key := types.NamespacedName{Namespace: namespace, Name: fmt.Sprint("absent-", i)}
				if err := r.cache.Get(t.Context(), key, out.DeepCopyObject().(client.Object)); !apierrors.IsNotFound(err) {
					t.Errorf("%v: got %v, want NotFound", key, err)
				}
			})
			running.Go(func() {
				objects := store.Stats().Objects
				if got := len(slices.Collect(store.Statuses())); got < objects {
					t.Errorf("got %d statuses, want those of at least %d objects", got, objects)
				}
			})
		}
		running.Wait()
		if got := store.Stats(); got.Objects != 12 || got.Gets[objectcache.GetNotFound] != 12 {
			t.Errorf("got %d objects and Gets %v, want 12 each that were not found", got.Objects, got.Gets)
		}
	})
}

func TestStoreErrors(t *testing.T) {
	made, err := controllerruntime.NewCache(controllerruntime.CacheOptions{})(apiserver.New(t, apiserver.Options{}).Config(), cache.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		object client.Object
		want   string
	}{
		"nil":        {nil, "the object is nil"},
		"nil Secret": {(*corev1.Secret)(nil), "the object is nil"},
		"other kind": {&corev1.ConfigMap{}, "store of ConfigMap: the kind is not cached by reference: add it to CacheOptions.For"},
		"no kind":    {&unstructured.Unstructured{}, "is not cached by reference"},
	} {
		t.Run(name, func(t *testing.T) {
			store, err := made.(*controllerruntime.Cache).Store(test.object)
			if store != nil || err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v and error %v, want an error with %q", store, err, test.want)
			}
		})
	}
}

// A Store says what the cache needs, as a guess before the first read, and then for certain.
func TestStorePermissions(t *testing.T) {
	options := controllerruntime.CacheOptions{For: []client.Object{&corev1.Secret{}, &corev1.Namespace{}}}
	inBubble(t, options, cache.Options{}, func(t *testing.T, r *rig) {
		verbs := []string{"get", "list", "watch"}
		r.create("one", "1")
		for _, test := range []struct {
			object        client.Object
			key           client.ObjectKey
			resource      string
			clusterScoped bool
		}{
			{&corev1.Secret{}, keyOfOne, "secrets", false},
			{&corev1.Namespace{}, client.ObjectKey{Name: "other"}, "namespaces", true},
		} {
			store, err := r.cache.(*controllerruntime.Cache).Store(test.object)
			if err != nil {
				t.Fatal(err)
			}
			if got := store.Permissions(); got.Resource.Resource != test.resource || !slices.Equal(got.Verbs, verbs) {
				t.Errorf("before the first read: got %+v, want %s", got, test.resource)
			}
			if err := r.cache.Get(t.Context(), test.key, test.object); err != nil {
				t.Fatal(err)
			}
			if got := store.Permissions(); got.Resource.Resource != test.resource || got.ClusterScoped != test.clusterScoped || !slices.Equal(got.Verbs, verbs) {
				t.Errorf("after it: got %+v, want %s", got, test.resource)
			}
		}
	})
}
