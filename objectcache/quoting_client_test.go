// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"

	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/objectcache/resource"
	canaries "github.com/refwatch/refwatch/test/canary"
	"github.com/refwatch/refwatch/test/clients"
)

// answers is a transport that answers each request with a code and a body.
type answers func(*http.Request) (code int, body string)

func (a answers) RoundTrip(request *http.Request) (*http.Response, error) {
	code, body := a(request)
	return &http.Response{
		StatusCode: code, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(strings.NewReader(body)), Request: request,
	}, nil
}

// Issue 8: the errors of a typed client quote an object that it cannot decode. No
// error of Get, status or log line does, at any verbosity.
func TestIssue8_TypedClientQuotesNoObject(t *testing.T) {
	object := fmt.Sprintf(`{"metadata":{"name":"tls","namespace":"default","resourceVersion":"5"},"data":{"password":%q},"stringData":{"x":%q}}`,
		base64.StdEncoding.EncodeToString([]byte(canary)), canary)
	event, list := `{"type":"ADDED","object":`+object+"}\n", `{"items":[`+object+`]}`
	tests := map[string]answers{
		"event without kind, and list": func(r *http.Request) (int, string) {
			if r.URL.Query().Has("watch") {
				return 200, event
			}
			return 200, list
		},
		"list of a wrong type": func(r *http.Request) (int, string) {
			if r.URL.Query().Has("watch") {
				return 422, "{}"
			}
			return 200, `{"apiVersion":"v1","kind":"SecretList","metadata":{"resourceVersion":"9"},"items":` + object + `}`
		},
		"the object as a 500":   func(*http.Request) (int, string) { return 500, object },
		"the object as a 403":   func(*http.Request) (int, string) { return 403, object },
		"an event without type": func(*http.Request) (int, string) { return 200, object },
	}
	for name, answer := range tests {
		for _, hidden := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, REST client hidden: %v", name, hidden), func(t *testing.T) {
				out := canaries.CaptureLog(t)
				var texts []string
				synctest.Test(t, func(t *testing.T) { texts = quotedBy(t, objectcache.WatchOptions{}, answer, hidden) })
				checkSecrecy(t, "error, status or log", append(texts, out.Take())...)
			})
		}
	}
}

// quotedBy returns the errors and statuses of a store with such a client.
func quotedBy(t *testing.T, options objectcache.StoreOptions, answer answers, hidden bool) (texts []string) {
	client, err := kubernetes.NewForConfig(&rest.Config{Host: "https://server.test", Transport: answer, QPS: -1})
	if err != nil {
		t.Fatal(err)
	}
	secrets := resource.Secrets(client)
	if hidden {
		secrets = clients.Typed(func(namespace string) withoutRESTClient {
			return withoutRESTClient{client.CoreV1().Secrets(namespace)}
		}, corev1.SchemeGroupVersion.WithResource("secrets"))
	}
	store, err := objectcache.NewStore(secrets, options)
	if err != nil {
		t.Fatal(err)
	}
	stop := runStore(t.Context(), t, store)
	defer stop()
	store.AddReference(namespace, "tls", "pod")
	for range 5 {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		_, err := store.Get(ctx, namespace, "tls")
		cancel()
		status, known := store.Status(namespace, "tls")
		if err == nil && status.Stream != objectcache.StreamPolled || known && status.LastError == nil { // GETs are well
			t.Fatalf("Get: got %v, status %+v, want a failure", err, status)
		}
		texts = append(texts, fmt.Sprintf("%v %+v %#v", err, err, err), fmt.Sprintf("%+v %#v", status, status.LastError))
		for inner := errors.Unwrap(status.LastError); inner != nil; inner = errors.Unwrap(inner) {
			texts = append(texts, inner.Error())
		}
	}
	return texts
}

// A fake clientset declares that it does not support WatchList, so the store lists. If
// its objects have no version, the error names the fake clientset.
func TestFakeClientset(t *testing.T) {
	tests := map[string]struct {
		version string
		want    string // in Get's error
	}{
		"with a version":    {"1", ""},
		"without a version": {"", "fake clientset"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			object := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "tls", ResourceVersion: test.version}}
			client := fake.NewClientset(object)
			synctest.Test(t, func(t *testing.T) {
				store := newStore(t, clients.FakeSecrets(client), objectcache.WatchOptions{})
				defer runStore(t.Context(), t, store)()
				store.AddReference(namespace, "tls", "pod")
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				_, err := store.Get(ctx, namespace, "tls")
				if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
					t.Errorf("Get: got %v, want an error with %q in it", err, test.want)
				}
			})
		})
	}
}
