// SPDX-License-Identifier: Apache-2.0

package debug

import (
	"cmp"
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/client-go/rest"

	"github.com/refwatch/refwatch/internal/redact"
)

// Connections counts the connections of clients. The zero value is ready to use. Its
// methods are safe for concurrent use.
//
// It counts at net.Conn, below TLS and HTTP/2: a connection carries many streams.
type Connections struct {
	mu        sync.Mutex
	addresses map[string]*address
}

// Connection is the state of the connections to one address. Counts begin with the first
// connection.
type Connection struct {
	// Address is the host and port as they were dialled: those of the server, or of a
	// proxy.
	Address string `json:"address"`
	// Open is how many connections are open, and Oldest when the oldest of them was
	// opened.
	Open   int       `json:"open"`
	Oldest time.Time `json:"oldest,omitzero"`
	// Opened counts all that were opened, also those that are closed now.
	Opened int `json:"opened"`
	// Failures counts the failed attempts to connect, without those that the client
	// canceled. LastError is the last one, and LastErrorTime its time. Both are kept
	// after the next success.
	Failures      int       `json:"failures"`
	LastError     string    `json:"lastError,omitempty"`
	LastErrorTime time.Time `json:"lastErrorTime,omitzero"`
	// BytesReceived and BytesSent are those of all connections, with TLS.
	BytesReceived int64 `json:"bytesReceived"`
	BytesSent     int64 `json:"bytesSent"`
}

// address holds the counters of one address.
type address struct {
	received, sent atomic.Int64

	// Guarded by Connections.mu.
	open      map[*conn]time.Time // when it was opened
	opened    int
	failures  int
	lastError error
	failedAt  time.Time
}

// Track returns a copy of config. Connections of the clients made from it are counted.
// Call it before [manager.ClientFor] or resource.ConfigFor:
//
//	client, err := manager.ClientFor(connections.Track(config))
//
// Clients made from the copy share no connections with others. A config with a Transport
// of its own has its own way to connect; its connections are not counted. Track(nil)
// returns nil.
func (c *Connections) Track(config *rest.Config) *rest.Config {
	if config == nil {
		return nil
	}
	config = rest.CopyConfig(config)
	dial := config.Dial
	if dial == nil {
		// As in k8s.io/client-go/transport (tlsTransportCache.get).
		dial = (&net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}).DialContext
	}
	if config.Transport == nil {
		config.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			opened, err := dial(ctx, network, address)
			return c.count(address, opened, err)
		}
	}
	return config
}

// count counts the outcome of a dial.
func (c *Connections) count(to string, opened net.Conn, err error) (net.Conn, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	a := c.addresses[to]
	if a == nil {
		if c.addresses == nil {
			c.addresses = map[string]*address{}
		}
		a = &address{open: map[*conn]time.Time{}}
		c.addresses[to] = a
	}
	switch {
	case err == nil:
		counted := &conn{Conn: opened, address: a, connections: c}
		a.open[counted] = time.Now()
		a.opened++
		return counted, nil
	case !errors.Is(err, context.Canceled):
		a.failures++
		a.lastError, a.failedAt = redact.Bound(err), time.Now()
	}
	return nil, err
}

// Status returns the state of each address, sorted. It is not nil, also for nil
// Connections.
func (c *Connections) Status() []Connection {
	all := []Connection{}
	if c == nil {
		return all
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, a := range c.addresses {
		status := Connection{
			Address: name, Open: len(a.open), Opened: a.opened,
			Failures: a.failures, LastError: textOf(a.lastError), LastErrorTime: a.failedAt,
			BytesReceived: a.received.Load(), BytesSent: a.sent.Load(),
		}
		for _, at := range a.open {
			if status.Oldest.IsZero() || at.Before(status.Oldest) {
				status.Oldest = at
			}
		}
		all = append(all, status)
	}
	slices.SortFunc(all, func(a, b Connection) int { return cmp.Compare(a.Address, b.Address) })
	return all
}

// conn counts the bytes of a connection, and its end.
type conn struct {
	net.Conn
	address     *address
	connections *Connections
}

func (c *conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.address.received.Add(int64(n))
	return n, err
}

func (c *conn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.address.sent.Add(int64(n))
	return n, err
}

func (c *conn) Close() error {
	c.connections.mu.Lock()
	delete(c.address.open, c)
	c.connections.mu.Unlock()
	return c.Conn.Close()
}
