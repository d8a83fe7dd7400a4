// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"bytes"
	"context"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/objectcache/resource"
	"github.com/refwatch/refwatch/test/apiserver"
	"github.com/refwatch/refwatch/test/testmain"
)

// longRefusals refuse each of many objects with a text of 16 kB. The first one is the same for all.
var longRefusals = map[string]struct {
	change func(status *metav1.Status, name string)
	most   uint64 // bytes kept for each object, beside what a short refusal takes
}{
	"the same text":        {func(s *metav1.Status, _ string) { s.Message = longText }, 3 << 10},
	"a text with the name": {func(s *metav1.Status, name string) { s.Message = name + longText }, 10 << 10},
	"causes": {func(s *metav1.Status, _ string) {
		for range 16 {
			s.Details.Causes = append(s.Details.Causes, metav1.StatusCause{Type: "x", Message: longText[:1000], Field: longText[:100]})
		}
	}, 7 << 10},
	"other fields": {func(s *metav1.Status, _ string) {
		s.Details.Name, s.Details.Kind, s.Continue = longText[:6000], longText[:6000], longText[:6000]
	}, 5 << 10},
}

var longText = strings.Repeat("no Role lets you read it, ", 640)

// A server refuses 100 objects with long texts. What is kept of them is bounded, while they fail and when they are
// served again.
func TestLongRefusals(t *testing.T) {
	const objects = 100
	if crowd(t); testmain.Race {
		t.Skip("it takes long: make compat runs it")
	}
	measure := func(t *testing.T, change func(*metav1.Status, string)) (heaps map[string]uint64) {
		synctest.Test(t, func(t *testing.T) { heaps = keptOfRefusals(t, objects, change) })
		return heaps
	}
	short := measure(t, func(*metav1.Status, string) {})
	for name, test := range longRefusals {
		t.Run(name, func(t *testing.T) {
			for when, heap := range measure(t, test.change) {
				if most := short[when] + objects*test.most; heap > most {
					t.Errorf("%s: got a heap of %d kB, want %d kB at most: a short refusal takes %d kB", when, heap>>10, most>>10, short[when]>>10)
				}
			}
		})
	}
}

// keptOfRefusals returns how much memory a program takes whose objects were refused, before and after they are served.
func keptOfRefusals(t *testing.T, objects int, change func(*metav1.Status, string)) map[string]uint64 {
	r := newRig(t, apiserver.Options{InMemory: true}, objectcache.WatchOptions{})
	var served atomic.Bool
	r.server.Intercept(func(_ context.Context, request apiserver.Request) *metav1.Status {
		if served.Load() || request.Resource != "secrets" || request.Verb == "create" {
			return nil
		}
		status := forbidden().ErrStatus
		change(&status, request.Name)
		return &status
	})
	for i := range objects {
		r.AddReference(namespace, fmt.Sprint("tls-", i), types.UID("owner"))
	}
	r.run()
	defer r.stop()
	heaps := map[string]uint64{}
	time.Sleep(time.Minute)
	synctest.Wait()
	for i := range objects {
		if status, ok := r.Status(namespace, fmt.Sprint("tls-", i)); !ok || !apierrors.IsForbidden(status.LastError) {
			t.Fatalf("object %d: got %v, want the refusal", i, status.LastError)
		}
	}
	heaps["refused"] = heap()
	served.Store(true)
	time.Sleep(time.Minute)
	synctest.Wait()
	for i := range objects {
		if _, err := r.Get(t.Context(), namespace, fmt.Sprint("tls-", i)); !apierrors.IsNotFound(err) {
			t.Fatalf("object %d: got %v, want that it is absent", i, err)
		}
	}
	heaps["served"] = heap()
	return heaps
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// The error of Get and the log have some KiB of a text of 16 kB.
func TestLongRefusalIsShownInPart(t *testing.T) {
	var lines []string
	var mu sync.Mutex
	logger := funcr.New(func(_, line string) {
		mu.Lock()
		defer mu.Unlock()
		lines = append(lines, line)
	}, funcr.Options{Verbosity: 4})
	beforeRun(t, objectcache.WatchOptions{}, func(t *testing.T, r *rig) {
		refusal := forbidden()
		refusal.ErrStatus.Message = longText
		r.refuse(refusal)
		defer runStore(klog.NewContext(t.Context(), logger), t, r.Store)()
		r.AddReference(namespace, "tls", types.UID("owner"))
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		_, err := r.Get(ctx, namespace, "tls")
		if text := fmt.Sprint(err); !apierrors.IsForbidden(err) || len(text) > 5000 || !strings.Contains(text, longText[:1000]) {
			t.Errorf("Get: got %d bytes: %.200s, want the beginning of the refusal", len(text), text)
		}
	})
	mu.Lock()
	defer mu.Unlock()
	for _, line := range lines {
		if len(line) > 6000 {
			t.Errorf("log: got a line of %d bytes, want 6,000 at most: %.200s", len(line), line)
		}
	}
	if !strings.Contains(strings.Join(lines, ""), longText[:1000]) {
		t.Error("log: got no line with the refusal")
	}
}

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
