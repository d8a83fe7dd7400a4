// SPDX-License-Identifier: Apache-2.0

package listwatch

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"

	"github.com/refwatch/refwatch/cache"
	"github.com/refwatch/refwatch/internal/reflector/internal/failure"
	"github.com/refwatch/refwatch/test/apiserver"
)

func TestRESTList(t *testing.T) {
	overTheWire(t, func(t *testing.T, w *wire) {
		w.write("other", "x")
		for _, want := range [][]string{nil, {canary}} {
			if want != nil {
				w.write("tls", canary)
			}
			list, err := w.source.List(t.Context(), metav1.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, item := range list.(*corev1.SecretList).Items {
				got = append(got, string(item.Data["password"]))
			}
			if !slices.Equal(got, want) || list.(*corev1.SecretList).ResourceVersion == "" {
				t.Errorf("list: got %q, want %q and a version", got, want)
			}
		}
	})
}

// An object holds the names of its source, and no copies of them.
func TestNamesAreShared(t *testing.T) {
	namespace, name := strings.Clone("default"), strings.Clone("tls")
	overTheWire(t, func(t *testing.T, w *wire) {
		w.write("tls", canary)
		w.source = FromREST(w.source.(*restSource).resource, namespace, name)
		list, err := w.source.List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		listed := list.(*corev1.SecretList).Items[0]
		stream := w.watch(metav1.ListOptions{})
		defer func() { _ = stream.Close() }()
		watched := w.next(stream, watch.Added).(*corev1.Secret)
		for _, got := range []metav1.ObjectMeta{listed.ObjectMeta, watched.ObjectMeta} {
			if unsafe.StringData(got.Name) != unsafe.StringData(name) || unsafe.StringData(got.Namespace) != unsafe.StringData(namespace) {
				t.Error("the object has copies of its names")
			}
		}
	})
	other := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "other"}}
	(&restSource{name: name, namespace: namespace}).shareNames(other)
	if other.Name != "other" || other.Namespace != "" {
		t.Errorf("another object is now %s/%s", other.Namespace, other.Name)
	}
}

func TestRESTWatch(t *testing.T) {
	overTheWire(t, func(t *testing.T, w *wire) {
		first := w.write("tls", "one")
		w.write("other", "x")
		stream := w.watch(metav1.ListOptions{
			SendInitialEvents: ptr.To(true), ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan, AllowWatchBookmarks: true,
		})
		added := w.next(stream, watch.Added).(*corev1.Secret)
		if string(added.Data["password"]) != "one" || added.UID != first.UID || added.ResourceVersion != first.ResourceVersion {
			t.Errorf("added: got %v, want what was written", added)
		}
		if mark := w.next(stream, watch.Bookmark).(*corev1.Secret); mark.Annotations[metav1.InitialEventsAnnotationKey] != "true" {
			t.Errorf("bookmark: got %v, want it to end the initial events", mark.Annotations)
		}
		w.write("other", "y")
		w.write("tls", "two")
		if got := w.next(stream, watch.Modified).(*corev1.Secret); string(got.Data["password"]) != "two" {
			t.Errorf("modified: got %q, want two", got.Data)
		}
		if string(added.Data["password"]) != "one" {
			t.Errorf("the first object: got %q, want it left as it was", added.Data)
		}
		if err := w.client.CoreV1().Secrets("default").Delete(t.Context(), "tls", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		if got := w.next(stream, watch.Deleted).(*corev1.Secret); got.UID != first.UID {
			t.Errorf("deleted: got %q, want %q", got.UID, first.UID)
		}
		if got := w.next(stream, watch.Bookmark).(*corev1.Secret); got.ResourceVersion != w.server.ResourceVersion() {
			t.Errorf("bookmark a minute later: got version %q, want %q", got.ResourceVersion, w.server.ResourceVersion())
		}
		w.server.CloseStreams(nil)
		if _, err := stream.Next(); !errors.Is(err, io.EOF) {
			t.Errorf("end: got %v, want io.EOF", err)
		}
	})
}

// A Role with resourceNames, and the Node authorizer, allow the requests of a source.
func TestRESTRequests(t *testing.T) {
	overTheWire(t, func(t *testing.T, w *wire) {
		if _, err := w.source.List(t.Context(), metav1.ListOptions{ResourceVersion: "0"}); err != nil {
			t.Fatal(err)
		}
		w.watch(metav1.ListOptions{AllowWatchBookmarks: true, TimeoutSeconds: ptr.To(int64(1234))})
		want := []map[string]string{
			{"fieldSelector": "metadata.name=tls", "resourceVersion": "0"},
			{"fieldSelector": "metadata.name=tls", "watch": "true", "allowWatchBookmarks": "true", "timeoutSeconds": "1234"},
		}
		for i, request := range w.server.Requests() {
			if request.Path != "/api/v1/namespaces/default/secrets" || request.Verb != []string{"list", "watch"}[i] {
				t.Errorf("request %d: got %s %s", i, request.Verb, request.Path)
			}
			for name := range request.Query {
				if got := request.Query.Get(name); got != want[i][name] {
					t.Errorf("request %d: got %s=%q, want %q", i, name, got, want[i][name])
				}
			}
			if len(request.Query) != len(want[i]) {
				t.Errorf("request %d: got %v, want %v", i, request.Query, want[i])
			}
		}
	})
}

func TestRESTErrorInStream(t *testing.T) {
	overTheWire(t, func(t *testing.T, w *wire) {
		w.write("tls", "one")
		w.write("tls", "two")
		w.server.Compact()
		stream := w.watch(metav1.ListOptions{ResourceVersion: "1"})
		status := w.next(stream, watch.Error).(*metav1.Status)
		if got := apierrors.FromObject(status); failure.Of(got) != failure.Expired {
			t.Errorf("error: got %v, want it Expired", got)
		}
	})
}

// A request is sent once, whatever the answer is: the reflector decides when to send it
// again.
func TestRESTRequestIsSentOnce(t *testing.T) {
	unavailable := apierrors.NewServiceUnavailable("starting")
	unavailable.ErrStatus.Code = http.StatusServiceUnavailable
	unavailable.ErrStatus.Details = &metav1.StatusDetails{RetryAfterSeconds: 7}
	resource := corev1.Resource("secrets")
	tooLarge := apierrors.NewTimeoutError("Too large resource version: 9, current: 5", 1)
	tooLarge.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: metav1.CauseTypeResourceVersionTooLarge}}
	tests := map[string]struct {
		err     *apierrors.StatusError
		class   failure.Class
		seconds int
	}{
		"429":              {apierrors.NewTooManyRequests("slow down", 7), failure.Throttled, 7},
		"503":              {unavailable, failure.Failed, 7},
		"403":              {apierrors.NewForbidden(resource, "tls", errors.New("no")), failure.Forbidden, 0},
		"504, too large":   {tooLarge, failure.TooLarge, 1},
		"500, Retry-After": {apierrors.NewServerTimeout(resource, "list", 7), failure.Failed, 7},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			overTheWire(t, func(t *testing.T, w *wire) {
				w.server.Intercept(func(context.Context, apiserver.Request) *metav1.Status { return &test.err.ErrStatus })
				_, listErr := w.source.List(t.Context(), metav1.ListOptions{})
				_, watchErr := w.source.Watch(t.Context(), metav1.ListOptions{})
				for verb, err := range map[string]error{"list": listErr, "watch": watchErr} {
					seconds, _ := apierrors.SuggestsClientDelay(err)
					if got := failure.Of(err); got != test.class || seconds != test.seconds {
						t.Errorf("%s: got %q and %d s (%v), want %q and %d s", verb, got, seconds, err, test.class, test.seconds)
					}
				}
				if got := len(w.server.Requests()); got != 2 {
					t.Errorf("requests: got %d, want 1 of each", got)
				}
			})
		})
	}
}

