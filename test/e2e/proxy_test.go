// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// pipes is a listener in memory, so that a proxy can run in a testing/synctest bubble.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func newPipes() *pipes { return &pipes{conns: make(chan net.Conn), done: make(chan struct{})} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case conn := <-p.conns:
		return conn, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.done) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipes"} }

func (p *pipes) dial(ctx context.Context) (net.Conn, error) {
	near, far := net.Pipe()
	select {
	case p.conns <- far:
		return near, nil
	case <-p.done:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// rig is a proxy between a client and a server in one bubble.
type rig struct {
	proxy         *Proxy
	front, server *pipes
}

func inBubble(t *testing.T, test func(*testing.T, rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := rig{front: newPipes(), server: newPipes()}
		r.proxy = newProxy(r.front, r.server.dial)
		defer r.proxy.close()
		test(t, r)
	})
}

// connect returns both ends of a connection through the proxy.
func (r rig) connect(t *testing.T) (client, server net.Conn) {
	t.Helper()
	client = r.dial(t)
	server, err := r.server.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	return client, server
}

func (r rig) dial(t *testing.T) net.Conn {
	t.Helper()
	client, err := r.front.dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// send writes without waiting for a reader.
func send(to net.Conn, text string) { go func() { _, _ = io.WriteString(to, text) }() }

// arrives reads the text, and returns how long that took in virtual time.
func arrives(t *testing.T, at net.Conn, text string) time.Duration {
	t.Helper()
	start := time.Now()
	got := make([]byte, len(text))
	if n, err := io.ReadFull(at, got); err != nil || string(got) != text {
		t.Fatalf("got %d bytes and error %v, want the text that was sent", n, err)
	}
	return time.Since(start)
}

// silent fails if a byte or the end arrives within an hour.
func silent(t *testing.T, at net.Conn) {
	t.Helper()
	_ = at.SetReadDeadline(time.Now().Add(time.Hour))
	n, err := at.Read(make([]byte, 1))
	if ne := net.Error(nil); !errors.As(err, &ne) || !ne.Timeout() {
		t.Errorf("got %d bytes and error %v, want nothing for an hour", n, err)
	}
	_ = at.SetReadDeadline(time.Time{})
}

func wantEnd(t *testing.T, at net.Conn) {
	t.Helper()
	if n, err := at.Read(make([]byte, 1)); err == nil || n != 0 {
		t.Errorf("got %d bytes and %v, want the end", n, err)
	}
}

func TestProxyForwards(t *testing.T) {
	inBubble(t, func(t *testing.T, r rig) {
		client, server := r.connect(t)
		long := strings.Repeat("0123456789", chunk)
		send(client, long)
		send(server, "answer")
		if took := arrives(t, server, long) + arrives(t, client, "answer"); took != 0 {
			t.Errorf("got it after %v, want at once", took)
		}
		_ = server.Close()
		wantEnd(t, client)
	})
}

// Both connections end when one of them does, or when the server cannot be reached.
func TestProxyEnds(t *testing.T) {
	inBubble(t, func(t *testing.T, r rig) {
		client, server := r.connect(t)
		_ = client.Close()
		wantEnd(t, server)
		_ = r.server.Close()
		wantEnd(t, r.dial(t))
		synctest.Wait()
		if n := len(r.proxy.links); n != 0 {
			t.Errorf("got %d links, want none", n)
		}
	})
}

func TestProxyCut(t *testing.T) {
	inBubble(t, func(t *testing.T, r rig) {
		client, server := r.connect(t)
		other, _ := r.connect(t)
		r.proxy.Delay(time.Hour)
		send(client, "lost")
		synctest.Wait() // the bytes are being delayed
		r.proxy.Cut()
		for _, conn := range []net.Conn{client, server, other} {
			wantEnd(t, conn)
		}
		r.proxy.Reset()
		client, server = r.connect(t)
		send(client, "new")
		arrives(t, server, "new")
	})
}

// A delay is exact and applies in both directions. A change applies to bytes that are being delayed.
func TestProxyDelay(t *testing.T) {
	inBubble(t, func(t *testing.T, r rig) {
		client, server := r.connect(t)
		r.proxy.Delay(time.Minute)
		send(client, "question")
		if took := arrives(t, server, "question"); took != time.Minute {
			t.Errorf("to the server: got %v, want 1m", took)
		}
		send(server, "answer")
		if took := arrives(t, client, "answer"); took != time.Minute {
			t.Errorf("to the client: got %v, want 1m", took)
		}
		for name, test := range map[string]struct {
			change func()
			want   time.Duration
		}{
			"off":     {func() { r.proxy.Delay(0) }, 10 * time.Second},
			"shorter": {func() { r.proxy.Delay(30 * time.Second) }, 30 * time.Second},
			"longer":  {func() { r.proxy.Delay(time.Hour) }, time.Hour},
		} {
			r.proxy.Delay(time.Minute)
			send(client, name)
			time.AfterFunc(10*time.Second, test.change)
			if took := arrives(t, server, name); took != test.want {
				t.Errorf("%s after 10s: got %v, want %v", name, took, test.want)
			}
		}
	})
}

// A throttle limits the rate of each direction.
func TestProxyThrottle(t *testing.T) {
	inBubble(t, func(t *testing.T, r rig) {
		client, server := r.connect(t)
		r.proxy.Throttle(1000)
		up, down := strings.Repeat("x", 20_000), strings.Repeat("y", 20_000)
		send(client, up)
		send(server, down)
		var both sync.WaitGroup
		both.Go(func() {
			if took := arrives(t, client, down).Round(time.Second); took != 20*time.Second {
				t.Errorf("to the client: got %v, want 20s", took)
			}
		})
		if took := arrives(t, server, up).Round(time.Second); took != 20*time.Second {
			t.Errorf("to the server: got %v, want 20s", took)
		}
		both.Wait()

		send(client, up)
		time.AfterFunc(5*time.Second, r.proxy.Reset)
		if took := arrives(t, server, up).Round(time.Second); took != 5*time.Second {
			t.Errorf("reset after 5s: got %v, want 5s", took)
		}
	})
}

// In a black hole bytes are dropped, and no end is notified. A connection that was in it stays lost.
func TestProxyBlackHole(t *testing.T) {
	inBubble(t, func(t *testing.T, r rig) {
		client, server := r.connect(t)
		closed, other := r.connect(t)
		r.proxy.BlackHole(true)
		for range 3 { // the proxy reads them, so that no buffer fills up
			if _, err := io.WriteString(client, "lost"); err != nil {
				t.Errorf("client: got error %v, want the bytes dropped", err)
			}
			if _, err := io.WriteString(server, "lost"); err != nil {
				t.Errorf("server: got error %v, want the bytes dropped", err)
			}
		}
		_ = closed.Close()
		silent(t, other)
		silent(t, client)
		silent(t, server)

		opened := r.dial(t)
		if _, err := io.WriteString(opened, "lost"); err != nil {
			t.Errorf("new connection: got error %v, want the bytes dropped", err)
		}
		r.proxy.BlackHole(false)
		silent(t, opened)
		if _, err := io.WriteString(client, "lost"); err != nil {
			t.Errorf("client afterwards: got error %v, want the bytes dropped", err)
		}
		silent(t, server)

		after, reached := r.connect(t)
		send(after, "found")
		arrives(t, reached, "found")
		r.proxy.Cut()
		for _, conn := range []net.Conn{client, server, other, opened} {
			wantEnd(t, conn)
		}
	})
}

// A black hole drops bytes that are being delayed, also if the delay ends.
func TestProxyBlackHoleDuringDelay(t *testing.T) {
	inBubble(t, func(t *testing.T, r rig) {
		client, server := r.connect(t)
		r.proxy.Delay(time.Minute)
		send(client, "lost")
		synctest.Wait()
		r.proxy.BlackHole(true)
		r.proxy.Reset()
		silent(t, server)
	})
}

// close ends connections that are being dialed, delayed or accepted late.
func TestProxyClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		front, server := newPipes(), newPipes()
		proxy := newProxy(front, server.dial)
		dialing, err := front.dial(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait() // the server does not accept
		proxy.close()
		wantEnd(t, dialing)
		if _, err := front.dial(t.Context()); !errors.Is(err, net.ErrClosed) {
			t.Errorf("got %v, want %v", err, net.ErrClosed)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		late, conn := net.Pipe()
		proxy.serve(ctx, conn)
		wantEnd(t, late)
	})
}
