// SPDX-License-Identifier: Apache-2.0

package h2

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
)

type dialFunc = func(ctx context.Context, network, address string) (net.Conn, error)

// dials counts the dials of a network that does not answer.
type dials struct{ begun, open atomic.Int32 }

// connecting waits until its context ends.
func (d *dials) connecting(ctx context.Context, _, _ string) (net.Conn, error) {
	d.begun.Add(1)
	d.open.Add(1)
	defer d.open.Add(-1)
	<-ctx.Done()
	return nil, ctx.Err()
}

// silent returns a connection to nowhere.
func (d *dials) silent(context.Context, string, string) (net.Conn, error) {
	d.begun.Add(1)
	d.open.Add(1)
	client, _ := net.Pipe()
	return &countedConn{Conn: client, closed: sync.OnceFunc(func() { d.open.Add(-1) })}, nil
}

type countedConn struct {
	net.Conn
	closed func()
}

func (c *countedConn) Close() error {
	c.closed()
	return c.Conn.Close()
}

// cuttable is a network that loses everything after cut.
type cuttable struct {
	site *site

	mu    sync.Mutex
	lost  bool
	conns []*lossyConn
}

func (n *cuttable) dial(ctx context.Context, network, address string) (net.Conn, error) {
	c, err := n.site.dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	lossy := &lossyConn{Conn: c, network: n}
	n.conns = append(n.conns, lossy)
	return lossy, nil
}

func (n *cuttable) cut() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.lost = true
}

func (n *cuttable) isCut() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.lost
}

func (n *cuttable) close() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, c := range n.conns {
		_ = c.Conn.Close()
	}
}

// lossyConn loses what is written after the cut.
type lossyConn struct {
	net.Conn
	network *cuttable
}

func (c *lossyConn) Write(p []byte) (int, error) {
	if c.network.isCut() {
		return len(p), nil
	}
	return c.Conn.Write(p)
}