// Next returns when the stream is closed, or when its context ends.
func TestRESTNextReturns(t *testing.T) {
	tests := map[string]func(Stream, context.CancelFunc){
		"closed": func(s Stream, _ context.CancelFunc) { _ = s.Close() },
		"closed often": func(s Stream, _ context.CancelFunc) {
			for range 3 {
				_ = s.Close()
			}
		},
		"context": func(_ Stream, cancel context.CancelFunc) { cancel() },
	}
	for name, end := range tests {
		t.Run(name, func(t *testing.T) {
			for _, written := range []bool{false, true} { // before the first bytes, and after
				overTheWire(t, func(t *testing.T, w *wire) {
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					stream, err := w.source.Watch(ctx, metav1.ListOptions{})
					if err != nil {
						t.Fatal(err)
					}
					defer func() { _ = stream.Close() }()
					if written {
						w.write("tls", "one")
						w.next(stream, watch.Added)
					}
					time.AfterFunc(time.Second, func() { end(stream, cancel) })
					if event, err := stream.Next(); err == nil {
						t.Errorf("Next: got %s, want an error", event.Type)
					}
				})
			}
		})
	}
}

// Kettle is a kind that is in no scheme.
type Kettle struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Litres int `json:"litres"`
}

// DeepCopyObject implements runtime.Object.
func (k *Kettle) DeepCopyObject() runtime.Object {
	kettle := *k
	kettle.ObjectMeta = *k.DeepCopy()
	return &kettle
}

// KettleList is a list of kettles.
type KettleList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`

	Items []Kettle `json:"items"`
}

// DeepCopyObject implements runtime.Object.
func (l *KettleList) DeepCopyObject() runtime.Object {
	list := *l
	list.Items = append([]Kettle(nil), l.Items...)
	return &list
}

// kettles returns a source of a kettle, whose server answers each request with a body.
func kettles(t *testing.T, body string, path *string) Source {
	t.Helper()
	return FromREST(&RESTResource{
		Client: alwaysAnswers(t, body, path), Name: "kettles",
		NewObject: func() runtime.Object { return &Kettle{} },
		NewList:   func() runtime.Object { return &KettleList{} },
	}, "shop", "red")
}

func TestRESTKindOutsideTheScheme(t *testing.T) {
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

// Some proxies answer with an HTML page and status 200.
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
		t.Errorf("watch: got %v, want ErrMalformed, without the page", err)
	}
}

// Any single byte of a list may be wrong. No error quotes its objects.
func TestRESTCorruptList(t *testing.T) {
	const body = `{"apiVersion":"v1","kind":"SecretList","metadata":{"resourceVersion":"7"},"items":[{"metadata":{"name":"red"},` +
		`"data":{"password":"Y2FuYXJ5LWNhbmFyeS1jYW5hcnk="},"stringData":{"text":"` + canary + `"}}]}`
	var path string
	for offset := range len(body) {
		for _, wrong := range []byte{0, ' ', '"', '}', '[', '1', 0xff, body[offset] ^ 1} {
			corrupt := body[:offset] + string([]byte{wrong}) + body[offset+1:]
			source := FromREST(secretsOf(alwaysAnswers(t, corrupt, &path)), "shop", "red")
			_, err := source.List(t.Context(), metav1.ListOptions{})
			checkSecrecy(t, err)
		}
	}
}
