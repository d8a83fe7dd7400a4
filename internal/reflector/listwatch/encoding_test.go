// SPDX-License-Identifier: Apache-2.0

package listwatch

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"

	"github.com/refwatch/refwatch/cache"
)

// kindsOfTypes are types that hold an object of any kind.
var kindsOfTypes = map[string]struct {
	newObject, newList func() runtime.Object
	kind               string // of an object that was decoded
	accept             string // what the first media type of each request has
}{
	"unstructured": {
		func() runtime.Object { return &unstructured.Unstructured{} },
		func() runtime.Object { return &unstructured.UnstructuredList{} },
		"Secret", "application/json",
	},
	"metadata": {
		func() runtime.Object { return &metav1.PartialObjectMetadata{} },
		func() runtime.Object { return &metav1.PartialObjectMetadataList{} },
		"", "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata",
	},
}

// A source decodes objects without a Go type, and metadata alone, whatever media types
// the config of its client accepts.
func TestRESTWithoutAType(t *testing.T) {
	for name, test := range kindsOfTypes {
		t.Run(name, func(t *testing.T) {
			overTheWire(t, func(t *testing.T, w *wire) {
				resource := secretsOf(w.client.CoreV1().RESTClient())
				resource.NewObject, resource.NewList = test.newObject, test.newList
				w.source = FromREST(resource, "default", "tls")
				first := w.write("tls", canary)
				want := func(object runtime.Object, version string) {
					t.Helper()
					header, err := meta.Accessor(object)
					if err != nil || header.GetUID() != first.UID || header.GetResourceVersion() != version {
						t.Errorf("got %v, want UID %s at %s", header, first.UID, version)
					}
					if got := object.GetObjectKind().GroupVersionKind().Kind; got != test.kind {
						t.Errorf("kind: got %q, want %q", got, test.kind)
					}
				}

				list, err := w.source.List(t.Context(), metav1.ListOptions{})
				if err != nil {
					t.Fatal(err)
				}
				items, err := meta.ExtractList(list)
				if err != nil || len(items) != 1 {
					t.Fatalf("list: got %d objects and %v, want one", len(items), err)
				}
				want(items[0], first.ResourceVersion)

				stream := w.watch(metav1.ListOptions{
					SendInitialEvents: ptr.To(true), ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan, AllowWatchBookmarks: true,
				})
				want(w.next(stream, watch.Added), first.ResourceVersion)
				if _, err := meta.Accessor(w.next(stream, watch.Bookmark)); err != nil {
					t.Errorf("bookmark: got %v, want metadata", err)
				}
				second := w.write("tls", "two")
				want(w.next(stream, watch.Modified), second.ResourceVersion)
				for _, request := range w.server.Requests() {
					if (request.Verb == "list" || request.Verb == "watch") && !strings.HasPrefix(request.Accept, test.accept) {
						t.Errorf("%s accepts %q, want %q first", request.Verb, request.Accept, test.accept)
					}
				}
			})
		})
	}
}

// The metadata of an object comes without its data.
func TestRESTMetadataOnly(t *testing.T) {
	overTheWire(t, func(t *testing.T, w *wire) {
		types := kindsOfTypes["metadata"]
		resource := secretsOf(w.client.CoreV1().RESTClient())
		resource.NewObject, resource.NewList = types.newObject, types.newList
		w.write("tls", canary)
		request := resource.request("default", "tls", &metav1.ListOptions{})
		accept(request, types.newList(), types.newObject())
		body, err := request.DoRaw(t.Context())
		if err != nil || !strings.Contains(string(body), "tls") || strings.Contains(string(body), canary) {
			t.Errorf("answer: got %d bytes and %v, want the name, and no data", len(body), err)
		}
	})
}

// The path of a cluster-scoped kind has no namespace.
func TestRESTClusterScoped(t *testing.T) {
	overTheWire(t, func(t *testing.T, w *wire) {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}}
		if _, err := w.client.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		w.source = FromREST(&RESTResource{
			Client: w.client.CoreV1().RESTClient(), Name: "nodes",
			NewObject: func() runtime.Object { return &corev1.Node{} },
			NewList:   func() runtime.Object { return &corev1.NodeList{} },
		}, "", "node-1")
		list, err := w.source.List(t.Context(), metav1.ListOptions{})
		if err != nil || len(list.(*corev1.NodeList).Items) != 1 {
			t.Fatalf("list: got %v and %v, want the node", list, err)
		}
		stream := w.watch(metav1.ListOptions{})
		if got := w.next(stream, watch.Added).(*corev1.Node); got.Name != "node-1" {
			t.Errorf("watch: got %s, want node-1", got.Name)
		}
		for _, request := range w.server.Requests()[1:] {
			if request.Path != "/api/v1/nodes" || request.Query.Get("fieldSelector") != "metadata.name=node-1" {
				t.Errorf("got %s %s of %q, want /api/v1/nodes of the name", request.Verb, request.Path, request.Query.Get("fieldSelector"))
			}
		}
	})
}

