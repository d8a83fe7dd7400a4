// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"net/http"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/restmapper"
)

func TestDiscovery(t *testing.T) {
	f := newFixture(t, Options{})
	client := f.client.Discovery()
	if version, err := client.ServerVersion(); err != nil || version.Minor != "36" {
		t.Errorf("got %v, %v, want 1.36", version, err)
	}
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(client))
	for _, r := range builtInResources {
		mapping, err := mapper.RESTMapping(r.gvk().GroupKind())
		if err != nil || mapping.Resource != r.gvr() {
			t.Errorf("got %v, %v, want %s", mapping, err, r.name)
		}
	}
	for path, want := range map[string]int{
		"/healthz": 200, "/livez": 200, "/readyz": 200, "/version": 200, "/api": 200, "/apis": 200, "/api/v1": 200,
		"/openapi/v3": 200, "/openapi/v3/api/v1": 200, "/openapi/v3/apis/coordination.k8s.io/v1": 200,
		"/apis/networking.k8s.io": 200, "/apis/networking.k8s.io/v1/": 200, "/apis/networking.k8s.io/v1/ingresses": 200,
		"/apis/networking.k8s.io/v1beta1": 404, "/apis/networking.k8s.io/v1beta1/ingresses": 404,
		"/api/v1/ingresses": 404, "/api/v2/secrets": 404, "/apis/example.com": 404,
		"/": 404, "/openapi/v2": 404, "/apis/apps/v1": 404, "/api/v1/services": 404, "/api/v1/nodes/n/proxy": 404,
		"/api/v1/secrets/a": 404, "/api/v1/namespaces/default/nodes": 404, "/api/v1/namespaces/default/secrets/a/status": 404,
	} {
		if got := f.do(http.MethodGet, path, ""); got.code != want {
			t.Errorf("%s: got %d, want %d", path, got.code, want)
		}
	}
	for _, r := range []struct{ method, path string }{
		{http.MethodPut, "/api/v1/namespaces/default/secrets"}, {http.MethodPost, "/api/v1/namespaces/default/pods/a/status"},
		{http.MethodOptions, "/api/v1/namespaces/default/secrets/a"}, {http.MethodDelete, "/api/v1/namespaces/default/pods/a/status"},
	} {
		if got := f.do(r.method, r.path, ""); got.code != 405 {
			t.Errorf("%s %s: got %d, want 405", r.method, r.path, got.code)
		}
	}
}

// TestDynamicClient checks that every resource can be created, read and deleted without its Go type.
func TestDynamicClient(t *testing.T) {
	f := newFixture(t, Options{CustomResources: customResources})
	config := f.Config()
	config.QPS = -1
	client, err := dynamic.NewForConfig(config)
	check(t, err)
	for _, r := range f.store.resources {
		if r == selfSubjectAccessReviews {
			continue // not stored
		}
		t.Run(r.name, func(t *testing.T) {
			var resource dynamic.ResourceInterface = client.Resource(r.gvr())
			if r.namespaced {
				resource = client.Resource(r.gvr()).Namespace("default")
			}
			obj := &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": r.groupVersion.String(), "kind": r.kind, "metadata": map[string]any{"name": "x"},
			}}
			if r == pods {
				obj.Object["spec"] = map[string]any{"containers": []any{map[string]any{"name": "a", "image": "b"}}}
			}
			created, err := resource.Create(t.Context(), obj, metav1.CreateOptions{})
			if err != nil || created.GetKind() != r.kind || created.GetUID() == "" {
				t.Fatalf("create: got %v, %v", created, err)
			}
			w, err := resource.Watch(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=x"})
			check(t, err)
			defer w.Stop()
			if event := <-w.ResultChan(); metaOf(t, event).GetUID() != created.GetUID() {
				t.Errorf("watch: got %v, want the object", event)
			}
			list, err := resource.List(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=x"})
			if err != nil || len(list.Items) != 1 || list.GetKind() != r.kind+"List" {
				t.Errorf("list: got %v, %v, want one", list, err)
			}
			if err := resource.Delete(t.Context(), "x", metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: new(created.GetUID())}}); err != nil {
				t.Errorf("delete: got %v", err)
			}
		})
	}
}
