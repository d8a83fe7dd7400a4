// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"context"
	"fmt"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/refwatch/refwatch/cache"
	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/objectcache/resource"
	"github.com/refwatch/refwatch/test/apiserver"
)

// serveWidgets starts an API server with one custom resource of each scope: the Widget
// "default/one" and the ClusterWidget "one", both red.
func serveWidgets() *apiserver.Server {
	server, err := apiserver.Start(apiserver.Options{CustomResources: customResources})
	if err != nil {
		panic(err)
	}
	client, err := dynamic.NewForConfig(server.Config())
	if err != nil {
		panic(err)
	}
	for kind, clients := range map[string]dynamic.ResourceInterface{
		"Widget": client.Resource(widgets).Namespace("default"), "ClusterWidget": client.Resource(clusterWidgets),
	} {
		object := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "example.com/v1", "kind": kind,
			"metadata": map[string]any{"name": "one", "labels": map[string]any{"team": "shop"}},
			"spec":     map[string]any{"colour": "red"},
		}}
		if _, err := clients.Create(context.Background(), object, metav1.CreateOptions{}); err != nil {
			panic(err)
		}
	}
	return server
}

// runExample runs a store until stop is called.
func runExample[T cache.Object](store *objectcache.WatchStore[T]) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = store.Run(ctx) })
	return func() { cancel(); running.Wait() }
}

// getExample gets one object from a new store of a resource.
func getExample[T cache.Object](resource resource.Resource[T], namespace string) (T, error) {
	store, err := objectcache.NewWatchStore(resource, objectcache.WatchOptions{})
	if err != nil {
		var none T
		return none, err
	}
	defer runExample(store)()
	store.AddReference(namespace, "one", "controller")
	return store.Get(context.Background(), namespace, "one")
}

// A program with a config, for instance that of a controller-runtime manager, needs only
// the Go types of its custom resource.
func ExampleFromConfig() {
	server := serveWidgets()
	defer server.Close()

	path := schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}
	widget, err := getExample(resource.FromConfig[*Widget, *WidgetList](server.Config(), path), "default")
	fmt.Println(widget.Spec.Colour, err)
	// Output: red <nil>
}

// Without a Go type, FromConfig needs fewer goroutines than a dynamic client.
func ExampleFromConfig_unstructured() {
	server := serveWidgets()
	defer server.Close()

	path := schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}
	widget, err := getExample(resource.FromConfig[*unstructured.Unstructured, *unstructured.UnstructuredList](server.Config(), path), "default")
	fmt.Println(widget.GetKind(), widget.Object["spec"], err)
	// Output: Widget map[colour:red] <nil>
}

// A REST client of the group and version, as controller-runtime's apiutil makes it.
func ExampleFromREST() {
	server := serveWidgets()
	defer server.Close()

	config := rest.CopyConfig(resource.ConfigFor(server.Config()))
	config.GroupVersion = &schema.GroupVersion{Group: "example.com", Version: "v1"}
	config.APIPath = "/apis"
	config.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	client, err := rest.RESTClientFor(config)
	if err != nil {
		panic(err)
	}
	widget, err := getExample(resource.FromREST[*Widget, *WidgetList](client, config.GroupVersion.WithResource("widgets")), "default")
	fmt.Println(widget.Spec.Colour, err)
	// Output: red <nil>
}

// A custom resource, over a dynamic client.
func ExampleDynamic() {
	server := serveWidgets()
	defer server.Close()

	client, err := dynamic.NewForConfig(resource.ConfigFor(server.Config()))
	if err != nil {
		panic(err)
	}
	path := schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}
	widget, err := getExample(resource.Dynamic(client, path), "default")
	fmt.Println(widget.GetKind(), widget.Object["spec"], err)
	// Output: Widget map[colour:red] <nil>
}

// Only the metadata of a custom resource.
func ExampleMetadata() {
	server := serveWidgets()
	defer server.Close()

	client, err := metadata.NewForConfig(resource.ConfigFor(server.Config()))
	if err != nil {
		panic(err)
	}
	path := schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}
	widget, err := getExample(resource.Metadata(client, path), "default")
	fmt.Println(widget.Labels["team"], err)
	// Output: shop <nil>
}

// A custom resource that has no namespace.
func ExampleResource_ClusterScoped() {
	server := serveWidgets()
	defer server.Close()

	path := schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "clusterwidgets"}
	widget, err := getExample(resource.FromConfig[*Widget, *WidgetList](server.Config(), path).ClusterScoped(), "")
	fmt.Println(widget.Spec.Colour, err)
	// Output: red <nil>
}
