// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"context"
	"sync"
	"syscall"
	"time"
)

const (
	// streamsPerConnection is what kube-apiserver 1.36 allows by default
	// (k8s.io/apiserver pkg/server/secure_serving.go).
	streamsPerConnection = 100
	// dialTime is that of TCP and TLS, roundTrip that of a request.
	dialTime  = 5 * time.Millisecond
	roundTrip = time.Millisecond
)

// node is a client with connections of its own.
type node struct {
	cluster *cluster
	hand    []int

	mu          sync.Mutex
	connections []*connection
	opening     int
}

// connection leads to one life of one server.
type connection struct {
	server  *server
	life    chan struct{}
	dialled time.Time // when it is
	streams int       // guarded by node.mu
}

func newNode(c *cluster) *node {
	return &node{cluster: c, hand: deal(c.servers[0].options)}
}

// open opens a stream, and returns the connection that it lives on.
func (n *node) open(ctx context.Context) (*connection, error) {
	conn := n.begin()
	defer n.finish()
	if conn == nil {
		n.cluster.refuse()
		if err := pause(ctx, nil, roundTrip); err != nil {
			return nil, err
		}
		return nil, syscall.ECONNREFUSED
	}
	err := pause(ctx, conn.life, max(0, time.Until(conn.dialled))+roundTrip)
	if err == nil {
		err = conn.server.open(ctx, conn.life, n.hand)
	}
	if err != nil {
		n.leave(conn)
		return nil, err
	}
	return conn, nil
}

// begin returns a connection with a place for one more stream, nil if no server
// is up.
func (n *node) begin() *connection {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.opening++
	n.cluster.attempt(n.opening)
	alive := n.connections[:0]
	for _, conn := range n.connections {
		if conn.server.life() == conn.life {
			alive = append(alive, conn)
		}
	}
	n.connections = alive
	for _, conn := range n.connections {
		if conn.streams < streamsPerConnection {
			conn.streams++
			return conn
		}
	}
	server, life := n.cluster.balance()
	if server == nil {
		return nil
	}
	conn := &connection{server: server, life: life, dialled: time.Now().Add(dialTime), streams: 1}
	n.connections = append(n.connections, conn)
	return conn
}

func (n *node) finish() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.opening--
}

// leave gives back a stream's place.
func (n *node) leave(conn *connection) {
	n.mu.Lock()
	defer n.mu.Unlock()
	conn.streams--
}
