// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/refwatch/refwatch/cache"
	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/objectcache/resource"
	"github.com/refwatch/refwatch/test/apiserver"
	"github.com/refwatch/refwatch/test/clients"
)

// onCustomServer runs f in a bubble with a server of Widgets.
func onCustomServer(t *testing.T, f func(t *testing.T, server *apiserver.Server)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f(t, apiserver.New(t, apiserver.Options{InMemory: true, CustomResources: customResources}))
	})
}

// allStrategies are the options of stores with each strategy.
var allStrategies = map[string]objectcache.StoreOptions{
	"watch": objectcache.WatchOptions{}, "TTL": objectcache.TTLOptions{}, "direct": objectcache.DirectOptions{},
}

// getOnce returns the errors of a Get of a new store and of its Status.
func getOnce[T cache.Object](t *testing.T, resource resource.Resource[T], key types.NamespacedName) (get, status error) {
	t.Helper()
	return getOnceBy(t, resource, key, nil)
}

func getOnceBy[T cache.Object](t *testing.T, resource resource.Resource[T], key types.NamespacedName, options objectcache.StoreOptions) (get, status error) {
	t.Helper()
	store, err := objectcache.NewStore(resource, options)
	if err != nil {
		t.Fatal(err)
	}
	stop := runStore(t.Context(), t, store)
	defer stop()
	store.AddReference(key.Namespace, key.Name, "owner")
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	_, get = store.Get(ctx, key.Namespace, key.Name)
	if got, ok := store.Status(key.Namespace, key.Name); ok {
		return get, got.LastError
	}
	return get, get // a store without status
}

// A wrong group, version, resource or scope is a NotServedError at the first request,
// with each kind of client. It names the path and what to check.
func TestNotServedNamesThePath(t *testing.T) {
	tests := map[string]struct {
		resource      schema.GroupVersionResource
		clusterScoped bool
		path          string
	}{
		"resource": {widgets.GroupVersion().WithResource("gadgets"), false, "/apis/example.com/v1/namespaces/NAMESPACE/gadgets"},
		"version":  {widgets.GroupResource().WithVersion("v2"), false, "/apis/example.com/v2/namespaces/NAMESPACE/widgets"},
		"group":    {schema.GroupVersionResource{Group: "example.org", Version: "v1", Resource: "widgets"}, false, "/apis/example.org/v1/namespaces/NAMESPACE/widgets"},
		"scope":    {clusterWidgets, false, "/apis/example.com/v1/namespaces/NAMESPACE/clusterwidgets"},
		"built in": {nodesPath, false, "/api/v1/namespaces/NAMESPACE/nodes"},
		"cluster":  {widgets.GroupVersion().WithResource("gadgets"), true, "/apis/example.com/v1/gadgets"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			onCustomServer(t, func(t *testing.T, server *apiserver.Server) {
				key := types.NamespacedName{Namespace: namespace, Name: "one"}
				fromConfig := resource.FromConfig[untyped, untypedList](server.Config(), test.resource)
				fromClient := clients.Dynamic(dynamicClient(t, server.Config()), test.resource)
				if test.clusterScoped {
					key.Namespace = ""
					fromConfig, fromClient = fromConfig.ClusterScoped(), fromClient.ClusterScoped()
				}
				for client, kind := range map[string]resource.Resource[untyped]{"config": fromConfig, "dynamic": fromClient} {
					for strategy, options := range allStrategies {
						get, status := getOnceBy(t, kind, key, options)
						for from, err := range map[string]error{"Get": get, "Status": status} {
							var unserved *resource.NotServedError
							if !errors.As(err, &unserved) || apierrors.IsNotFound(err) || unserved.Resource != test.resource ||
								unserved.ClusterScoped != test.clusterScoped || unserved.Code != 404 {
								t.Errorf("%s, %s, %s: got %#v, want a NotServedError of %s", client, strategy, from, err, test.resource)
								continue
							}
							text, builtIn := err.Error(), test.resource.Group == ""
							if !strings.Contains(text, "the path "+test.path+" is not served (404): check the ") ||
								strings.Contains(text, "CustomResourceDefinition") == builtIn || !strings.Contains(text, "that the kind is "+map[bool]string{false: "namespaced", true: "cluster-scoped"}[test.clusterScoped]) {
								t.Errorf("%s, %s, %s: got %s, want the path %s and what to check", client, strategy, from, text, test.path)
							}
						}
					}
				}
			})
		})
	}
}

