// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"net"
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
	c, err := newConn(nc, ignoreEvents{}, connOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return &ownClient{c}
}

// ownClient is a conn whose close waits for its reader.
type ownClient struct{ *conn }

func (c *ownClient) close() {
	c.conn.close()
	<-c.done
}

type ignoreEvents struct{}

func (ignoreEvents) slotFreed(connection) {}
func (ignoreEvents) idle(connection)      {}
func (ignoreEvents) gone(connection)      {}
