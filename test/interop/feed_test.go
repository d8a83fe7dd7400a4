// SPDX-License-Identifier: Apache-2.0

package interop_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
)

// feed is a server of streams: each begins with the line "hello" and has all lines that are published from then on.
type feed struct {
	closed chan struct{}

	mu      sync.Mutex
	streams map[chan string]struct{}
	served  int // requests so far
}

func newFeed(t *testing.T) *feed {
	f := &feed{closed: make(chan struct{}), streams: map[chan string]struct{}{}}
	t.Cleanup(func() { close(f.closed) })
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

// open returns how many streams there are.
func (f *feed) open() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.streams)
}

// ServeHTTP implements http.Handler.
func (f *feed) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	lines := make(chan string, 16) // more than a test publishes
	lines <- "hello"
	f.mu.Lock()
	f.streams[lines] = struct{}{}
	f.served++
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.streams, lines)
	}()
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
