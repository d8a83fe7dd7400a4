// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"context"
	"math/rand/v2"
	"sync"
	"syscall"
	"time"
)

const (
	// streamsPerConnection is kube-apiserver 1.36's default (k8s.io/apiserver pkg/server/secure_serving.go).
	streamsPerConnection = 100
	// dialTime is the time for TCP and TLS, roundTrip that of a request.
	dialTime  = 5 * time.Millisecond
	roundTrip = time.Millisecond
)

// node is a client with connections of its own.
type node struct {
	cluster *cluster
	hand    []int // queues of a server

	mu          sync.Mutex
	connections []*connection
	opening     int
}

// connection is a connection to one life of one server.
type connection struct {
	server  *server
	life    chan struct{}
	dialled time.Time // when dialling is done
	streams int       // guarded by node.mu
}

func newNode(c *cluster) *node {
	options := c.servers[0].options
	return &node{cluster: c, hand: rand.Perm(options.Queues)[:options.HandSize]}
}

// open opens a stream and returns its connection.
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

// begin returns a connection with room for one more stream, or nil if no server is up.
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

// leave removes a stream from its connection.
func (n *node) leave(conn *connection) {
	n.mu.Lock()
	defer n.mu.Unlock()
	conn.streams--
}
