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

// silence is how long a test waits for the consequences of a silent stream: two minutes pass until the library checks
// it, and up to half a minute more.
const silence = 5 * time.Minute

// Without WatchList there is a moment between a list and the watch that follows it. A server that is rolled back in
// that moment does not have the version that the watch begins at, and is silent for ever: a list beside the stream
// finds out.
func TestRestoreBetweenListAndWatch(t *testing.T) {
	if testing.Short() {
		t.Skip("takes three minutes")
	}
	t.Parallel()
	const fault = "etcd restored between list and watch"
	cluster := e2e.New(t, e2e.Options{DisableWatchList: true})
	restored := make(chan struct{})
	config := cluster.Admin()
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return lateWatches(next, restored) })
	r := newRig(t, cluster, "between", config, objectcache.WatchOptions{})
	names := r.prepare(many)
	snapshot, err := cluster.Snapshot(r.Context())
	if err != nil {
		t.Fatal(err)
	}
	r.change(names) // more writes than a restored server makes by itself, which would overtake the watches
	r.reference(names...)
	r.converged(names)
	if err := cluster.Restore(r.Context(), snapshot); err != nil {
		t.Fatal(err)
	}
	close(restored)
	want := r.onServer()
	took := r.within(silence, func() error { return r.allAgree(names, want) })
	silent := 0
	for _, name := range names {
		if err := r.status(name).LastError; err != nil && strings.Contains(err.Error(), "silent about a change") {
			silent++
		}
	}
	if silent == 0 {
		t.Errorf("the causes that ended streams: got %v and others, want some for a silent stream", r.status(names[0]).LastError)
	}
	r.observe(fault, "noticed and converges though versions went back", fmt.Sprintf("%d streams ended as Silent", silent), took)
	r.update("fourth", names...)
	took = r.converged(names)
	r.observe(fault, "is followed again", "newest state of each", took)
}

// lateWatches answers watches that do not ask for the state at once, and sends them to the server no earlier than it
// may.
func lateWatches(next http.RoundTripper, may <-chan struct{}) http.RoundTripper {
	return roundTripper(func(request *http.Request) (*http.Response, error) {
		if query := request.URL.Query(); !query.Has("watch") || query.Has("sendInitialEvents") || isClosed(may) {
			return next.RoundTrip(request)
		}
		return &http.Response{
			Status: "200 OK", StatusCode: http.StatusOK,
			Proto: "HTTP/2.0", ProtoMajor: 2, Request: request,
			Header: http.Header{"Content-Type": {runtime.ContentTypeProtobuf + ";stream=watch"}},
			Body:   &lateBody{next: next, request: request, may: may, closed: make(chan struct{})},
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

// lateBody is the body of a response whose request has not been sent yet.
type lateBody struct {
	next    http.RoundTripper
	request *http.Request
	may     <-chan struct{}
	closed  chan struct{}

	mu   sync.Mutex
	body io.ReadCloser // nil until the request was answered
	over bool
}

func (b *lateBody) Read(p []byte) (int, error) {
	select {
	case <-b.may:
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

// open sends the request. Only the reader calls it.
func (b *lateBody) open() (io.ReadCloser, error) {
	if b.body != nil { // which only this goroutine sets
		return b.body, nil
	}
	response, err := b.next.RoundTrip(b.request)
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.over || response.StatusCode != http.StatusOK {
		_ = response.Body.Close()
		return nil, fmt.Errorf("late watch: got status %s", response.Status)
	}
	b.body = response.Body
	return b.body, nil
}

// Close may be called while Read waits.
func (b *lateBody) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.over {
		return nil
	}
	b.over = true
	close(b.closed)
	if b.body == nil {
		return nil
	}
	return b.body.Close()
}
