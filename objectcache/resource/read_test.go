// SPDX-License-Identifier: Apache-2.0

package resource_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/refwatch/refwatch/cache"
	"github.com/refwatch/refwatch/objectcache/resource"
	"github.com/refwatch/refwatch/test/apiserver"
	"github.com/refwatch/refwatch/test/clients"
)

// secretData is the data of every object. No error may contain it.
const secretData = "canary-canary-canary"

var testKey = types.NamespacedName{Namespace: "default", Name: "tls"}

// errAbsent means that the state of an absent object was read.
var errAbsent = errors.New("absent")

// reader reads testKey with one kind of client.
type reader func(ctx context.Context) (metav1.Object, error)

// readers returns a reader for each kind of client.
func readers(t *testing.T, config *rest.Config) map[string]reader {
	t.Helper()
	config = rest.CopyConfig(config)
	config.QPS = -1
	client := kubernetes.NewForConfigOrDie(config)
	secrets := corev1.SchemeGroupVersion.WithResource("secrets")
	return map[string]reader{
		"REST":     readerOf(resource.Secrets(client)),
		"typed":    readerOf(clients.Typed(func(ns string) hiddenREST { return hiddenREST{client.CoreV1().Secrets(ns)} }, secrets)),
		"dynamic":  readerOf(clients.Dynamic(dynamic.NewForConfigOrDie(config), secrets)),
		"metadata": readerOf(clients.Metadata(metadata.NewForConfigOrDie(config), secrets)),
	}
}

func readerOf[T cache.Object](kind resource.Resource[T]) reader {
	return func(ctx context.Context) (metav1.Object, error) {
		reader, err := kind.Kind()
		if err != nil {
			return nil, err
		}
		state, err := reader.Read(ctx, testKey)
		switch {
		case err != nil:
			return nil, reader.Explain(resource.NotServed(err))
		case !state.Exists:
			return nil, errAbsent
		}
		if state.Object, err = reader.Transform(state.Object); err != nil {
			return nil, err
		}
		return state.Object, nil
	}
}

// hiddenREST is a typed client that hides its REST client.
type hiddenREST struct{ typedcorev1.SecretInterface }

func newSecret() *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: testKey.Namespace, Name: testKey.Name}}
}

// roundTripper is a transport that answers each request.
type roundTripper func(*http.Request) *http.Response

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r), nil }

// answersWith returns the config of a server that answers each request with a code and
// a body.
func answersWith(code int, contentType, body string, requests *int) *rest.Config {
	return &rest.Config{Host: "https://server.test", Transport: roundTripper(func(r *http.Request) *http.Response {
		*requests++
		return &http.Response{
			StatusCode: code, Header: http.Header{"Content-Type": {contentType}, "Retry-After": {"1"}},
			Body: io.NopCloser(strings.NewReader(body)), Request: r,
		}
	})}
}

// Each kind of client reads the newest state, without managedFields.
func TestRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := apiserver.New(t, apiserver.Options{InMemory: true})
		secrets := server.Client().CoreV1().Secrets(testKey.Namespace)
		for name, read := range readers(t, server.Config()) {
			if object, err := read(t.Context()); !errors.Is(err, errAbsent) {
				t.Errorf("%s, absent: got %v, %v, want that", name, object, err)
			}
			secret := newSecret()
			secret.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "test", Operation: "Update", FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1("{}")}}
			created, err := secrets.Create(t.Context(), secret, metav1.CreateOptions{})
			if err != nil || len(created.ManagedFields) == 0 {
				t.Fatalf("create: got %v, %v, want managedFields", created, err)
			}
			object, err := read(t.Context())
			if err != nil || object.GetUID() != created.UID || object.GetResourceVersion() != created.ResourceVersion || len(object.GetManagedFields()) > 0 {
				t.Errorf("%s: got %v, %v, want the object without managedFields", name, object, err)
			}
			if err := secrets.Delete(t.Context(), testKey.Name, metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		for _, request := range server.Requests() {
			if request.Verb == "get" && (request.Path != "/api/v1/namespaces/default/secrets/tls" || len(request.Query) > 0) {
				t.Errorf("got GET %s?%s, want that of the name", request.Path, request.Query.Encode())
			}
		}
	})
}

