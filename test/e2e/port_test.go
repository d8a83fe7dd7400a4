// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"net"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// shared listens with SO_REUSEPORT, as kube-apiserver does with --permit-port-sharing.
var shared = net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error {
	var err error
	if controlErr := raw.Control(func(fd uintptr) {
		err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1)
	}); controlErr != nil {
		return controlErr
	}
	return err
}}

// Only a server that sets SO_REUSEPORT can bind a reserved port. Without a server, connections are refused.
func TestPort(t *testing.T) {
	p, err := reservePort()
	if err != nil {
		t.Fatal(err)
	}
	var free net.ListenConfig
	for range 2 { // a server, and its restart
		if l, err := free.Listen(t.Context(), "tcp", p.addr); !errors.Is(err, syscall.EADDRINUSE) {
			t.Errorf("without SO_REUSEPORT: got listener %v and %v, want %v", l, err, syscall.EADDRINUSE)
		}
		if c, err := dial(t.Context(), p.addr); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("without a server: got connection %v and %v, want %v", c, err, syscall.ECONNREFUSED)
		}
		serveOnce(t, p.addr)
	}
	if err := p.release(); err != nil {
		t.Fatal(err)
	}
	l, err := free.Listen(t.Context(), "tcp", p.addr)
	if err != nil {
		t.Fatalf("after release: got %v, want the port free", err)
	}
	_ = l.Close()
}

func serveOnce(t *testing.T, addr string) {
	t.Helper()
	l, err := shared.Listen(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatalf("with SO_REUSEPORT: got error %v, want none", err)
	}
	defer func() { _ = l.Close() }()
	// The server gets every connection: the socket that reserves the port does not listen.
	for range 20 {
		c, err := dial(t.Context(), addr)
		if err != nil {
			t.Fatal(err)
		}
		accepted, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		_, _ = c.Close(), accepted.Close()
	}
}

func dial(ctx context.Context, addr string) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, "tcp", addr)
}
