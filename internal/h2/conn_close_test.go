// SPDX-License-Identifier: Apache-2.0

package h2

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
)

// Streams are closed on a connection over TLS whose server does not read. A write that
// takes too long ends the connection, and nobody waits longer: TLS would announce the end
// to the server, which does not read that either.
func TestCloseWithAServerThatDoesNotReadOverTLS(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const requests = 20
		client, server := tlsPipe(t)
		framer := http2.NewFramer(server, server)
		go func() {
			_, _ = io.ReadFull(server, make([]byte, len(http2.ClientPreface)))
			_ = framer.WriteSettings()
			for headers := 0; headers < requests; {
				f, err := framer.ReadFrame()
				if err != nil {
					return
				}
				if f.Header().Type == http2.FrameHeaders {
					headers++
				}
			}
		}() // it reads the requests, and nothing more
		c, err := newConn(client, &eventLog{}, connOptions{})
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		var last atomic.Int64 // when a request has ended, since start
		var callers sync.WaitGroup
		var start time.Time
		for range requests {
			a := (&peer{t: t, c: c}).get(ctx)
			callers.Go(func() { <-a.done; last.Store(int64(time.Since(start))) })
		}
		synctest.Wait()
		start = time.Now()
		cancel()
		time.Sleep(time.Hour)
		select {
		case <-c.done:
		default:
			t.Error("the connection has not ended after an hour")
		}
		_ = server.NetConn().Close()
		callers.Wait()
		if took := time.Duration(last.Load()); took > 15*time.Second {
			t.Errorf("the last request ended after %v, want 15s at most", took)
		}
		<-c.done
	})
}

// tlsPipe returns the ends of a connection, after the handshake.
func tlsPipe(t *testing.T) (client, server *tls.Conn) {
	t.Helper()
	clientEnd, serverEnd := net.Pipe()
	certificate := newAuthority(t).issue(t, "server")
	server = tls.Server(serverEnd, &tls.Config{Certificates: []tls.Certificate{certificate}})
	client = tls.Client(clientEnd, &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // the name does not matter
	go func() { _ = server.Handshake() }()
	if err := client.Handshake(); err != nil {
		t.Fatal(err)
	}
	return client, server
}
