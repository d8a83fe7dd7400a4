// SPDX-License-Identifier: Apache-2.0

package h2

import (
	"crypto/tls"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
)

// One goroutine, as a worker of a Gate is, closes streams and returns credit on several
// connections. It waits for none whose server does not read: neither if a request is
// being written, nor if there is only no room in the buffers. The server learns of all
// of it when it reads again.
func TestCloseAndConsumedDoNotWait(t *testing.T) {
	for name, fill := range map[string]func(*exchange){
		"a request is being written": func(e *exchange) { e.wire.fill(); e.getAs("/", readAll) },
		"nothing is being written":   func(e *exchange) { e.wire.fill() },
	} {
		t.Run(name, eachOwn(func(t *testing.T, kind clientKind) {
			connections, streams := openStreams(t, kind)
			for i, e := range connections {
				if i > 0 {
					fill(e)
				}
				e.wait()
			}
			start := time.Now()
			for _, s := range streams {
				s.resp.Body.(Body).Consumed(len(s.body()))
				s.close()
			}
			if took := time.Since(start); took > 0 {
				t.Errorf("the worker waited for %v", took)
			}
			for i, e := range connections {
				e.wire.unfill()
				e.wait()
				for _, id := range []uint32{1, 3, 5} {
					if got := e.resets(id); len(got) != 1 || got[0] != http2.ErrCodeCancel {
						t.Errorf("connection %d, stream %d: got RST_STREAM %v, want one with CANCEL", i, id, got)
					}
					if got := e.credit(id); got == 0 {
						t.Errorf("connection %d, stream %d: got no credit", i, id)
					}
				}
				if got, want := len(e.pingsSent()), 1; got != want {
					t.Errorf("connection %d: got %d PINGs, want %d", i, got, want)
				}
			}
		}))
	}
}

// openStreams opens three streams on each of three connections, whose data nobody has
// consumed.
func openStreams(t *testing.T, kind clientKind) (connections []*exchange, streams []opened) {
	for range 3 {
		e := newExchange(t, kind)
		connections = append(connections, e)
		for _, path := range []string{"/a", "/b", "/c"} {
			s := e.openAs(path, delay)
			e.data(s.id, string(make([]byte, e.streamWindow()/2)))
			e.wait()
			streams = append(streams, s)
		}
	}
	return connections, streams
}

// Neither the last stream of a connection that takes no new ones, which closes it, nor CloseIdleConnections waits for
// TLS, which announces the end to a server that may not read.
func TestEndOfAConnectionIsNotWaitedFor(t *testing.T) {
	for name, end := range map[string]func(e *exchange, v opened){
		"the last stream": func(e *exchange, v opened) { e.goAway(v.id, http2.ErrCodeNo); e.wait(); v.close() },
		"an idle one":     func(e *exchange, _ opened) { e.conn().close() },
	} {
		t.Run(name, func(t *testing.T) {
			withConn(t, func(t *testing.T, e *exchange) {
				v := e.open("/v")
				c := e.conn()
				c.mu.Lock()
				c.net = &slowClose{Conn: c.net}
				c.mu.Unlock()
				start := time.Now()
				end(e, v)
				if took := time.Since(start); took > 0 {
					t.Errorf("waited for %v", took)
				}
				<-c.done
				if took, want := time.Since(start), 5*time.Second; took != want {
					t.Errorf("the connection ended after %v, want %v", took, want)
				}
			})
		})
	}
}

// A connection that fails ends its streams at once. TLS would wait 5 s to write its alert to a server that does not
// read.
func TestFailedConnectionDoesNotWaitForTLS(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up, down := memPipe(1 << 20)
		certificate := newAuthority(t).issue(t, "server")
		server := tls.Server(down, &tls.Config{Certificates: []tls.Certificate{certificate}})
		e := &exchange{kind: ownKinds()[1], wire: down, script: newScript(t, server, true)}
		client := tls.Client(up, &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // the name does not matter
		check(t, client.Handshake())
		e.client = dialConn(t, client)
		t.Cleanup(e.finish)
		e.accept()
		v, other := e.open("/v"), e.open("/other")
		e.wire.fill()
		v.close()
		time.Sleep(15*time.Second - 1)
		e.wait()
		other.wantEnd(t, "open", "in less than 15 s")
		time.Sleep(time.Nanosecond)
		e.wait()
		other.wantEnd(t, "error", "after the write's deadline")
	})
}

// slowClose is a connection whose TLS alert finds no room in the buffers.
type slowClose struct {
	net.Conn
	alert sync.Once
}

func (c *slowClose) Close() error {
	c.alert.Do(func() { time.Sleep(5 * time.Second) })
	return c.Conn.Close()
}

// A server that never reads again is given up after 15 s, also if nothing but the queue
// is to be written. Until then, the queue holds little.
func TestQueueOfAServerThatDoesNotRead(t *testing.T) {
	forEachOwn(t, func(t *testing.T, kind clientKind) {
		e := newExchange(t, kind)
		neighbour := e.open("/n")
		v := e.openAs("/v", delay)
		e.wire.fill()
		body := v.resp.Body.(Body)
		for range e.streamWindow() / (16 << 10) {
			e.data(v.id, string(make([]byte, 16<<10)))
			e.wait()
			for range 16 {
				body.Consumed(1 << 10)
			}
		}
		c := e.conn()
		c.mu.Lock()
		got := c.queue.Len()
		c.mu.Unlock()
		if got > 1<<10 {
			t.Errorf("got %d bytes in the queue after a window of data, want at most 1 KiB", got)
		}
		time.Sleep(15 * time.Second)
		e.wait()
		neighbour.wantEnd(t, "error", "after the write's deadline")
	})
}
