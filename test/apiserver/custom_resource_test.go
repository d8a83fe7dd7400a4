// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"net/http"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
)

// customResources are two resources of one group, and one with the same names in another group.
var customResources = []CustomResource{
	{Group: "example.com", Version: "v1", Resource: "widgets", Kind: "Widget"},
	{Group: "example.com", Version: "v1", Resource: "zones", Kind: "Zone", ClusterScoped: true},
	{Group: "other.example.com", Version: "v1alpha1", Resource: "widgets", Kind: "Widget"},
}

const widgetsPath = "/apis/example.com/v1/namespaces/default/widgets"

func newWidget(name string, size int64) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "Widget",
		"metadata": map[string]any{"name": name, "namespace": "default"},
		"spec":     map[string]any{"size": size},
	}}
}

func (f *fixture) widgets() dynamic.ResourceInterface {
	f.t.Helper()
	client, err := dynamic.NewForConfig(f.Config())
	check(f.t, err)
	return client.Resource(customResources[0].resource().gvr()).Namespace("default")
}

func (f *fixture) createWidget(name string, size int64) *unstructured.Unstructured {
	f.t.Helper()
	created, err := f.widgets().Create(f.t.Context(), newWidget(name, size), metav1.CreateOptions{})
	check(f.t, err)
	return created
}

// TestCustomResource follows one object through its life with the dynamic client, as seen by a named WatchList.
func TestCustomResource(t *testing.T) {
	for name, options := range transports {
		t.Run(name, func(t *testing.T) {
			options.CustomResources = customResources
			f := newFixture(t, options)
			widgets := f.widgets()
			w, err := widgets.Watch(t.Context(), named("a", watchList()))
			check(t, err)
			defer w.Stop()
			end := metaOf(t, expect(t, w, watch.Bookmark))
			if end.GetAnnotations()[metav1.InitialEventsAnnotationKey] != "true" {
				t.Errorf("got bookmark %v, want the end of the initial events", end)
			}
			if got := f.OpenStreams("widgets.example.com", key("a")); got != 1 {
				t.Errorf("got %d streams of widgets.example.com, want 1", got)
			}
			if got := f.OpenStreams("widgets.other.example.com", key("a")); got != 0 {
				t.Errorf("got %d streams of widgets.other.example.com, want 0", got)
			}
			f.createWidget("b", 1)
			created := f.createWidget("a", 1)
			if created.GetGeneration() != 1 || created.GetUID() == "" {
				t.Errorf("got %v, want generation 1 and a UID", created)
			}
			if added := expect(t, w, watch.Added).Object.(*unstructured.Unstructured); added.GetUID() != created.GetUID() || added.GetKind() != "Widget" {
				t.Errorf("got %v, want the created object", added)
			}
			labeled, err := widgets.Patch(t.Context(), "a", types.MergePatchType, []byte(`{"metadata":{"labels":{"app":"web"}}}`), metav1.PatchOptions{})
			if err != nil || labeled.GetGeneration() != 1 {
				t.Errorf("got %v, %v, want a label and generation 1", labeled, err)
			}
			expect(t, w, watch.Modified)
			patched, err := widgets.Patch(t.Context(), "a", types.MergePatchType, []byte(`{"spec":{"size":2}}`), metav1.PatchOptions{})
			if err != nil || patched.GetGeneration() != 2 {
				t.Errorf("got %v, %v, want generation 2", patched, err)
			}
			modified := expect(t, w, watch.Modified).Object.(*unstructured.Unstructured)
			if size, _, _ := unstructured.NestedInt64(modified.Object, "spec", "size"); size != 2 {
				t.Errorf("got %v, want size 2", modified)
			}
			check(t, widgets.Delete(t.Context(), "a", metav1.DeleteOptions{}))
			expect(t, w, watch.Deleted)
			list, err := widgets.List(t.Context(), metav1.ListOptions{})
			if err != nil || list.GetKind() != "WidgetList" || len(list.Items) != 1 || list.Items[0].GetKind() != "Widget" {
				t.Errorf("got %v, %v, want a WidgetList with b", list, err)
			}
			if _, err := widgets.Get(t.Context(), "a", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
				t.Errorf("got %v, want NotFound", err)
			}
		})
	}
}

