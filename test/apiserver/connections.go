// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"net"
	"sync"
)

// connections is the net.Listener of one HTTP server. Closing it leaves the listener of the [Server] open, for the next
// HTTP server.
type connections struct {
	net.Listener
	accepted <-chan net.Conn
	closed   chan struct{}
	close    sync.Once
}

func (c *connections) Accept() (net.Conn, error) {
	select {
	case conn := <-c.accepted:
		return conn, nil
	case <-c.closed:
		return nil, net.ErrClosed
	}
}

func (c *connections) Close() error {
	c.close.Do(func() { close(c.closed) })
	return nil
}
