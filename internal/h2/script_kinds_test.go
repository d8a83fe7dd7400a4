// SPDX-License-Identifier: Apache-2.0

package h2

import (
	"net"
	"net/http"
	"testing"
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

func dialConn(t testing.TB, nc net.Conn) testClient {
	events := &eventLog{}
	c, err := newConn(nc, events, connOptions{})
	if err != nil {
		t.Fatal(err)
	}
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

// goneEvents is how often the connection has reported that it takes no new streams.
func (c *ownClient) goneEvents() (n int) {
	c.events.mu.Lock()
	defer c.events.mu.Unlock()
	for _, name := range c.events.names {
		if name == "gone" {
			n++
		}
	}
	return n
}
