// SPDX-License-Identifier: Apache-2.0

package listers_test

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	corev1listers "k8s.io/client-go/listers/core/v1"

	"github.com/refwatch/refwatch/cache"
	"github.com/refwatch/refwatch/manager/listers"
	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/objectcache/resource"
	"github.com/refwatch/refwatch/test/apiserver"
)

// namespace is that of objects and references without another one.
const namespace = "default"

// rig is a store of Secrets, its lister, a client and an API server in one synctest
// bubble. The HTTP traffic is real, the time is virtual.
type rig struct {
	t       *testing.T
	server  *apiserver.Server
	client  kubernetes.Interface
	secrets *objectcache.WatchStore[*corev1.Secret]
	lister  corev1listers.SecretLister
	stop    func() // ends Run and waits for it
}

// inBubble runs f in a bubble, with a store that is running.
func inBubble(t *testing.T, store objectcache.WatchOptions, options listers.Options, f func(r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &rig{t: t, server: apiserver.New(t, apiserver.Options{InMemory: true})}
		r.client = r.server.Client()
		var err error
		if r.secrets, err = objectcache.NewWatchStore(resource.Secrets(r.client), store); err != nil {
			t.Fatal(err)
		}
		if r.lister, err = listers.Secrets(r.secrets, options); err != nil {
			t.Fatal(err)
		}
		other := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "other"}}
		if _, err := r.client.CoreV1().Namespaces().Create(t.Context(), other, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		r.stop = run(t, r.secrets)
		f(r)
		r.stop()
	})
}

// run runs a store until the returned function is called, which waits for its end.
func run[T cache.Object](t *testing.T, store *objectcache.WatchStore[T]) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- store.Run(ctx) }()
	synctest.Wait()
	return func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: got %v, want nil", err)
		}
	}
}

// create creates a Secret. The key is "name" or "namespace/name", and the labels are
// "key=value,key=value".
func (r *rig) create(key, set string) {
	r.t.Helper()
	parsed, err := labels.ConvertSelectorToLabelsMap(set)
	if err != nil {
		r.t.Fatal(err)
	}
	id := parse(key)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: id.Name, Labels: parsed}}
	if _, err := r.client.CoreV1().Secrets(id.Namespace).Create(r.t.Context(), secret, metav1.CreateOptions{}); err != nil {
		r.t.Fatalf("create %s: %v", key, err)
	}
	synctest.Wait()
}

func (r *rig) remove(key string) {
	r.t.Helper()
	id := parse(key)
	if err := r.client.CoreV1().Secrets(id.Namespace).Delete(r.t.Context(), id.Name, metav1.DeleteOptions{}); err != nil {
		r.t.Fatalf("delete %s: %v", key, err)
	}
	synctest.Wait()
}

// reference adds a reference to each object.
func (r *rig) reference(keys ...string) {
	for _, key := range keys {
		id := parse(key)
		r.secrets.AddReference(id.Namespace, id.Name, "pod")
	}
	synctest.Wait()
}

func (r *rig) get(name string) (*corev1.Secret, error) { return r.lister.Secrets(namespace).Get(name) }

// streams returns the number of streams that are open on the server.
func (r *rig) streams() int {
	synctest.Wait()
	return r.server.TotalStreams()
}

// holdBack blocks lists and watches until release is called.
func (r *rig) holdBack() (release func()) {
	gate := make(chan struct{})
	r.server.Intercept(func(_ context.Context, request apiserver.Request) *metav1.Status {
		if request.Verb == "get" || request.Verb == "list" || request.Verb == "watch" {
			<-gate
		}
		return nil
	})
	return func() { close(gate); r.server.Intercept(nil) }
}

// want checks the keys of listed objects.
func (r *rig) want(when string, list func(labels.Selector) ([]*corev1.Secret, error), selector, want string) {
	r.t.Helper()
	parsed, err := labels.Parse(selector)
	if err != nil {
		r.t.Fatal(err)
	}
	objects, err := list(parsed)
	if err != nil {
		r.t.Errorf("%s: %v", when, err)
	}
	keys := map[string]bool{}
	for _, object := range objects {
		keys[object.Namespace+"/"+object.Name] = true
	}
	if got := strings.Join(slices.Sorted(maps.Keys(keys)), " "); got != want || len(keys) != len(objects) {
		r.t.Errorf("%s: got %d objects, %q, want %q, each once", when, len(objects), got, want)
	}
}

// parse returns the key of "name" or "namespace/name".
func parse(key string) types.NamespacedName {
	if space, name, ok := strings.Cut(key, "/"); ok {
		return types.NamespacedName{Namespace: space, Name: name}
	}
	return types.NamespacedName{Namespace: namespace, Name: key}
}
