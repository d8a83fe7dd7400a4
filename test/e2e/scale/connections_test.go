// SPDX-License-Identifier: Apache-2.0

package scale_test

import (
	"context"
	"errors"
	"net"
	"sync"
)

// connections counts the connections of one client. Each has a goroutine of the HTTP/2 transport, which keeps an idle
// connection for a while.
type connections struct {
	dialer net.Dialer

	mu     sync.Mutex
	open   map[*connection]struct{}
	opened int // in total
	most   int // at the same time
	closed bool
}

type connection struct {
	net.Conn

	all *connections
}

// dial is a rest.Config's Dial.
func (c *connections) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := c.dialer.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, errors.Join(net.ErrClosed, conn.Close())
	}
	one := &connection{conn, c}
	c.open[one] = struct{}{}
	c.opened++
	c.most = max(c.most, len(c.open))
	return one, nil
}

// Close implements net.Conn.
func (c *connection) Close() error {
	c.all.mu.Lock()
	delete(c.all.open, c)
	c.all.mu.Unlock()
	return c.Conn.Close()
}

// count returns how many connections are open, how many were open at the same time at most, and how many were opened.
func (c *connections) count() (open, most, opened int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.open), c.most, c.opened
}

// close closes all connections. A dial that is still running fails: net/http continues it after its request has ended.
func (c *connections) close() {
	c.mu.Lock()
	c.closed = true
	var open []*connection
	for one := range c.open {
		open = append(open, one)
	}
	c.mu.Unlock()
	for _, one := range open {
		_ = one.Close() // the transport may have closed it already
	}
}
