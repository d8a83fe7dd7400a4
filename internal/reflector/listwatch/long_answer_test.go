// SPDX-License-Identifier: Apache-2.0

package listwatch

import (
	"compress/gzip"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/refwatch/refwatch/cache"
)

// An answer about one object that does not end, plain or compressed, is read up to 4 MiB.
func TestLongAnswer(t *testing.T) {
	reads := map[string]func(*testing.T, *RESTResource) error{
		"list": func(t *testing.T, r *RESTResource) error {
			_, err := FromREST(r, "shop", "tls").List(t.Context(), metav1.ListOptions{})
			return err
		},
		"comparison": func(t *testing.T, r *RESTResource) error {
			_, _, err := FromREST(r, "shop", "tls").(Resumable).Compare(t.Context(), metav1.ListOptions{})
			return err
		},
		"GET": func(t *testing.T, r *RESTResource) error {
			_, err := r.Get(t.Context(), "shop", "tls")
			return err
		},
	}
	for name, read := range reads {
		for _, compressed := range []bool{false, true} {
			t.Run(name+map[bool]string{true: ", compressed"}[compressed], func(t *testing.T) { testLongAnswer(t, compressed, read) })
		}
	}
}

func testLongAnswer(t *testing.T, compressed bool, read func(*testing.T, *RESTResource) error) {
	const body, most = 64 << 20, 16 << 20 // behind the limit are the buffers of the connection
	var sent atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		out := io.Writer(w)
		if compressed {
			w.Header().Set("Content-Encoding", "gzip")
			compressor, _ := gzip.NewWriterLevel(w, gzip.NoCompression) // the fastest: random bytes get no shorter
			defer func() { _ = compressor.Close() }()
			out = compressor
		}
		_, _ = io.WriteString(out, `{"apiVersion":"v1","kind":"SecretList","metadata":{"resourceVersion":"1"},"items":[{"metadata":{"annotations":{"a":"`)
		random := rand.NewChaCha8([32]byte{})
		for piece := make([]byte, 64<<10); sent.Load() < body; {
			_, _ = random.Read(piece)
			n, err := out.Write(piece)
			if sent.Add(int64(n)); err != nil {
				return
			}
		}
	}))
	defer server.Close()
	client, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	r := &RESTResource{
		Client: client.CoreV1().RESTClient(), Name: "secrets",
		NewObject: func() runtime.Object { return &corev1.Secret{} }, NewList: func() runtime.Object { return &corev1.SecretList{} },
	}
	if err := read(t, r); !errors.Is(err, cache.ErrMalformed) || !strings.Contains(err.Error(), "more than 4194304 bytes") {
		t.Errorf("got error %v, want that the answer is too long", err)
	}
	server.CloseClientConnections()
	server.Close() // waits for the handler
	if n := sent.Load(); n > most {
		t.Errorf("the server sent %d MiB, want %d at most", n>>20, most>>20)
	}
}