// A namespaced kind that is taken for a cluster-scoped one: an object of the name is an
// error that says so, and a user of one namespace is refused.
func TestNamespacedKindAsClusterScoped(t *testing.T) {
	onCustomServer(t, func(t *testing.T, server *apiserver.Server) {
		resource := resource.FromConfig[untyped, untypedList](server.Config(), widgets).ClusterScoped()
		l := &life{t: t, Server: server, resource: widgets, admin: dynamicClient(t, server.Config()).Resource(widgets).Namespace(namespace)}
		l.write("Widget", "red")
		for _, err := range twoErrors(getOnce(t, resource, types.NamespacedName{Name: "one"})) {
			if !errors.Is(err, cache.ErrForeign) || !strings.Contains(err.Error(), "used as cluster-scoped: is it namespaced?") {
				t.Errorf("got %v, want ErrForeign and what to do", err)
			}
		}
		server.Authorize(func(request apiserver.Request) bool { return request.Namespace != "" })
		for _, err := range twoErrors(getOnce(t, resource, types.NamespacedName{Name: "one"})) {
			if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "at the cluster scope") {
				t.Errorf("got %v, want Forbidden at the cluster scope", err)
			}
		}
	})
}

func twoErrors(a, b error) []error { return []error{a, b} }

// The key of a cluster-scoped kind has no namespace, and every other key has one.
func TestScopeOfKeys(t *testing.T) {
	onCustomServer(t, func(t *testing.T, server *apiserver.Server) {
		nodes := resource.Typed[*corev1.Node, *corev1.NodeList](server.Client().CoreV1().RESTClient(), nodesPath).ClusterScoped()
		get, _ := getOnce(t, nodes, types.NamespacedName{Namespace: namespace, Name: "node-1"})
		if !errors.Is(get, objectcache.ErrInvalidName) || !strings.Contains(get.Error(), "namespace: must be empty") {
			t.Errorf("node with a namespace: got %v, want ErrInvalidName", get)
		}
		get, _ = getOnce(t, resource.Secrets(server.Client()), types.NamespacedName{Name: "tls"})
		if !errors.Is(get, objectcache.ErrInvalidName) || !strings.Contains(get.Error(), "used as namespaced") {
			t.Errorf("secret without a namespace: got %v, want ErrInvalidName and what to do", get)
		}
		get, _ = getOnce(t, nodes, types.NamespacedName{Name: "node-1"})
		if !apierrors.IsNotFound(get) || get.Error() != `nodes "node-1" not found` {
			t.Errorf("absent node: got %v, want NotFound without a slash", get)
		}
		for _, request := range server.Requests() {
			if request.Path != "/api/v1/nodes" || request.Name != "node-1" {
				t.Errorf("got %s %s of %q, want requests for node-1 only", request.Verb, request.Path, request.Name)
			}
		}
	})
}

// A path that is served later is noticed within 15 s: a CustomResourceDefinition is often
// installed after its controller was started.
func TestNotServedIsNoticedLater(t *testing.T) {
	onCustomServer(t, func(t *testing.T, server *apiserver.Server) {
		installed := make(chan struct{})
		server.Intercept(func(_ context.Context, request apiserver.Request) *metav1.Status {
			select {
			case <-installed:
				return nil
			default:
				return &notFound().ErrStatus
			}
		})
		store := newStore(t, resource.FromConfig[*Widget, *WidgetList](server.Config(), widgets), objectcache.WatchOptions{RefusalGrace: -1})
		defer runStore(t.Context(), t, store)()
		store.AddReference(namespace, "one", "owner")
		time.Sleep(time.Minute)
		close(installed)
		ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
		defer cancel()
		if _, err := store.Get(ctx, namespace, "one"); !apierrors.IsNotFound(err) {
			t.Errorf("Get: got %v, want NotFound of an object", err)
		}
	})
}
