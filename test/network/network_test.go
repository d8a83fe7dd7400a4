// SPDX-License-Identifier: Apache-2.0

package network_test

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/refwatch/refwatch/test/network"
)

// overPipe runs a test in a bubble, where connections are pipes, and overTCP on a loopback socket. The test gets a
// network and what a server accepts.
func overPipe(t *testing.T, test func(*testing.T, *network.Network, <-chan net.Conn)) {
	t.Run("pipe", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			accepted := make(chan net.Conn, 8)
			test(t, network.New(func(context.Context, string, string) (net.Conn, error) {
				client, server := net.Pipe()
				accepted <- server
				return client, nil
			}), accepted)
		})
	})
}

func overTCP(t *testing.T, test func(*testing.T, *network.Network, <-chan net.Conn)) {
	t.Run("tcp", func(t *testing.T) {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = listener.Close() }()
		accepted := make(chan net.Conn, 8)
		test(t, network.New(func(ctx context.Context, _, _ string) (net.Conn, error) {
			client, err := new(net.Dialer).DialContext(ctx, "tcp", listener.Addr().String())
			if err != nil {
				return nil, err
			}
			server, err := listener.Accept()
			accepted <- server
			return client, err
		}), accepted)
	})
}

func over(t *testing.T, test func(*testing.T, *network.Network, <-chan net.Conn)) {
	overPipe(t, test)
	overTCP(t, test)
}

// connect dials a connection, and returns both ends of it.
func connect(t *testing.T, n *network.Network, accepted <-chan net.Conn) (*network.Conn, net.Conn) {
	t.Helper()
	client, err := n.Dial(t.Context(), "tcp", "server:443")
	if err != nil {
		t.Fatal(err)
	}
	server := <-accepted
	t.Cleanup(func() { _, _ = client.Close(), server.Close() })
	return client.(*network.Conn), server
}

func read(c net.Conn, n int) (string, error) {
	p := make([]byte, n)
	got, err := c.Read(p)
	return string(p[:got]), err
}

// TestReset checks that a reset fails a read that waits, later reads and writes with ECONNRESET, and that the server
// notices.
func TestReset(t *testing.T) {
	over(t, func(t *testing.T, n *network.Network, accepted <-chan net.Conn) {
		client, server := connect(t, n, accepted)
		failed := make(chan error)
		go func() { _, err := read(client, 1); failed <- err }()
		n.Each((*network.Conn).Reset)
		if err := <-failed; !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("read: got %v, want ECONNRESET", err)
		}
		if _, err := client.Write([]byte("x")); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("write: got %v, want ECONNRESET", err)
		}
		_, err := read(server, 1)
		if _, tcp := server.(*net.TCPConn); tcp != errors.Is(err, syscall.ECONNRESET) || err == nil {
			t.Errorf("server: got %v, want an error, over TCP ECONNRESET", err)
		}
		if got := n.Counts(); got != (network.Counts{Dials: 1, Open: 1}) {
			t.Errorf("got %+v, want a connection that the client has not closed", got)
		}
		if next, _ := connect(t, n, accepted); client.Number() != 0 || next.Number() != 1 {
			t.Errorf("got numbers %d and %d, want 0 and 1", client.Number(), next.Number())
		} else {
			_ = next.Close()
		}
		_ = client.Close()
		if got := n.Counts(); got != (network.Counts{Dials: 2}) {
			t.Errorf("got %+v, want none open", got)
		}
	})
}

// TestEnd checks that both ends of an ended connection read EOF.
func TestEnd(t *testing.T) {
	over(t, func(t *testing.T, n *network.Network, accepted <-chan net.Conn) {
		client, server := connect(t, n, accepted)
		client.End()
		for name, c := range map[string]net.Conn{"client": client, "server": server} {
			if _, err := read(c, 1); !errors.Is(err, io.EOF) {
				t.Errorf("%s: got %v, want EOF", name, err)
			}
		}
	})
}

// TestResetAfter checks that the client gets so many bytes and no more.
func TestResetAfter(t *testing.T) {
	over(t, func(t *testing.T, n *network.Network, accepted <-chan net.Conn) {
		n.OnConnect(func(c *network.Conn) { c.ResetAfter(5) })
		client, server := connect(t, n, accepted)
		go func() { _, _ = server.Write([]byte("abcdefgh")) }()
		got, err := io.ReadAll(client)
		if string(got) != "abcde" || !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("got %q, %v, want the first five bytes and ECONNRESET", got, err)
		}
		n.OnConnect(nil)
		client, server = connect(t, n, accepted)
		go func() { _, _ = server.Write([]byte("abcdefgh")); _ = server.Close() }()
		if got, err := io.ReadAll(client); string(got) != "abcdefgh" || err != nil {
			t.Errorf("got %q, %v, want all bytes", got, err)
		}
		client, _ = connect(t, n, accepted)
		client.ResetAfter(0)
		if _, err := read(client, 1); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("after no byte: got %v, want ECONNRESET", err)
		}
	})
}

