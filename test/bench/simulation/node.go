// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"context"
	"math/rand/v2"
	"slices"
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

// node is a client with connections of its own. Its fields are guarded by cluster.mu.
type node struct {
	cluster     *cluster
	flow        uint64 // from which servers choose its queues
	connections []*connection
	opening     int
}

// connection is a connection to a server, until that stops.
type connection struct {
	server  *server
	dialled time.Time // when dialling is done
	streams int       // guarded by cluster.mu
}

func newNode(c *cluster) *node { return &node{cluster: c, flow: rand.Uint64()} }

// open opens a stream and returns its connection.
func (n *node) open(ctx context.Context) (*connection, error) {
	conn := n.begin()
	defer n.cluster.count(func(*Outcome) { n.opening-- })
	if conn == nil {
		if err := pause(ctx, roundTrip); err != nil {
			return nil, err
		}
		return nil, syscall.ECONNREFUSED
	}
	ctx, cancel := conn.server.bind(ctx)
	defer cancel()
	err := pause(ctx, max(0, time.Until(conn.dialled))+roundTrip)
	if err == nil {
		err = conn.server.open(ctx, n.flow)
	}
	if err != nil {
		n.cluster.count(func(*Outcome) { conn.streams-- })
		return nil, err
	}
	return conn, nil
}

// begin returns a connection with room for one more stream, or nil if no server is up.
func (n *node) begin() (conn *connection) {
	n.cluster.count(func(o *Outcome) {
		n.opening++
		o.Attempts++
		o.PeakNode = max(o.PeakNode, n.opening)
		if conn = n.connectionLocked(); conn == nil {
			o.Refused++
			return
		}
		conn.streams++
	})
	return conn
}

func (n *node) connectionLocked() *connection {
	n.connections = slices.DeleteFunc(n.connections, func(conn *connection) bool { return conn.server.life.Err() != nil })
	for _, conn := range n.connections {
		if conn.streams < streamsPerConnection {
			return conn
		}
	}
	server := n.cluster.balanceLocked()
	if server == nil {
		return nil
	}
	conn := &connection{server: server, dialled: time.Now().Add(dialTime)}
	n.connections = append(n.connections, conn)
	return conn
}
