// SPDX-License-Identifier: Apache-2.0

package controllerruntime_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/refwatch/refwatch/manager/controllerruntime"
	"github.com/refwatch/refwatch/test/apiserver"
)

// namespace is that of objects without another one.
const namespace = "default"

// rig is a cache, a client and an API server in one synctest bubble. The HTTP traffic is
// real, the time is virtual.
type rig struct {
	t      *testing.T
	server *apiserver.Server
	client kubernetes.Interface
	cache  cache.Cache
	stop   func() // ends Start and waits for it
}

// inBubble runs f in a bubble, with a cache that is running.
func inBubble(t *testing.T, options controllerruntime.CacheOptions, stock cache.Options, f func(t *testing.T, r *rig)) {
	t.Helper()
	onServer(t, func(t *testing.T, server *apiserver.Server) {
		made, err := controllerruntime.NewCache(options)(server.Config(), stock)
		if err != nil {
			t.Fatal(err)
		}
		r := &rig{t: t, server: server, client: server.Client(), cache: made}
		r.stop = start(t, made)
		f(t, r)
		r.stop()
	})
}

// onServer runs f in a bubble with a server that has the namespace "other".
func onServer(t *testing.T, f func(t *testing.T, server *apiserver.Server)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		server := apiserver.New(t, apiserver.Options{InMemory: true, TLS: true, CustomResources: []apiserver.CustomResource{widgets}})
		other := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "other"}}
		if _, err := server.Client().CoreV1().Namespaces().Create(t.Context(), other, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		f(t, server)
	})
}

var widgets = apiserver.CustomResource{Group: "example.com", Version: "v1", Resource: "widgets", Kind: "Widget"}

// start starts a cache or a manager. The returned function ends it and waits for it.
func start(t *testing.T, what interface{ Start(context.Context) error }) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- what.Start(ctx) }()
	synctest.Wait()
	return sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Start: got %v, want nil", err)
		}
	})
}

func secretNamed(name, value string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"app": "web"}},
		Data:       map[string][]byte{"value": []byte(value)},
	}
}

func (r *rig) create(name, value string) *corev1.Secret {
	r.t.Helper()
	secret, err := r.client.CoreV1().Secrets(namespace).Create(r.t.Context(), secretNamed(name, value), metav1.CreateOptions{})
	if err != nil {
		r.t.Fatal(err)
	}
	synctest.Wait()
	return secret
}

func (r *rig) update(name, value string) {
	r.t.Helper()
	if _, err := r.client.CoreV1().Secrets(namespace).Update(r.t.Context(), secretNamed(name, value), metav1.UpdateOptions{}); err != nil {
		r.t.Fatal(err)
	}
	synctest.Wait()
}

func (r *rig) remove(name string) {
	r.t.Helper()
	if err := r.client.CoreV1().Secrets(namespace).Delete(r.t.Context(), name, metav1.DeleteOptions{}); err != nil {
		r.t.Fatal(err)
	}
	synctest.Wait()
}

// get returns a Secret of the cache.
func (r *rig) get(name string, opts ...client.GetOption) (*corev1.Secret, error) {
	secret := &corev1.Secret{}
	return secret, r.cache.Get(r.t.Context(), types.NamespacedName{Namespace: namespace, Name: name}, secret, opts...)
}

// wantValue checks the value of a Secret in the cache.
func (r *rig) wantValue(name, want string) {
	r.t.Helper()
	secret, err := r.get(name)
	if got := string(secret.Data["value"]); err != nil || got != want {
		r.t.Errorf("%s: got %q and %v, want %q", name, got, err, want)
	}
}

// streams returns the number of watches of Secrets that are open on the server.
func (r *rig) streams() int {
	synctest.Wait()
	return r.server.TotalStreams()
}

// wantStreams checks the number of watches of Secrets that are open on the server.
func (r *rig) wantStreams(when string, want int) {
	r.t.Helper()
	if got := r.streams(); got != want {
		r.t.Errorf("%s: got %d streams, want %d", when, got, want)
	}
}

// events records what the handlers of an informer are called with.
type events struct {
	mu  sync.Mutex
	all []string
}

func (e *events) add(format string, args ...any) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all = append(e.all, fmt.Sprintf(format, args...))
}

// want checks the events since the last call.
func (e *events) want(t *testing.T, when string, want ...string) {
	t.Helper()
	synctest.Wait()
	e.mu.Lock()
	defer e.mu.Unlock()
	if !slices.Equal(e.all, want) {
		t.Errorf("%s: got events %q, want %q", when, e.all, want)
	}
	e.all = nil
}

// record adds a handler to the informer of an object's kind.
func (r *rig) record(object client.Object) *events {
	r.t.Helper()
	informer, err := r.cache.GetInformer(r.t.Context(), object)
	if err != nil {
		r.t.Fatal(err)
	}
	seen := &events{}
	_, err = informer.AddEventHandlerWithOptions(toolscache.ResourceEventHandlerFuncs{ // as controller-runtime adds them
		AddFunc:    func(object any) { seen.add("add %s", text(object)) },
		UpdateFunc: func(before, after any) { seen.add("update %s to %s", text(before), text(after)) },
		DeleteFunc: func(object any) { seen.add("delete %s", text(object)) },
	}, toolscache.HandlerOptions{})
	if err != nil {
		r.t.Fatal(err)
	}
	synctest.Wait()
	return seen
}

func text(object any) string {
	if unseen, ok := object.(toolscache.DeletedFinalStateUnknown); ok {
		object = unseen.Obj
	}
	o := object.(client.Object)
	if secret, ok := object.(*corev1.Secret); ok {
		return o.GetName() + "=" + string(secret.Data["value"])
	}
	return o.GetName()
}

// secretRequests returns the requests for Secrets that a cache sent: "verb name", without
// those of the test's own client.
func secretRequests(server *apiserver.Server) (requests []string) {
	for _, request := range server.Requests() {
		if request.Resource == "secrets" && (request.Verb == "list" || request.Verb == "watch" || request.Verb == "get") {
			requests = append(requests, strings.TrimSpace(request.Verb+" "+request.Name))
		}
	}
	return requests
}

// hold makes the server not answer gets, lists and watches of Secrets of the given names,
// until release is called.
func (r *rig) hold(names ...string) (release func()) {
	released := make(chan struct{})
	r.server.Intercept(func(ctx context.Context, request apiserver.Request) *metav1.Status {
		reads := slices.Contains([]string{"get", "list", "watch"}, request.Verb)
		if reads && request.Resource == "secrets" && slices.Contains(names, request.Name) {
			select {
			case <-ctx.Done():
			case <-released:
			}
		}
		return nil
	})
	return func() { close(released) }
}

func gvrOf(resource apiserver.CustomResource) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: resource.Group, Version: resource.Version, Resource: resource.Resource}
}

func (e *events) clear() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all = nil
}

// wantLast checks the last event.
func (e *events) wantLast(t *testing.T, when, want string) {
	t.Helper()
	synctest.Wait()
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.all) == 0 || e.all[len(e.all)-1] != want {
		t.Errorf("%s: got events %q, want %s as the last one", when, e.all, want)
	}
}

// any reports whether there was an event.
func (e *events) any() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.all) > 0
}

// wantEach checks that the events since the last call include each of those wanted.
func (e *events) wantEach(t *testing.T, when string, want ...string) {
	t.Helper()
	synctest.Wait()
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, event := range want {
		if !slices.Contains(e.all, event) {
			t.Errorf("%s: got events %q, want %s among them", when, e.all, event)
		}
	}
	e.all = nil
}