// TestCustomResourceAccept checks which forms of a custom resource exist. The results are those of kube-apiserver 1.36.
func TestCustomResourceAccept(t *testing.T) {
	f := newFixture(t, Options{CustomResources: customResources})
	f.createWidget("a", 1)
	const protobuf, partial = "application/vnd.kubernetes.protobuf", ";as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
	for name, test := range map[string]struct{ path, accept, contentType, kind string }{
		"anything":               {"/a", "*/*", "application/json", "Widget"},
		"yaml":                   {"/a", "application/yaml", "application/yaml", "Widget"},
		"protobuf":               {"/a", protobuf, "", ""},
		"watch in protobuf":      {"?watch=true&timeoutSeconds=1", protobuf, "", ""},
		"json as a fallback":     {"/a", protobuf + ",application/json", "application/json", "Widget"},
		"list as a fallback":     {"", protobuf + ",application/json", "application/json", "WidgetList"},
		"metadata in protobuf":   {"/a", protobuf + partial, protobuf, "PartialObjectMetadata"},
		"metadata in JSON":       {"/a", "application/json" + partial, "application/json", "PartialObjectMetadata"},
		"list of metadata":       {"", strings.Replace(protobuf+partial, "Metadata", "MetadataList", 1), protobuf, "PartialObjectMetadataList"},
		"table":                  {"", "application/json;as=Table;v=v1;g=meta.k8s.io", "application/json", "Table"},
		"an error as protobuf":   {"/none", protobuf + ",application/json", protobuf, "Status"},
		"metadata, then objects": {"/a", protobuf + partial + ",application/json", protobuf, "PartialObjectMetadata"},
	} {
		t.Run(name, func(t *testing.T) {
			got := f.do(http.MethodGet, widgetsPath+test.path, "", "Accept", test.accept)
			if test.contentType == "" {
				if got.code != 406 {
					t.Errorf("got %d %s, want 406", got.code, got.body)
				}
				return
			}
			if got.header.Get("Content-Type") != test.contentType || !strings.Contains(string(got.body), test.kind) {
				t.Errorf("got %s %q, want a %s as %s", got.header.Get("Content-Type"), got.body, test.kind, test.contentType)
			}
		})
	}
}

// TestCustomResourceRequests checks the responses to writes and to bad requests. The codes and texts are those of
// kube-apiserver 1.36, without what it quotes from the body.
func TestCustomResourceRequests(t *testing.T) {
	f := newFixture(t, Options{CustomResources: customResources})
	f.createWidget("a", 1)
	const object = `{"apiVersion":"example.com/v1","kind":"Widget",`
	const jsonType, mergeType = "application/json", "application/merge-patch+json"
	f.checkResponses(widgetsPath, map[string]rawRequest{
		"yaml": {http.MethodPost, "", "application/yaml", "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: b}\nspec: {size: 1}\n", 201, `"size":1`},
		"protobuf body": {
			http.MethodPost, "", "application/vnd.kubernetes.protobuf", "k8s\x00", 415,
			"accepted media types include: application/json, application/yaml",
		},
		"unknown fields": {http.MethodPost, "?fieldValidation=Strict", jsonType, object + `"metadata":{"name":"c"},"x":{"y":[1]}}`, 201, `"x":{"y":[1]}`},
		"field twice":    {http.MethodPost, "?fieldValidation=Strict", jsonType, object + `"metadata":{"name":"d"},"x":1,"x":2}`, 400, `duplicate field \"x\"`},
		"field called items": {
			http.MethodPost, "", jsonType, object + `"metadata":{"name":"e"},"items":[1]}`, 201, `"items":[1]`,
		},
		"label of a wrong type":    {http.MethodPost, "", jsonType, object + `"metadata":{"name":"f","labels":{"a":5}}}`, 400, "cannot be handled as a Widget"},
		"metadata of a wrong type": {http.MethodPost, "", jsonType, object + `"metadata":"f"}`, 400, "cannot be handled as a Widget"},
		"no metadata":              {http.MethodPost, "", jsonType, `{"apiVersion":"example.com/v1","kind":"Widget"}`, 422, "name or generateName is required"},
		"another kind":             {http.MethodPost, "", jsonType, `{"apiVersion":"example.com/v1","kind":"Gadget","metadata":{"name":"g"}}`, 400, "cannot be handled as a Widget"},
		"another version":          {http.MethodPost, "", jsonType, `{"apiVersion":"example.com/v2","kind":"Widget","metadata":{"name":"g"}}`, 400, "does not match the expected API version"},
		"update without a version": {
			http.MethodPut, "/a", jsonType, object + `"metadata":{"name":"a"}}`, 422,
			`widgets.example.com \"a\" is invalid: metadata.resourceVersion: Invalid value: 0: must be specified for an update`,
		},
		"label only":        {http.MethodPatch, "/a", mergeType, `{"metadata":{"labels":{"a":"b"}}}`, 200, `"labels":{"a":"b"}`},
		"patch of metadata": {http.MethodPatch, "/a", mergeType, `{"metadata":{"labels":{"a":5}}}`, 422, "is invalid: patch"},
		"strategic patch": {
			http.MethodPatch, "/a", "application/strategic-merge-patch+json", `{}`, 415,
			"include: application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml",
		},
		"json patch":          {http.MethodPatch, "/a", "application/json-patch+json", `[{"op":"add","path":"/json","value":1}]`, 200, `"json":1`},
		"server-side apply":   {http.MethodPatch, "/a?fieldManager=x", "application/apply-patch+yaml", object + `"apply":1}`, 200, `"apply":1`},
		"created by apply":    {http.MethodPatch, "/h?fieldManager=x", "application/apply-patch+yaml", object + `"apply":1}`, 201, `"apply":1`},
		"unknown field label": {http.MethodGet, "?fieldSelector=spec.size%3D1", "", "", 400, "field label not supported: spec.size"},
		"subresource":         {http.MethodGet, "/a/status", "", "", 404, `widgets.example.com \"a\" not found`},
	})
	got := f.do(http.MethodDelete, widgetsPath+"/a", "")
	if want := `"details":{"name":"a","group":"example.com","kind":"widgets"`; got.code != 200 || !strings.Contains(string(got.body), want) {
		t.Errorf("delete: got %d %s, want 200 with %s", got.code, got.body, want)
	}
}

