// SPDX-License-Identifier: Apache-2.0

package scale_test

import (
	"context"
	"errors"
	"net"
	"sync"
)

// connections are those of one client. Each has a goroutine of the HTTP/2 transport, which keeps it for a while
// after its last use.
type connections struct {
	dialer net.Dialer

	mu     sync.Mutex
	open   map[*connection]struct{}
	opened int // in all
	most   int // at once
	over   bool
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
	if c.over {
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

// count returns how many are open, how many were at most, and how many have been opened in all.
func (c *connections) count() (open, most, opened int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.open), c.most, c.opened
}

// hangUp closes what is open. A dial that is under way fails: net/http lets it outlive the request it was for.
func (c *connections) hangUp() {
	c.mu.Lock()
	c.over = true
	var open []*connection
	for one := range c.open {
		open = append(open, one)
	}
	c.mu.Unlock()
	for _, one := range open {
		_ = one.Close() // its transport may have been first
	}
}
