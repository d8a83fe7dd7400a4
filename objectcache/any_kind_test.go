// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/refwatch/refwatch/cache"
	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/objectcache/resource"
	"github.com/refwatch/refwatch/test/apiserver"
	"github.com/refwatch/refwatch/test/clients"
)

// Two custom resources, which no scheme has.
var (
	widgets        = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}
	clusterWidgets = widgets.GroupVersion().WithResource("clusterwidgets")
	secretsPath    = corev1.SchemeGroupVersion.WithResource("secrets")
	nodesPath      = corev1.SchemeGroupVersion.WithResource("nodes")

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

// The type arguments of FromConfig and Typed for objects without a Go type.
type (
	untyped      = *unstructured.Unstructured
	untypedList  = *unstructured.UnstructuredList
	onlyMetadata = *metav1.PartialObjectMetadata
	metadataList = *metav1.PartialObjectMetadataList
)

// restClient returns a REST client as a program makes it.
func restClient(t *testing.T, config *rest.Config, version schema.GroupVersion) rest.Interface {
	t.Helper()
	config = rest.CopyConfig(config)
	config.QPS = -1
	config.GroupVersion, config.APIPath = &version, "/apis"
	if version.Group == "" {
		config.APIPath = "/api"
	}
	config.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	client, err := rest.RESTClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func dynamicClient(t *testing.T, config *rest.Config) dynamic.Interface {
	t.Helper()
	client, err := dynamic.NewForConfig(resource.ConfigFor(config))
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func metadataClient(t *testing.T, config *rest.Config) metadata.Interface {
	t.Helper()
	client, err := metadata.NewForConfig(resource.ConfigFor(config))
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// life is what happens to one object of a kind on a server.
type life struct {
	*apiserver.Server

	t        *testing.T
	admin    dynamic.ResourceInterface
	resource schema.GroupVersionResource
	scope    string // the namespace; empty for a cluster-scoped kind
}

// write creates or updates the object.
func (l *life) write(kind, colour string) *unstructured.Unstructured {
	l.t.Helper()
	object := &unstructured.Unstructured{Object: map[string]any{}}
	switch kind {
	case "Secret":
		object.Object["stringData"] = map[string]any{"colour": colour}
	case "Node":
	default:
		object.Object["spec"] = map[string]any{"colour": colour}
		object.Object["items"] = []any{"a"} // it is no list for that
	}
	object.SetGroupVersionKind(l.resource.GroupVersion().WithKind(kind))
	object.SetName("one")
	object.SetLabels(map[string]string{"colour": colour})
	written, err := l.admin.Create(l.t.Context(), object, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		var patch []byte
		if patch, err = json.Marshal(object.Object); err == nil {
			written, err = l.admin.Patch(l.t.Context(), "one", "application/merge-patch+json", patch, metav1.PatchOptions{})
		}
	}
	if err != nil {
		l.t.Fatal(err)
	}
	synctest.Wait()
	return written
}

// liveWith runs the life of an object of a kind, as a store of the resource sees it.
func liveWith[T cache.Object](l *life, kind string, resource resource.Resource[T], colourOf func(T) string) {
	l.t.Helper()
	store := newStore(l.t, resource, objectcache.WatchOptions{})
	defer runStore(l.t.Context(), l.t, store)()
	direct, err := objectcache.NewStore(resource, objectcache.DirectOptions{})
	if err != nil {
		l.t.Fatal(err)
	}
	defer runStore(l.t.Context(), l.t, direct)()
	direct.AddReference(l.scope, "one", "owner")
	get := func() (T, error) {
		ctx, cancel := context.WithTimeout(l.t.Context(), time.Minute)
		defer cancel()
		return store.Get(ctx, l.scope, "one")
	}
	store.AddReference(l.scope, "one", "owner")
	if _, err := get(); !apierrors.IsNotFound(err) {
		l.t.Errorf("absent: got %v, want NotFound", err)
	}
	for _, colour := range []string{"red", "green", "blue"} {
		written := l.write(kind, colour)
		got, err := get()
		if err != nil || got.GetUID() != written.GetUID() || got.GetResourceVersion() != written.GetResourceVersion() || colourOf(got) != colour {
			l.t.Fatalf("%s: got %+v and %v, want the object", colour, got, err)
		}
		if read, err := direct.Get(l.t.Context(), l.scope, "one"); err != nil || colourOf(read) != colour {
			l.t.Fatalf("%s: a direct read got %+v and %v, want the object", colour, read, err)
		}
		l.CloseStreams(nil)
		time.Sleep(time.Minute) // until a stream is open again
	}
	if err := l.admin.Delete(l.t.Context(), "one", metav1.DeleteOptions{}); err != nil {
		l.t.Fatal(err)
	}
	synctest.Wait()
	if _, err := get(); !apierrors.IsNotFound(err) {
		l.t.Errorf("deleted: got %v, want NotFound", err)
	}
}

func labelOf[T metav1.Object](object T) string { return object.GetLabels()["colour"] }

func specOf(object untyped) string {
	colour, _, _ := unstructured.NestedString(object.Object, "spec", "colour")
	if object.GetKind() == "" || object.GetAPIVersion() == "" {
		return "an object without kind and apiVersion"
	}
	return colour
}

// A store serves objects of any kind, over any kind of client.
func TestAnyKind(t *testing.T) {
	tests := map[string]struct {
		kind     string
		resource schema.GroupVersionResource
		live     func(l *life, config *rest.Config)
	}{
		"typed, built in": {"Secret", secretsPath, func(l *life, config *rest.Config) {
			liveWith(l, "Secret", resource.FromConfig[*corev1.Secret, *corev1.SecretList](config, l.resource),
				func(s *corev1.Secret) string { return string(s.Data["colour"]) })
		}},
		"typed, built in, cluster-scoped": {"Node", nodesPath, func(l *life, _ *rest.Config) {
			liveWith(l, "Node", resource.Typed[*corev1.Node, *corev1.NodeList](l.Client().CoreV1().RESTClient(), l.resource).ClusterScoped(), labelOf)
		}},
		"typed, custom": {"Widget", widgets, func(l *life, config *rest.Config) {
			liveWith(l, "Widget", resource.FromConfig[*Widget, *WidgetList](config, l.resource), func(w *Widget) string { return w.Spec.Colour })
		}},
		"typed, custom, REST client": {"Widget", widgets, func(l *life, config *rest.Config) {
			liveWith(l, "Widget", resource.Typed[*Widget, *WidgetList](restClient(l.t, config, widgets.GroupVersion()), l.resource),
				func(w *Widget) string { return w.Spec.Colour })
		}},
		"typed, custom, cluster-scoped": {"ClusterWidget", clusterWidgets, func(l *life, config *rest.Config) {
			liveWith(l, "ClusterWidget", resource.FromConfig[*Widget, *WidgetList](config, l.resource).ClusterScoped(),
				func(w *Widget) string { return w.Spec.Colour })
		}},
		"types of the run time": {"Widget", widgets, func(l *life, config *rest.Config) {
			newObject, newList := func() cache.Object { return &Widget{} }, func() runtime.Object { return &WidgetList{} }
			liveWith(l, "Widget", resource.TypedFunc(restClient(l.t, config, widgets.GroupVersion()), l.resource, newObject, newList),
				func(w cache.Object) string { return w.(*Widget).Spec.Colour })
		}},
		"types of the run time, unstructured": {"Widget", widgets, func(l *life, config *rest.Config) {
			newObject, newList := func() cache.Object { return &unstructured.Unstructured{} }, func() runtime.Object { return &unstructured.UnstructuredList{} }
			liveWith(l, "Widget", resource.TypedFunc(restClient(l.t, config, widgets.GroupVersion()), l.resource, newObject, newList),
				func(o cache.Object) string { return specOf(o.(untyped)) })
		}},
		"unstructured": {"Widget", widgets, func(l *life, config *rest.Config) {
			liveWith(l, "Widget", resource.FromConfig[untyped, untypedList](config, l.resource), specOf)
		}},
		"unstructured, built in": {"Node", nodesPath, func(l *life, config *rest.Config) {
			liveWith(l, "Node", resource.FromConfig[untyped, untypedList](config, l.resource).ClusterScoped(), labelOf)
		}},
		"unstructured, cluster-scoped": {"ClusterWidget", clusterWidgets, func(l *life, config *rest.Config) {
			liveWith(l, "ClusterWidget", resource.FromConfig[untyped, untypedList](config, l.resource).ClusterScoped(), specOf)
		}},
		"metadata": {"Widget", widgets, func(l *life, config *rest.Config) {
			liveWith(l, "Widget", resource.FromConfig[onlyMetadata, metadataList](config, l.resource), labelOf)
		}},
		"metadata, built in, cluster-scoped": {"Node", nodesPath, func(l *life, config *rest.Config) {
			liveWith(l, "Node", resource.Typed[onlyMetadata, metadataList](restClient(l.t, config, corev1.SchemeGroupVersion), l.resource).ClusterScoped(), labelOf)
		}},
		"dynamic": {"Widget", widgets, func(l *life, config *rest.Config) {
			liveWith(l, "Widget", clients.Dynamic(dynamicClient(l.t, config), l.resource), specOf)
		}},
		"dynamic, cluster-scoped": {"ClusterWidget", clusterWidgets, func(l *life, config *rest.Config) {
			liveWith(l, "ClusterWidget", clients.Dynamic(dynamicClient(l.t, config), l.resource).ClusterScoped(), specOf)
		}},
		"metadata client": {"Widget", widgets, func(l *life, config *rest.Config) {
			liveWith(l, "Widget", clients.Metadata(metadataClient(l.t, config), l.resource), labelOf)
		}},
		"metadata client, cluster-scoped": {"Node", nodesPath, func(l *life, config *rest.Config) {
			liveWith(l, "Node", clients.Metadata(metadataClient(l.t, config), l.resource).ClusterScoped(), labelOf)
		}},
	}
	for name, test := range tests {
		for _, lists := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, lists %v", name, lists), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					server := apiserver.New(t, apiserver.Options{InMemory: true, TLS: true, DisableWatchList: lists, CustomResources: customResources})
					l := &life{t: t, Server: server, resource: test.resource}
					client := dynamicClient(t, server.Config()).Resource(test.resource)
					if l.admin = client; test.resource != nodesPath && test.resource != clusterWidgets {
						l.scope = namespace
						l.admin = client.Namespace(namespace)
					}
					test.live(l, resource.ConfigFor(server.Config()))
				})
			})
		}
	}
}
