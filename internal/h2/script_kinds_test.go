// SPDX-License-Identifier: Apache-2.0

package h2

import (
	"net"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"golang.org/x/net/http2"
)

// clientKinds returns the clients that every test of this suite runs with: this
// package's with both ways to read a body, and that of net/http.
func clientKinds() []clientKind { return append(ownKinds(), reference) }

func ownKinds() []clientKind {
	return []clientKind{
		{name: "Read", dial: dialConn, mode: readAll},
		{name: "Receive", dial: dialConn, mode: receive},
	}
}

// testWindow is the window of a stream in these tests. With the default they would take minutes.
const testWindow = 256 << 10

func dialConn(t testing.TB, nc net.Conn) testClient {
	events := &eventLog{}
	c, err := newConn(nc, events, connOptions{streamWindow: testWindow})
	check(t, err)
	return &ownClient{c, events, t}
}

// ownClient is a conn whose close waits for its reader, and checks what it leaves.
type ownClient struct {
	*conn
	events *eventLog
	t      testing.TB
}

func (c *ownClient) roundTrip(r *http.Request) (*http.Response, error) {
	return c.conn.roundTrip(r, nil)
}

func (c *ownClient) close() {
	c.t.Helper()
	c.conn.close()
	<-c.done
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.streams) > 0 || c.reserved != 0 {
		c.t.Errorf("got %d streams and %d reserved slots of a closed connection, want none", len(c.streams), c.reserved)
	}
}

// eventLog notes a connection's events.
type eventLog struct {
	mu    sync.Mutex
	names []string
	taken int // of names
}

func (l *eventLog) note(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.names = append(l.names, name)
}

func (l *eventLog) slotFreed(connection) { l.note("slotFreed") }
func (l *eventLog) idle(connection)      { l.note("idle") }
func (l *eventLog) gone(connection)      { l.note("gone") }

// take returns the events since the last call.
func (l *eventLog) take() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	names := l.names[l.taken:]
	l.taken = len(l.names)
	return names
}

// goneEvents is how often the connection has reported that it takes no new streams.
func (l *eventLog) goneEvents() (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, name := range l.names {
		if name == "gone" {
			n++
		}
	}
	return n
}

// withConn runs test in a bubble with a connection of this package's client.
func withConn(t *testing.T, test func(*testing.T, *exchange), settings ...http2.Setting) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		e := newExchange(t, ownKinds()[1], settings...)
		e.sent()
		e.wantEvents("slotFreed")
		test(t, e)
	})
}

// conn returns the connection of this package's client.
func (e *exchange) conn() *conn { return e.client.(*ownClient).conn }

// wantEvents compares the events of this package's client since the last call.
func (e *exchange) wantEvents(want ...string) {
	e.t.Helper()
	e.wait()
	if got := e.client.(*ownClient).events.take(); !slices.Equal(got, want) {
		e.t.Errorf("events: got %q, want %q", got, want)
	}
}

// wantSent compares the frames of the client since the last call.
func (e *exchange) wantSent(want ...string) {
	e.t.Helper()
	if got := e.sent(); !slices.Equal(got, want) {
		e.t.Errorf("the client sent %q, want %q", got, want)
	}
}

// wantTaken compares how many slots are taken.
func (e *exchange) wantTaken(want int) {
	e.t.Helper()
	e.wait()
	if got := e.conn().taken(); got != want {
		e.t.Errorf("taken slots: got %d, want %d", got, want)
	}
}
