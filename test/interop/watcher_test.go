// SPDX-License-Identifier: Apache-2.0

package interop_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

const (
	// patience bounds each wait: a server that hangs must not hang the tests.
	patience = 60 * time.Second
	// opening is how many streams are opened at a time.
	opening = 32
)

// watcher has streams of one server, through one client.
type watcher struct {
	*testing.T
	client       client
	connections  *connections
	roundTripper http.RoundTripper
	url          string
	tally        *tally
	streams      []*stream
	opened       int // streams so far, also those that have ended
}

// newWatcher returns a watcher of the server at an address, which has the certificate.
func newWatcher(t *testing.T, c client, address string) *watcher {
	config, connections := configFor(t, address)
	w := &watcher{T: t, client: c, connections: connections, roundTripper: c.transport(t, config), url: config.Host, tally: newTally()}
	t.Cleanup(w.close)
	return w
}

// open opens n streams. It fails the test if one fails.
func (w *watcher) open(n int) {
	w.Helper()
	before := len(w.streams)
	w.streams = append(w.streams, make([]*stream, n)...)
	turns := make(chan struct{}, opening)
	var running sync.WaitGroup
	for i := before; i < before+n; i++ {
		turns <- struct{}{}
		running.Go(func() {
			defer func() { <-turns }()
			var err error
			if w.streams[i], err = w.openOne(); err != nil {
				w.Errorf("stream %d: %v", i, err)
			}
		})
	}
	running.Wait()
	if w.Failed() {
		w.FailNow()
	}
	w.opened += n
	w.wait("hello", w.opened)
}

// notEstablished ends the error of net/http's client for the first request on a connection that the server closes
// before the request is sent, as a reload may. The client repeats no such request: that is left to the program.
const notEstablished = "http2: client conn could not be established"

// openOne opens a stream.
func (w *watcher) openOne() (*stream, error) {
	// A stream that is not parked ends with the context of its request.
	ctx, cancel := context.WithCancelCause(w.Context())
	timer := time.AfterFunc(patience, func() { cancel(fmt.Errorf("no response in %v", patience)) })
	response, err := w.client.watch(ctx, w.roundTripper, w.url)
	for !w.client.own && err != nil && strings.HasSuffix(err.Error(), notEstablished) {
		response, err = w.client.watch(ctx, w.roundTripper, w.url)
	}
	timer.Stop()
	if err != nil {
		return nil, err
	}
	return w.client.receive(response.Body, w.tally.add)
}

// wait waits until n streams have received the line.
func (w *watcher) wait(line string, n int) {
	w.Helper()
	timeout := time.After(patience)
	for {
		got, changed := w.tally.get(line)
		if got >= n {
			return
		}
		select {
		case <-changed:
		case <-timeout:
			w.Fatalf("streams that received %.20q in %v: got %d, want %d", line, patience, got, n)
		}
	}
}

// try opens n streams, sends them a short line and a long one, and checks how many connections that took.
func (w *watcher) try(f *feed, n, connections int) {
	w.Helper()
	w.open(n)
	w.publish(f, "update")
	w.publish(f, "large"+strings.Repeat(".", 70_000)) // more than the default window of a stream
	w.alive()
	if got := w.dialled(); got > connections {
		w.Errorf("connections for %d streams: got %d, want at most %d", n, got, connections)
	}
}

// dialled returns how many connections the client has dialled.
func (w *watcher) dialled() int { return int(w.connections.dialled.Load()) }

// publish sends a line through f, and waits until all streams have received it.
func (w *watcher) publish(f *feed, line string) {
	w.Helper()
	f.publish(line)
	w.wait(line, len(w.streams))
}

// alive fails the test if a stream has ended.
func (w *watcher) alive() {
	w.Helper()
	for i, s := range w.streams {
		select {
		case <-s.ended:
			w.Fatalf("stream %d ended: %v", i, s.err)
		default:
		}
	}
}

// waitForEnd waits until all streams have ended without a call of close.
func (w *watcher) waitForEnd() {
	w.Helper()
	timeout := time.After(patience)
	for i, s := range w.streams {
		select {
		case <-s.ended:
		case <-timeout:
			w.Fatalf("stream %d has not ended in %v", i, patience)
		}
	}
}

// close ends all streams.
func (w *watcher) close() { w.closeAfter(0) }

// closeAfter ends all streams but the first n.
func (w *watcher) closeAfter(n int) {
	for _, s := range w.streams[n:] {
		if s != nil {
			s.close()
		}
	}
	w.streams = w.streams[:n]
}
