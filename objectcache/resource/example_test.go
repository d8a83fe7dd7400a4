// SPDX-License-Identifier: Apache-2.0

package resource_test

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/refwatch/refwatch/cache"
	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/objectcache/resource"
	"github.com/refwatch/refwatch/test/apiserver"
	"github.com/refwatch/refwatch/test/clients"
)

var (
	widgets        = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}
	clusterWidgets = widgets.GroupVersion().WithResource("clusterwidgets")

	customResources = []apiserver.CustomResource{
		{Group: "example.com", Version: "v1", Resource: "widgets", Kind: "Widget"},
		{Group: "example.com", Version: "v1", Resource: "clusterwidgets", Kind: "ClusterWidget", ClusterScoped: true},
	}
)

// Widget is the Go type of both, as kubebuilder generates it.
type Widget struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Spec struct {
		Colour string `json:"colour"`
	} `json:"spec"`
}

// DeepCopyObject implements runtime.Object.
func (w *Widget) DeepCopyObject() runtime.Object {
	widget := *w
	widget.ObjectMeta = *w.DeepCopy()
	return &widget
}

// WidgetList is a list of Widgets.
type WidgetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`

	Items []Widget `json:"items"`
}

// DeepCopyObject implements runtime.Object.
func (l *WidgetList) DeepCopyObject() runtime.Object {
	list := *l
	list.Items = append([]Widget(nil), l.Items...)
	return &list
}

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
	for kind, resources := range map[string]dynamic.ResourceInterface{
		"Widget": client.Resource(widgets).Namespace("default"), "ClusterWidget": client.Resource(clusterWidgets),
	} {
		object := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "example.com/v1", "kind": kind,
			"metadata": map[string]any{"name": "one", "labels": map[string]any{"team": "shop"}},
			"spec":     map[string]any{"colour": "red"},
		}}
		if _, err := resources.Create(context.Background(), object, metav1.CreateOptions{}); err != nil {
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
func ExampleTyped() {
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
	widget, err := getExample(resource.Typed[*Widget, *WidgetList](client, config.GroupVersion.WithResource("widgets")), "default")
	fmt.Println(widget.Spec.Colour, err)
	// Output: red <nil>
}

// A custom resource, over a dynamic client: package clients implements [resource.Source].
func ExampleFromSource() {
	server := serveWidgets()
	defer server.Close()

	client, err := dynamic.NewForConfig(resource.ConfigFor(server.Config()))
	if err != nil {
		panic(err)
	}
	path := schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}
	widget, err := getExample(clients.Dynamic(client, path), "default")
	fmt.Println(widget.GetKind(), widget.Object["spec"], err)
	// Output: Widget map[colour:red] <nil>
}

// Only the metadata of a custom resource is requested and kept.
func ExampleFromConfig_metadata() {
	server := serveWidgets()
	defer server.Close()

	path := schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}
	kind := resource.FromConfig[*metav1.PartialObjectMetadata, *metav1.PartialObjectMetadataList](server.Config(), path)
	widget, err := getExample(kind, "default")
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

// A store of Nodes, which have no namespace.
func ExampleTyped_clusterScoped() {
	server, err := apiserver.Start(apiserver.Options{})
	if err != nil {
		panic(err)
	}
	defer server.Close()
	client := server.Client()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1", Labels: map[string]string{"zone": "a"}}}
	if _, err := client.CoreV1().Nodes().Create(context.Background(), node, metav1.CreateOptions{}); err != nil {
		panic(err)
	}

	nodes := resource.Typed[*corev1.Node, *corev1.NodeList](client.CoreV1().RESTClient(), corev1.SchemeGroupVersion.WithResource("nodes")).ClusterScoped()
	store, err := objectcache.NewWatchStore(nodes, objectcache.WatchOptions{})
	if err != nil {
		panic(err)
	}
	stop := runExample(store)
	defer stop()
	store.AddReference("", "node-1", "agent")
	got, err := store.Get(context.Background(), "", "node-1")
	fmt.Println(got.Labels["zone"], err)
	// Output: a <nil>
}
