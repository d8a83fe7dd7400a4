// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/test/e2e"
)

// silenceTimeout bounds the wait for the check of a silent stream, which the library does after two to two and a half
// minutes.
const silenceTimeout = 5 * time.Minute

// Without WatchList, a list and a watch are two requests. If the server is rolled back between them, it does not have
// the version at which the watch starts, and the watch is silent. The library notices this with a list.
func TestRestoreBetweenListAndWatch(t *testing.T) {
	if testing.Short() {
		t.Skip("takes three minutes")
	}
	t.Parallel()
	const fault = "etcd restored between list and watch"
	cluster := e2e.New(t, e2e.Options{DisableWatchList: true})
	restored := make(chan struct{})
	config := cluster.Admin()
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return delayWatches(next, restored) })
	r := newRig(t, cluster, "between", config, objectcache.WatchOptions{})
	names := r.prepare(many)
	snapshot, err := cluster.Snapshot(r.Context())
	if err != nil {
		t.Fatal(err)
	}
	r.change(names) // so many writes that the restored server's own do not overtake the watches
	r.reference(names...)
	r.converged(names)
	if err := cluster.Restore(r.Context(), snapshot); err != nil {
		t.Fatal(err)
	}
	close(restored)
	want := r.onServer()
	took := r.eventuallyWithin(silenceTimeout, func() error { return r.allAgree(names, want) })
	silent := 0
	for _, name := range names {
		if err := r.status(name).LastError; err != nil && strings.Contains(err.Error(), "silent about a change") {
			silent++
		}
	}
	if silent == 0 {
		t.Errorf("causes of ended streams: got %v and others, want some of a silent stream", r.status(names[0]).LastError)
	}
	r.observe(fault, "noticed; converges although versions went back", fmt.Sprintf("%d streams ended as Silent", silent), took)
	r.update("fourth", names...)
	took = r.converged(names)
	r.observe(fault, "later changes are served", "newest state of each", took)
}

// delayWatches answers plain watches at once, and sends them to the server only when start is closed.
func delayWatches(next http.RoundTripper, start <-chan struct{}) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		if query := request.URL.Query(); !query.Has("watch") || query.Has("sendInitialEvents") || isClosed(start) {
			return next.RoundTrip(request)
		}
		return &http.Response{
			Status: "200 OK", StatusCode: http.StatusOK,
			Proto: "HTTP/2.0", ProtoMajor: 2, Request: request,
			Header: http.Header{"Content-Type": {runtime.ContentTypeProtobuf + ";stream=watch"}},
			Body:   &delayedBody{next: next, request: request, start: start, closed: make(chan struct{})},
		}, nil
	})
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// delayedBody is the body of a response whose request has not been sent yet.
type delayedBody struct {
	next    http.RoundTripper
	request *http.Request
	start   <-chan struct{}
	closed  chan struct{} // closed by Close

	mu   sync.Mutex
	body io.ReadCloser // nil until the server has answered
}

func (b *delayedBody) Read(p []byte) (int, error) {
	select {
	case <-b.start:
	case <-b.closed:
		return 0, http.ErrBodyReadAfterClose
	case <-b.request.Context().Done():
		return 0, b.request.Context().Err()
	}
	body, err := b.open()
	if err != nil {
		return 0, err
	}
	return body.Read(p)
}

// open sends the request. Only Read calls it.
func (b *delayedBody) open() (io.ReadCloser, error) {
	if b.body != nil { // only this goroutine sets it
		return b.body, nil
	}
	response, err := b.next.RoundTrip(b.request)
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if isClosed(b.closed) || response.StatusCode != http.StatusOK {
		_ = response.Body.Close()
		return nil, fmt.Errorf("delayed watch: got status %s", response.Status)
	}
	b.body = response.Body
	return b.body, nil
}

// Close may be called during Read.
func (b *delayedBody) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if isClosed(b.closed) {
		return nil
	}
	close(b.closed)
	if b.body == nil {
		return nil
	}
	return b.body.Close()
}
