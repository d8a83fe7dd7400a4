// SPDX-License-Identifier: Apache-2.0

package interop_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"
)

// feed is a server of streams: each begins with the line "hello" and has all lines that are published from then on.
type feed struct {
	closing sync.Once
	closed  chan struct{}
	// goAwayEvery makes every n-th response ask for GOAWAY, as kube-apiserver's --goaway-chance does. Zero is never.
	goAwayEvery int

	mu      sync.Mutex
	streams map[chan string]struct{}
	served  int           // requests so far
	ended   chan struct{} // closed when the next stream ends
}

func newFeed(t *testing.T) *feed {
	f := &feed{closed: make(chan struct{}), streams: map[chan string]struct{}{}, ended: make(chan struct{})}
	t.Cleanup(f.close)
	return f
}

// serve serves the feed by HTTP/1.1 without TLS, for a front end.
func (f *feed) serve(t *testing.T) (address string) {
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	t.Cleanup(server.CloseClientConnections)
	return server.Listener.Addr().String()
}

// publish sends a line to all streams.
func (f *feed) publish(line string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for lines := range f.streams {
		lines <- line
	}
}

// wait waits until the feed has n streams or fewer.
func (f *feed) wait(t *testing.T, n int) {
	t.Helper()
	timeout := time.After(patience)
	for {
		f.mu.Lock()
		got, ended := len(f.streams), f.ended
		f.mu.Unlock()
		if got <= n {
			return
		}
		select {
		case <-ended:
		case <-timeout:
			t.Fatalf("streams that the server still has after %v: got %d, want %d", patience, got, n)
		}
	}
}

// close ends all streams regularly.
func (f *feed) close() { f.closing.Do(func() { close(f.closed) }) }

// ServeHTTP implements http.Handler.
func (f *feed) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	lines := make(chan string, 16) // more than a test publishes
	lines <- "hello"
	f.mu.Lock()
	f.streams[lines] = struct{}{}
	f.served++
	goAway := f.goAwayEvery > 0 && f.served%f.goAwayEvery == 0
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.streams, lines)
		close(f.ended)
		f.ended = make(chan struct{})
	}()
	if goAway {
		w.Header().Set("Connection", "close") // see k8s.io/apiserver/pkg/server/filters/goaway.go
	}
	flusher := http.NewResponseController(w)
	for {
		select {
		case line := <-lines:
			if _, err := io.WriteString(w, line+"\n"); err != nil {
				return
			}
			if err := flusher.Flush(); err != nil {
				return
			}
		case <-r.Context().Done():
			return
		case <-f.closed:
			return
		}
	}
}