// TestCustomResourceState checks that the deletion of a namespace, Snapshot and Restore include custom resources, and
// that a list does not share what it changes with the store.
func TestCustomResourceState(t *testing.T) {
	f := newFixture(t, Options{CustomResources: customResources})
	empty := New(t, Options{}).Snapshot()
	f.createWidget("a", 1)
	state := f.Snapshot()
	check(t, f.client.CoreV1().Namespaces().Delete(t.Context(), "default", metav1.DeleteOptions{}))
	if list, err := f.widgets().List(t.Context(), metav1.ListOptions{}); err != nil || len(list.Items) != 0 {
		t.Errorf("got %v, %v, want no object in a deleted namespace", list, err)
	}
	f.Restore(state)
	if list, err := f.widgets().List(t.Context(), metav1.ListOptions{}); err != nil || len(list.Items) != 1 {
		t.Errorf("got %v, %v, want the restored object", list, err)
	}
	f.Restore(empty) // from a server without the resource
	f.createWidget("a", 1)
}

func TestCustomResourceOutOfRange(t *testing.T) {
	valid := customResources[0]
	for name, change := range map[string]func(*CustomResource){
		"no group":          func(r *CustomResource) { r.Group = "" },
		"bad group":         func(r *CustomResource) { r.Group = "example/com" },
		"bad version":       func(r *CustomResource) { r.Version = "1" },
		"bad resource":      func(r *CustomResource) { r.Resource = "Widgets" },
		"no kind":           func(r *CustomResource) { r.Kind = "" },
		"the same again":    func(r *CustomResource) {},
		"another version":   func(r *CustomResource) { r.Version = "v2" },
		"the same kind":     func(r *CustomResource) { r.Resource = "gadgets" },
		"built-in resource": func(r *CustomResource) { r.Group, r.Resource = "networking.k8s.io", "ingresses" },
	} {
		t.Run(name, func(t *testing.T) {
			other := valid
			change(&other)
			s, err := Start(Options{CustomResources: []CustomResource{valid, other}})
			if err == nil {
				s.Close()
			}
			if err == nil || !strings.Contains(err.Error(), "custom resource") {
				t.Errorf("%+v: got %v, want an error about the custom resource", other, err)
			}
		})
	}
}