// A GET is transformed, too.
func TestReadTransforms(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := apiserver.New(t, apiserver.Options{InMemory: true})
		if _, err := server.Client().CoreV1().Secrets(testKey.Namespace).Create(t.Context(), newSecret(), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		secrets := resource.Secrets(server.Client())
		changed := secrets.WithTransform(func(s *corev1.Secret) *corev1.Secret { s.Data = nil; return s })
		if got, err := readerOf(changed)(t.Context()); err != nil || got.GetName() != testKey.Name || got.(*corev1.Secret).Data != nil {
			t.Errorf("got %v, want the Secret without data", err)
		}
		changed = secrets.WithTransform(func(*corev1.Secret) *corev1.Secret { return nil })
		if got, err := readerOf(changed)(t.Context()); !errors.Is(err, resource.ErrTransform) || got != nil {
			t.Errorf("got %v, want ErrTransform", err)
		}
	})
}

// A 404 means an absent object only if it names the object.
func TestReadNotServedIsNotAbsent(t *testing.T) {
	status := func(details string) string {
		return `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404` + details + `}`
	}
	const json = "application/json"
	tests := map[string]struct {
		contentType, body string
		absent            bool
	}{
		"the object":             {json, status(`,"details":{"name":"tls","kind":"secrets"}`), true},
		"kube-apiserver's mux":   {"text/plain", "404 page not found", false},
		"a proxy's page":         {"text/html", "<html>", false},
		"an empty answer":        {json, "", false},
		"JSON that is no Status": {json, `{"code":404}`, false},
		"a Status without name":  {json, status(""), false},
		"another name":           {json, status(`,"details":{"name":"other","kind":"secrets"}`), false},
		"the namespace":          {json, status(`,"details":{"name":"default","kind":"namespaces"}`), false},
		"another kind":           {json, status(`,"details":{"name":"tls","kind":"namespaces"}`), false},
	}
	for name, test := range tests {
		requests := 0
		for client, read := range readers(t, answersWith(http.StatusNotFound, test.contentType, test.body, &requests)) {
			t.Run(name+"/"+client, func(t *testing.T) {
				_, err := read(t.Context())
				var served *resource.NotServedError
				if errors.Is(err, errAbsent) != test.absent || apierrors.IsNotFound(err) || errors.As(err, &served) == test.absent {
					t.Errorf("got %v, want absence: %v, else a NotServedError", err, test.absent)
				}
			})
		}
	}
}

// An error holds no object data. What is not the object is an error. A REST client
// sends a request once, whatever the server asks for.
func TestReadErrors(t *testing.T) {
	object := func(metadata string) string {
		return `{"kind":"Secret","apiVersion":"v1","metadata":{` + metadata + `},"data":{"password":"Y2FuYXJ5LWNhbmFyeS1jYW5hcnk="},"stringData":{"x":"` + secretData + `"}}`
	}
	tests := map[string]struct {
		code int
		body string
	}{
		"another name":      {200, object(`"namespace":"default","name":"other"`)},
		"another namespace": {200, object(`"namespace":"other","name":"tls"`)},
		"no kind":           {200, strings.ReplaceAll(object(`"namespace":"default","name":1`), `"kind":"Secret",`, "")},
		"a wrong type":      {200, object(`"namespace":"default","name":["` + secretData + `"]`)},
		"a Status":          {200, `{"kind":"Status","apiVersion":"v1","status":"Success","message":"` + secretData + `"}`},
		"the object as 500": {500, object(`"name":"tls"`)},
		"the object as 403": {403, object(`"name":"tls"`)},
		"not JSON":          {200, secretData},
	}
	for name, test := range tests {
		requests := 0
		for client, read := range readers(t, answersWith(test.code, "application/json", test.body, &requests)) {
			t.Run(name+"/"+client, func(t *testing.T) {
				requests = 0
				synctest.Test(t, func(t *testing.T) {
					object, err := read(t.Context())
					if err == nil {
						t.Fatalf("got %v, want an error", object)
					}
					for text, e := fmt.Sprintf("%v %+v %#v", err, err, err), err; e != nil; e = errors.Unwrap(e) {
						if text += e.Error(); strings.Contains(text, "canary") || strings.Contains(text, "Y2FuYXJ5") {
							t.Errorf("got object data in %s", text)
						}
					}
					if client == "REST" && requests != 1 {
						t.Errorf("got %d requests, want one", requests)
					}
				})
			})
		}
	}
}

// A panic of a client, or a client that is nil, is an error.
func TestReadBadClient(t *testing.T) {
	calls := 0
	bad := clients.Typed(func(string) *hiddenREST {
		if calls++; calls == 2 {
			return nil
		}
		return &hiddenREST{} // its methods panic
	}, corev1.SchemeGroupVersion.WithResource("secrets"))
	for _, want := range []string{"panic: a ", "returned nil"} {
		if _, err := readerOf(bad)(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want an error with %q", err, want)
		}
	}
}
