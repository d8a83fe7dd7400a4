// SPDX-License-Identifier: Apache-2.0

package access_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/refwatch/refwatch/cache"
	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/objectcache/resource"
	"github.com/refwatch/refwatch/test/clients"
	"github.com/refwatch/refwatch/test/e2e"
)

var (
	widgets        = schema.GroupVersionResource{Group: "shop.example", Version: "v1", Resource: "widgets"}
	clusterWidgets = widgets.GroupVersion().WithResource("clusterwidgets")
)

// widget is the Go type of both resources.
type widget struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Spec struct {
		Colour string `json:"colour"`
	} `json:"spec"`
}

func (w *widget) DeepCopyObject() runtime.Object {
	object := *w
	object.ObjectMeta = *w.DeepCopy()
	return &object
}

type widgetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`

	Items []widget `json:"items"`
}

func (l *widgetList) DeepCopyObject() runtime.Object {
	list := *l
	list.Items = append([]widget(nil), l.Items...)
	return &list
}

// customRig is a control plane and a dynamic client of an administrator.
type customRig struct {
	*rig

	client dynamic.Interface
}

// install creates the CustomResourceDefinition of a resource.
func (r *customRig) install(resource schema.GroupVersionResource, kind, scope string) {
	r.Helper()
	definition := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{
			"name": resource.GroupResource().String(),
			// Groups of Kubernetes need it, and any text will do.
			"annotations": map[string]any{"api-approved.kubernetes.io": "unapproved, test only"},
		},
		"spec": map[string]any{
			"group": resource.Group, "scope": scope,
			"names": map[string]any{"plural": resource.Resource, "kind": kind},
			"versions": []any{map[string]any{
				"name": resource.Version, "served": true, "storage": true,
				"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
			}},
		},
	}}
	definitions := schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	r.must(r.client.Resource(definitions).Create(r.Context(), definition, metav1.CreateOptions{}))
}

// create creates an object once its resource is served.
func (r *customRig) create(clients dynamic.ResourceInterface, kind string) {
	r.Helper()
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": widgets.GroupVersion().String(), "kind": kind,
		"metadata": map[string]any{"name": "one"}, "spec": map[string]any{"colour": "red"},
	}}
	r.eventually("created "+kind, func(ctx context.Context) error {
		_, err := clients.Create(ctx, object, metav1.CreateOptions{})
		return err
	})
}

// notServed returns nil if an error says that a path is not served.
func notServed(err error, path string) error {
	var unserved *resource.NotServedError
	if !errors.As(err, &unserved) || apierrors.IsNotFound(err) || !strings.Contains(err.Error(), "the path "+path+" is not served (404)") {
		return fmt.Errorf("got %w, want a NotServedError of %s", err, path)
	}
	return nil
}

// TestCustomResources: a store serves custom resources of both scopes, as Go types, without types, and their metadata.
// It notices when a CustomResourceDefinition is installed, and a wrong version or scope is an error that says so.
func TestCustomResources(t *testing.T) {
	base := newRig(t, e2e.Options{})
	client, err := dynamic.NewForConfig(base.cluster.Admin())
	base.must(client, err)
	r := &customRig{base, client}
	config := r.cluster.Admin()
	key := types.NamespacedName{Namespace: namespace, Name: "one"}

	store, err := objectcache.NewWatchStore(resource.FromConfig[*widget, *widgetList](config, widgets), objectcache.WatchOptions{})
	r.must(store, err)
	stop := e2e.Run(r, store.Run)
	defer stop()
	store.AddReference(key.Namespace, key.Name, "test")
	_, err = store.Get(t.Context(), key.Namespace, key.Name)
	r.must(nil, notServed(err, "/apis/shop.example/v1/namespaces/NAMESPACE/widgets"))

	r.install(widgets, "Widget", "Namespaced")
	r.install(clusterWidgets, "ClusterWidget", "Cluster")
	r.create(client.Resource(widgets).Namespace(namespace), "Widget")
	r.create(client.Resource(clusterWidgets), "ClusterWidget")
	r.eventually("the CustomResourceDefinition is noticed", func(ctx context.Context) error {
		got, err := store.Get(ctx, key.Namespace, key.Name)
		if err == nil && got.Spec.Colour != "red" {
			err = fmt.Errorf("got %+v, want a red one", got)
		}
		return err
	})

	untyped := func(path schema.GroupVersionResource) resource.Resource[*unstructured.Unstructured] {
		return resource.FromConfig[*unstructured.Unstructured, *unstructured.UnstructuredList](config, path)
	}
	clusterKey := types.NamespacedName{Name: "one"}
	if got, err := getOnce(t, untyped(clusterWidgets).ClusterScoped(), clusterKey); err != nil || got.GetKind() != "ClusterWidget" {
		t.Errorf("cluster-scoped: got error %v, want the object with its kind", err)
	}
	if got, err := getOnce(t, clients.Dynamic(client, clusterWidgets).ClusterScoped(), clusterKey); err != nil || got.GetKind() != "ClusterWidget" {
		t.Errorf("dynamic: got error %v, want the object with its kind", err)
	}
	metadata := resource.FromConfig[*metav1.PartialObjectMetadata, *metav1.PartialObjectMetadataList](config, widgets)
	if got, err := getOnce(t, metadata, key); err != nil || got.Name != "one" || got.UID == "" {
		t.Errorf("metadata: got error %v, want that of the object", err)
	}

	_, err = getOnce(t, untyped(widgets.GroupResource().WithVersion("v2")), key)
	r.must(nil, notServed(err, "/apis/shop.example/v2/namespaces/NAMESPACE/widgets"))
	_, err = getOnce(t, untyped(clusterWidgets), key)
	r.must(nil, notServed(err, "/apis/shop.example/v1/namespaces/NAMESPACE/clusterwidgets"))
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_, err = getWithin(ctx, t, untyped(widgets).ClusterScoped(), clusterKey)
	if !errors.Is(err, cache.ErrForeign) || !strings.Contains(err.Error(), "used as cluster-scoped") {
		t.Errorf("a namespaced kind as cluster-scoped: got error %v, want ErrForeign and what to do", err)
	}
}
