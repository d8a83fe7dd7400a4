// SPDX-License-Identifier: Apache-2.0

package listwatch

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/refwatch/refwatch/cache"
	"github.com/refwatch/refwatch/internal/h2"
)

// A proxy names another type than JSON for a stream. Its events are delivered nevertheless, and its end is a regular
// one. Without an event the type is the error.
func TestForeignStream(t *testing.T) {
	const event = `{"type":"ADDED","object":{"kind":"Secret","apiVersion":"v1","metadata":{"name":"tls","namespace":"shop"}}}`
	for body, events := range map[string]int{event: 1, event + "\n" + event: 2, "": 0, "no": 0} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, body)
		}))
		defer server.Close()
		config := &rest.Config{Host: server.URL}
		config.Wrap(func(base http.RoundTripper) http.RoundTripper { return h2.New(base) })
		client, err := kubernetes.NewForConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		r := &RESTResource{
			Client: client.CoreV1().RESTClient(), Name: "secrets",
			NewObject: func() runtime.Object { return &corev1.Secret{} }, NewList: func() runtime.Object { return &corev1.SecretList{} },
		}
		stream, err := FromREST(r, "shop", "tls").Watch(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		got := 0
		for ; err == nil; got++ {
			_, err = stream.Next()
		}
		if got--; got != events {
			t.Errorf("%q: got %d events, want %d", body, got, events)
		}
		foreign := errors.Is(err, cache.ErrMalformed) && strings.Contains(err.Error(), "text/event-stream")
		if want := events == 0; foreign != want || !want && !errors.Is(err, io.EOF) {
			t.Errorf("%q: got error %v, want the type: %v, and else EOF", body, err, want)
		}
		if err := stream.Close(); err != nil {
			t.Errorf("Close: got %v, want nil", err)
		}
	}
}
