// SPDX-License-Identifier: Apache-2.0

package listwatch_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/refwatch/refwatch/cache"
	"github.com/refwatch/refwatch/reflector/listwatch"
)

// Kettle is a kind that no scheme knows.
type Kettle struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Litres int `json:"litres"`
}

// DeepCopyObject implements runtime.Object.
func (k *Kettle) DeepCopyObject() k8sruntime.Object {
	kettle := *k
	kettle.ObjectMeta = *k.DeepCopy()
	return &kettle
}

// KettleList is a list of them.
type KettleList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`

	Items []Kettle `json:"items"`
}

// DeepCopyObject implements runtime.Object.
func (l *KettleList) DeepCopyObject() k8sruntime.Object {
	list := *l
	list.Items = append([]Kettle(nil), l.Items...)
	return &list
}

// kettles is a source of one whose server always answers with a body.
func kettles(t *testing.T, body string, path *string) listwatch.Source {
	t.Helper()
	return listwatch.FromREST(&listwatch.RESTResource{
		Client: alwaysAnswers(t, body, path), Name: "kettles",
		NewObject: func() k8sruntime.Object { return &Kettle{} },
		NewList:   func() k8sruntime.Object { return &KettleList{} },
	}, "shop", "red")
}

// alwaysAnswers is a client of a server that always answers with a body, and
// notes what was asked for.
func alwaysAnswers(t *testing.T, body string, path *string) rest.Interface {
	t.Helper()
	config := &rest.Config{
		Host:    "https://example.test",
		APIPath: "/apis",
		ContentConfig: rest.ContentConfig{
			GroupVersion:         &schema.GroupVersion{Group: "kitchen.test", Version: "v1"},
			NegotiatedSerializer: scheme.Codecs.WithoutConversion(),
		},
		Transport: answering(func(r *http.Request) *http.Response {
			*path = r.URL.Path + "?" + r.URL.Query().Get("fieldSelector")
			return &http.Response{
				StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}},
				Body: io.NopCloser(strings.NewReader(body)), Request: r,
			}
		}),
	}
	client, err := rest.RESTClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

type answering func(*http.Request) *http.Response

func (a answering) RoundTrip(r *http.Request) (*http.Response, error) { return a(r), nil }

func TestRESTKindThatNoSchemeKnows(t *testing.T) {
	const kettle = `{"apiVersion":"kitchen.test/v1","kind":"Kettle","metadata":{"name":"red","namespace":"shop","resourceVersion":"5"},"litres":2}`
	const wantPath = "/apis/kitchen.test/v1/namespaces/shop/kettles?metadata.name=red"
	var path string
	source := kettles(t, `{"apiVersion":"kitchen.test/v1","kind":"KettleList","metadata":{"resourceVersion":"7"},"items":[`+kettle+`]}`, &path)
	list, err := source.List(t.Context(), metav1.ListOptions{})
	if err != nil || path != wantPath {
		t.Fatalf("list: got %v from %q, want none from %q", err, path, wantPath)
	}
	if got := list.(*KettleList); got.ResourceVersion != "7" || len(got.Items) != 1 || got.Items[0].Litres != 2 {
		t.Errorf("list: got %+v, want one kettle of 2 litres at 7", got)
	}
	stream, err := kettles(t, `{"type":"ADDED","object":`+kettle+"}\n"+
		`{"type":"BOOKMARK","object":{"apiVersion":"kitchen.test/v1","kind":"Kettle","metadata":{"resourceVersion":"9"}}}`+"\n"+
		`{"type":"ERROR","object":{"apiVersion":"v1","kind":"Status","code":410}}`+"\n", &path).Watch(t.Context(), metav1.ListOptions{})
	if err != nil || path != wantPath {
		t.Fatalf("watch: got %v from %q, want none from %q", err, path, wantPath)
	}
	defer func() { _ = stream.Close() }()
	if event, err := stream.Next(); err != nil || event.Type != watch.Added || event.Object.(*Kettle).Litres != 2 {
		t.Errorf("event: got %v and %v, want the kettle", event, err)
	}
	if event, err := stream.Next(); err != nil || event.Type != watch.Bookmark || event.Object.(*Kettle).ResourceVersion != "9" {
		t.Errorf("event: got %v and %v, want a bookmark at 9", event, err)
	}
	if event, err := stream.Next(); err != nil || event.Type != watch.Error || event.Object.(*metav1.Status).Code != 410 {
		t.Errorf("event: got %v and %v, want the status", event, err)
	}
	if _, err := stream.Next(); !errors.Is(err, io.EOF) {
		t.Errorf("end: got %v, want io.EOF", err)
	}
}

// An HTML page with status 200, as some proxies send it.
func TestRESTPageInsteadOfAnAnswer(t *testing.T) {
	var path string
	source := kettles(t, "<!DOCTYPE html><html><body>"+canary+"</body></html>", &path)
	list, err := source.List(t.Context(), metav1.ListOptions{})
	if err == nil {
		t.Errorf("list: got %v, want an error", list)
	}
	stream, err := source.Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stream.Close() }()
	if _, err := stream.Next(); !errors.Is(err, cache.ErrMalformed) || strings.Contains(err.Error(), canary) {
		t.Errorf("watch: got %v, want ErrMalformed and nothing of the page", err)
	}
}

// Any single byte of a list may be wrong: no error tells of the objects in it.
func TestRESTCorruptListTellsNothing(t *testing.T) {
	const body = `{"apiVersion":"v1","kind":"SecretList","metadata":{"resourceVersion":"7"},"items":[{"metadata":{"name":"red"},` +
		`"data":{"password":"Y2FuYXJ5LWNhbmFyeS1jYW5hcnk="},"stringData":{"text":"` + canary + `"}}]}`
	var path string
	for offset := range len(body) {
		for _, wrong := range []byte{0, ' ', '"', '}', '[', '1', 0xff, body[offset] ^ 1} {
			corrupt := body[:offset] + string([]byte{wrong}) + body[offset+1:]
			source := listwatch.FromREST(secretsOf(alwaysAnswers(t, corrupt, &path)), "shop", "red")
			_, err := source.List(t.Context(), metav1.ListOptions{})
			if err != nil && (strings.Contains(err.Error(), "canary") || strings.Contains(err.Error(), "Y2FuYXJ5")) {
				t.Fatalf("error: got %v, want nothing of the object", err)
			}
		}
	}
}