// A status in place of a list is its error, with the code; a success is no list.
func TestRESTStatusInsteadOfAList(t *testing.T) {
	var path string
	tests := map[string]struct {
		body string
		want func(error) bool
	}{
		"failure": {`{"apiVersion":"v1","kind":"Status","status":"Failure","code":403,"reason":"Forbidden"}`, apierrors.IsForbidden},
		"success": {`{"apiVersion":"v1","kind":"Status","status":"Success","code":200}`, func(err error) bool { return errors.Is(err, cache.ErrMalformed) }},
		"nothing": {``, func(err error) bool { return errors.Is(err, cache.ErrMalformed) }},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			list, err := FromREST(secretsOf(alwaysAnswers(t, test.body, &path)), "shop", "red").List(t.Context(), metav1.ListOptions{})
			if !test.want(err) {
				t.Errorf("list: got %T and %v", list, err)
			}
			if _, isList := list.(*corev1.SecretList); isList {
				t.Errorf("list: got a %T, want none", list)
			}
		})
	}
}

// An answer of another kind is refused wherever that can be known, whether it would be an object or the absence of one.
func TestRESTAnswerOfAnotherKind(t *testing.T) {
	object := func(apiVersion, kind string) string {
		return `{"apiVersion":"` + apiVersion + `","kind":"` + kind + `","metadata":{"namespace":"shop","name":"red","resourceVersion":"5"}}`
	}
	list := func(apiVersion, kind, items string) string {
		return `{"apiVersion":"` + apiVersion + `","kind":"` + kind + `","metadata":{"resourceVersion":"5"},"items":[` + items + `]}`
	}
	types := map[string]struct {
		newObject, newList       func() runtime.Object
		objects, lists           []string // that are accepted
		otherObjects, otherLists []string
	}{
		"typed": {
			func() runtime.Object { return &corev1.Secret{} }, func() runtime.Object { return &corev1.SecretList{} },
			[]string{object("v1", "Secret")}, []string{list("v1", "SecretList", "")},
			[]string{object("v1", "Pod"), object("example.com/v1", "Secret"), list("v1", "SecretList", "")},
			[]string{list("v1", "PodList", ""), list("v1", "List", ""), object("v1", "Secret")},
		},
		"unstructured": {
			kindsOfTypes["unstructured"].newObject, kindsOfTypes["unstructured"].newList,
			[]string{object("v1", "Secret")}, []string{list("v1", "SecretList", ""), list("v1", "Secrets", object("v1", "Secret"))},
			[]string{object("example.com/v1", "Secret"), object("", "Secret"), object(canary, "Secret")},
			[]string{list("meta.k8s.io/v1", "Table", ""), list("v1", "SecretList", object("apps/v1", "Deployment")), object("v1", "Secret")},
		},
		"metadata": {
			kindsOfTypes["metadata"].newObject, kindsOfTypes["metadata"].newList,
			[]string{object("v1", "Secret"), object("meta.k8s.io/v1", "PartialObjectMetadata")},
			[]string{list("v1", "SecretList", ""), list("meta.k8s.io/v1", "PartialObjectMetadataList", "")},
			[]string{object("example.com/v1", "Secret"), object("meta.k8s.io/v1", "Table")},
			[]string{list("meta.k8s.io/v1", "Table", ""), object("v1", "Secret"), object("meta.k8s.io/v1", "PartialObjectMetadata")},
		},
		"a type that is not registered": {
			func() runtime.Object { return &Kettle{} }, func() runtime.Object { return &KettleList{} },
			[]string{object("v1", "Kettle")}, []string{list("v1", "Kettles", "")},
			[]string{object("example.com/v1", "Kettle")},
			[]string{list("example.com/v1", "KettleList", ""), object("v1", "Kettle")},
		},
	}
	for name, test := range types {
		t.Run(name, func(t *testing.T) {
			check := func(how, body string, err error, ok bool) {
				t.Helper()
				checkSecrecy(t, err)
				if ok && err != nil || !ok && !errors.Is(err, cache.ErrMalformed) {
					t.Errorf("%s of %s: got %v, want it accepted: %v", how, body, err, ok)
				}
			}
			ask := func(body string, f func(*RESTResource)) {
				var path string
				resource := secretsOf(versionClient{alwaysAnswers(t, body, &path), corev1.SchemeGroupVersion})
				resource.NewObject, resource.NewList = test.newObject, test.newList
				f(resource)
			}
			for ok, bodies := range map[bool][]string{true: test.objects, false: test.otherObjects} {
				for _, body := range bodies {
					ask(body, func(r *RESTResource) {
						_, err := r.Get(t.Context(), "shop", "red")
						check("get", body, err, ok)
					})
					for _, event := range []string{"ADDED", "MODIFIED", "DELETED", "BOOKMARK"} {
						ask(`{"type":"`+event+`","object":`+body+`}`, func(r *RESTResource) {
							stream, err := FromREST(r, "shop", "red").Watch(t.Context(), metav1.ListOptions{})
							if err == nil {
								_, err = stream.Next()
								_ = stream.Close()
							}
							check(event, body, err, ok)
						})
					}
				}
			}
			for ok, bodies := range map[bool][]string{true: test.lists, false: test.otherLists} {
				for _, body := range bodies {
					ask(body, func(r *RESTResource) {
						_, err := FromREST(r, "shop", "red").List(t.Context(), metav1.ListOptions{})
						check("list", body, err, ok)
					})
				}
			}
		})
	}
}
