// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// noticedWithin is how soon a client must notice a half-open connection: 30 s of silence, 15 s for the answer to a
// PING, and some for a machine that is busy.
const noticedWithin = time.Minute

// network dials the connections of the client under test, counts them, and injects faults into them.
type network struct {
	dialer net.Dialer

	mu          sync.Mutex
	open        map[*connection]struct{}
	down        bool // connections are refused
	established int  // connections in total
	refused     int  // dials that failed
	cuts        int  // connections that were cut
	lost        int  // connections that became half open
}

// connection is a connection of a network.
type connection struct {
	net.Conn
	network *network

	cut  atomic.Bool
	lost atomic.Pointer[time.Time] // since when the connection is half open
}

// dial is a rest.Config's Dial.
func (n *network) dial(ctx context.Context, protocol, address string) (net.Conn, error) {
	conn, err := n.dialer.DialContext(ctx, protocol, address)
	n.mu.Lock()
	defer n.mu.Unlock()
	if err == nil && n.down {
		err = errors.Join(syscall.ECONNREFUSED, conn.Close())
	}
	if err != nil {
		n.refused++
		return nil, err
	}
	n.established++
	c := &connection{Conn: conn, network: n}
	n.open[c] = struct{}{}
	return c, nil
}

// Read implements net.Conn. What arrives on a half-open connection is lost.
func (c *connection) Read(p []byte) (int, error) {
	for {
		read, err := c.Conn.Read(p)
		if err == nil && c.lost.Load() != nil {
			continue
		}
		if err != nil && c.cut.Load() {
			err = syscall.ECONNRESET
		}
		return read, err
	}
}

// Write implements net.Conn. What is written to a half-open connection is lost.
func (c *connection) Write(p []byte) (int, error) {
	if c.lost.Load() != nil {
		return len(p), nil
	}
	return c.Conn.Write(p)
}

// Close implements net.Conn.
func (c *connection) Close() error {
	c.network.mu.Lock()
	delete(c.network.open, c)
	c.network.mu.Unlock()
	return c.Conn.Close()
}

// reset ends the connection as if the network had reset it. The client closes it then.
func (c *connection) reset() {
	c.cut.Store(true)
	_ = c.Conn.Close()
}

// cutOne cuts a random connection, in the middle of whatever it carries.
func (n *network) cutOne() {
	if c := n.pick(&n.cuts); c != nil {
		c.reset()
	}
}

// loseOne makes a random connection half open: it stays open, and nothing arrives any more at either end.
func (n *network) loseOne() {
	if c := n.pick(&n.lost); c != nil {
		now := time.Now()
		c.lost.Store(&now)
	}
}

// pick returns a random healthy connection, and counts it.
func (n *network) pick(count *int) *connection {
	n.mu.Lock()
	defer n.mu.Unlock()
	for c := range n.open { // in random order
		if !c.cut.Load() && c.lost.Load() == nil {
			*count++
			return c
		}
	}
	return nil
}

// setDown refuses new connections and cuts those that are open, or accepts connections again.
func (n *network) setDown(down bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.down = down
	if down {
		for c := range n.open {
			c.reset() // closes a socket, which does not block
		}
	}
}

// heal cuts the connections that are half open, and returns how many of them the client should have noticed.
func (n *network) heal() (overdue int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for c := range n.open {
		since := c.lost.Load()
		if since == nil || c.cut.Load() {
			continue
		}
		if time.Since(*since) > noticedWithin {
			overdue++
		}
		c.reset()
	}
	return overdue
}

// counts are the numbers of a network.
type counts struct{ open, established, refused, cuts, lost int }

func (n *network) counts() counts {
	n.mu.Lock()
	defer n.mu.Unlock()
	return counts{len(n.open), n.established, n.refused, n.cuts, n.lost}
}
