// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"bytes"
	"context"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/objectcache/resource"
)

// A server refuses requests with a body that does not end soon. client-go reads the body of
// an error whole, so the library lets it see 1 MiB.
func TestLongErrorBody(t *testing.T) {
	for name, http2 := range map[string]bool{"HTTP/2": true, "HTTP/1.1": false} {
		t.Run(name, func(t *testing.T) { testLongErrorBody(t, http2) })
	}
}

func testLongErrorBody(t *testing.T, http2 bool) {
	const body, most = 64 << 20, 16 << 20
	var mu sync.Mutex
	longest := int64(0) // of what was sent of a body
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusForbidden)
		piece, sent := bytes.Repeat([]byte("x"), 64<<10), int64(0)
		for sent < body {
			n, err := w.Write(piece)
			if sent += int64(n); err != nil {
				break
			}
		}
		mu.Lock()
		defer mu.Unlock()
		longest = max(longest, sent)
	}))
	server.EnableHTTP2 = http2
	server.StartTLS()
	t.Cleanup(server.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	client := newClient(t, resource.ConfigFor(&rest.Config{Host: server.URL, TLSClientConfig: rest.TLSClientConfig{CAData: ca}}))
	store, err := objectcache.NewWatchStore(resource.Secrets(client), objectcache.WatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- store.Run(ctx) }()
	store.AddReference(namespace, "tls", types.UID("owner"))
	if _, err := store.Get(ctx, namespace, "tls"); !apierrors.IsForbidden(err) {
		t.Errorf("got error %v, want the refusal", err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	// Behind the limit are the windows of HTTP/2, 4 MiB, and the buffers of the system.
	mu.Lock()
	defer mu.Unlock()
	if longest > most {
		t.Errorf("the server sent %d MiB of an error, want %d at most", longest>>20, most>>20)
	}
}
