// SPDX-License-Identifier: Apache-2.0

package h2

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// stuckConn is a connection whose writes wait for its end or their deadline once it is stuck.
type stuckConn struct {
	net.Conn
	stuck  *atomic.Bool
	nobody net.Conn // reads nothing
}

func (c *stuckConn) Write(p []byte) (int, error) {
	if c.stuck.Load() {
		return c.nobody.Write(p)
	}
	return c.Conn.Write(p)
}

func (c *stuckConn) SetWriteDeadline(t time.Time) error {
	_ = c.nobody.SetWriteDeadline(t)
	return c.Conn.SetWriteDeadline(t)
}

func (c *stuckConn) Close() error {
	_ = c.nobody.Close()
	return c.Conn.Close()
}

// TLS announces the end of a connection to the server. CloseIdleConnections does not wait
// for a server that does not read, and neither do requests that come meanwhile.
func TestCloseIdleConnectionsDoesNotWaitForServers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := serve(t, nil)
		config := server.config()
		var stuck atomic.Bool
		config.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			c, err := server.dial(ctx, network, address)
			if err != nil || stuck.Load() {
				return c, err
			}
			nobody, other := net.Pipe()
			context.AfterFunc(t.Context(), func() { _ = other.Close() })
			return &stuckConn{c, &stuck, nobody}, nil
		}
		c := clientFor(t, config)
		_ = c.watch().Body.Close()
		synctest.Wait()
		stuck.Store(true)
		start := time.Now()
		c.transport.CloseIdleConnections()
		c.watch()
		if waited := time.Since(start); waited > 0 {
			t.Errorf("waited for %v, want no wait", waited)
		}
		time.Sleep(time.Minute)
	})
}