// TestFreeze checks that neither end of a frozen connection gets anything or an error, even when the server closes it,
// that deadlines still hold, and that the server notices when the client closes it.
func TestFreeze(t *testing.T) {
	for name, closes := range map[string]bool{"server stays": false, "server closes": true} {
		t.Run(name, func(t *testing.T) {
			overPipe(t, func(t *testing.T, n *network.Network, accepted <-chan net.Conn) {
				client, server := connect(t, n, accepted)
				frozen := time.Now()
				client.Freeze()
				if since, ok := client.Frozen(); !ok || !since.Equal(frozen) {
					t.Errorf("got frozen %v since %v", ok, since)
				}
				failed := make(chan error, 1)
				go func() { _, err := read(client, 1); failed <- err }()
				if _, err := server.Write([]byte("lost")); err != nil {
					t.Error(err)
				}
				if closes {
					_ = server.Close()
				}
				if _, err := client.Write([]byte("lost")); err != nil {
					t.Errorf("write: got %v, want no error", err)
				}
				time.Sleep(time.Hour)
				select {
				case err := <-failed:
					t.Errorf("read: got %v, want none to return", err)
				default:
				}
				_ = client.Close()
				if err := <-failed; err == nil {
					t.Error("read of a closed connection: got no error")
				}
				if _, err := read(server, 1); err == nil {
					t.Error("server: got a byte, want the end")
				}
			})
			over(t, func(t *testing.T, n *network.Network, accepted <-chan net.Conn) {
				client, server := connect(t, n, accepted)
				client.Freeze()
				if closes {
					_ = server.Close()
				}
				_ = client.SetReadDeadline(time.Now().Add(time.Millisecond))
				if _, err := read(client, 1); !errors.Is(err, os.ErrDeadlineExceeded) {
					t.Errorf("got %v, want ErrDeadlineExceeded", err)
				}
				_ = client.SetDeadline(time.Time{})
				failed := make(chan error)
				go func() { _, err := read(client, 1); failed <- err }()
				client.Reset()
				if err := <-failed; !errors.Is(err, syscall.ECONNRESET) {
					t.Errorf("reset: got %v, want ECONNRESET", err)
				}
				if _, ok := client.Frozen(); ok {
					t.Error("a reset connection: got frozen")
				}
			})
		})
	}
}

// TestSlow checks how long the bytes of a slow connection take.
func TestSlow(t *testing.T) {
	overPipe(t, func(t *testing.T, n *network.Network, accepted <-chan net.Conn) {
		client, server := connect(t, n, accepted)
		client.Slow(100)
		go func() {
			_, _ = server.Write(make([]byte, 2000))
			_ = server.Close()
		}()
		began := time.Now()
		if _, err := io.ReadFull(client, make([]byte, 1000)); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took != 10*time.Second {
			t.Errorf("got 1,000 bytes in %v, want 10 s", took)
		}
		client.Slow(0)
		if _, err := io.ReadAll(client); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took != 10*time.Second {
			t.Errorf("got the next 1,000 bytes in %v, want at once", took-10*time.Second)
		}
	})
}

// TestDialFaults checks what a client gets from the dials of dead hosts, and what is counted.
func TestDialFaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := network.New()
		dial := func(ctx context.Context, d network.Dial) (net.Conn, error) {
			n.OnDial(func(int) network.Dial { return d })
			return n.Dial(ctx, "tcp", "server:443")
		}
		if _, err := dial(t.Context(), network.Refuse); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("Refuse: got %v, want ECONNREFUSED", err)
		}
		began := time.Now()
		var timeout net.Error
		if _, err := dial(t.Context(), network.Hang); !errors.As(err, &timeout) || !timeout.Timeout() || time.Since(began) != 30*time.Second {
			t.Errorf("Hang: got %v after %v, want a time-out after 30 s", err, time.Since(began))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began = time.Now()
		if _, err := dial(ctx, network.Hang); err == nil || time.Since(began) != time.Second {
			t.Errorf("Hang: got %v after %v, want an error with the context, after 1 s", err, time.Since(began))
		}
		hungUp, err := dial(t.Context(), network.HangUp)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := read(hungUp, 1); !errors.Is(err, io.EOF) {
			t.Errorf("HangUp: got %v, want EOF", err)
		}
		if got, want := n.Counts(), (network.Counts{Dials: 4, Failed: 3, Open: 1}); got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
		_ = hungUp.Close()
	})
}

// TestBackends checks that the dials go to the backends in turn, and that OnDial replaces some of them.
func TestBackends(t *testing.T) {
	var got []int
	backend := func(i int) network.Dial {
		return func(context.Context, string, string) (net.Conn, error) {
			got = append(got, i)
			return nil, io.ErrUnexpectedEOF
		}
	}
	n := network.New(backend(0), backend(1), backend(2))
	dial := func(times int) {
		for range times {
			_, _ = n.Dial(t.Context(), "tcp", "server:443")
		}
	}
	dial(4)
	n.OnDial(func(number int) network.Dial {
		if number%3 == 1 {
			return network.Refuse
		}
		return nil
	})
	dial(5)
	n.OnDial(nil)
	dial(3)
	if want := []int{0, 1, 2, 0, 2, 0, 2, 0, 1, 2}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
