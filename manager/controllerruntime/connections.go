// SPDX-License-Identifier: Apache-2.0

package controllerruntime

import (
	"context"
	"net"
	"net/http"
	"sync"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"

	"github.com/refwatch/refwatch/objectcache"
)

// connections are those of the clients that NewCache makes. Without a limit they would stay open for 90 s after the
// cache has ended. One whose last stream has just ended does not count as idle yet, so they are closed as connections,
// when nothing uses them any more. Requests may be sent before Start, such as those for the resource of a kind. Start
// may never be called, so these leave no idle connection.
type connections struct {
	base http.RoundTripper // of the client for the stock cache; nil if that was passed

	mu      sync.Mutex
	started bool
	closed  bool
	open    map[*connection]struct{}
	timer   *time.Timer // nil unless a connection was made before Start
}

// idleBeforeStart is how long an idle connection may stay open before Start.
const idleBeforeStart = time.Second

// connection is removed from connections with its Close.
type connection struct {
	net.Conn

	of *connections
}

// configFor returns a config whose clients have connections of their own, which are closed with c. If it has a
// Transport, the connections belong to that, and the config is returned.
func (c *connections) configFor(config *rest.Config) *rest.Config {
	if config.Transport != nil {
		return config
	}
	config = rest.CopyConfig(config)
	dial := config.Dial
	if dial == nil {
		dial = (&net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}).DialContext // as client-go's
	}
	config.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		made, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return c.add(made)
	}
	if config.Proxy == nil {
		config.Proxy = http.ProxyFromEnvironment // the default; client-go keeps no transport with a function
	}
	return config
}

func (c *connections) add(made net.Conn) (net.Conn, error) {
	tracked := &connection{made, c}
	c.mu.Lock()
	closed := c.closed
	if !closed {
		c.open[tracked] = struct{}{}
	}
	if !c.started && c.timer == nil {
		c.timer = time.AfterFunc(idleBeforeStart, c.closeIdle)
	}
	c.mu.Unlock()
	if closed {
		_ = made.Close()
		return nil, objectcache.ErrStopped
	}
	return tracked, nil
}

// closeIdle closes idle connections, until Start or until none is open.
func (c *connections) closeIdle() {
	utilnet.CloseIdleConnectionsFor(c.base)
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.started:
	case len(c.open) == 0:
		c.timer = nil // the next connection begins another one
	default:
		c.timer.Reset(idleBeforeStart)
	}
}

// start keeps idle connections open.
func (c *connections) start() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.started = true
	if c.timer != nil {
		c.timer.Stop()
	}
}

// Close implements net.Conn.
func (c *connection) Close() error {
	c.of.mu.Lock()
	delete(c.of.open, c)
	c.of.mu.Unlock()
	return c.Conn.Close()
}

// close closes all connections. None is made from then on.
func (c *connections) close() {
	c.mu.Lock()
	open := c.open
	c.closed, c.open = true, nil
	c.mu.Unlock()
	for tracked := range open {
		_ = tracked.Conn.Close()
	}
}

// httpClientFor returns a client for the stock cache.
func (c *connections) httpClientFor(config *rest.Config) (*http.Client, error) {
	own := c.configFor(config)
	if config.Transport == nil {
		own.WrapTransport = transport.Wrappers(func(base http.RoundTripper) http.RoundTripper { // the innermost
			c.base = base
			return base
		}, own.WrapTransport)
	}
	return rest.HTTPClientFor(own)
}
