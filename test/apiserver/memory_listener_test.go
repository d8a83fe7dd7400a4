// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"errors"
	"net"
	"testing"

	utilnet "k8s.io/apimachinery/pkg/util/net"
)

func TestMemoryListener(t *testing.T) {
	l := newMemoryListener()
	accepted := make(chan net.Conn, 1)
	go func() {
		conn, _ := l.Accept()
		accepted <- conn
	}()
	client, err := l.Dial(t.Context(), "tcp", "apiserver.test:80")
	check(t, err)
	server := <-accepted
	go func() { _, _ = client.Write([]byte("x")) }()
	if n, err := server.Read(make([]byte, 1)); n != 1 || err != nil {
		t.Errorf("got %d bytes, %v, want the byte that the client wrote", n, err)
	}
	_ = client.Close()
	_ = server.Close()

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := l.Dial(ctx, "tcp", ""); !errors.Is(err, context.Canceled) {
		t.Errorf("Dial without Accept: got %v, want Canceled", err)
	}
	for range 2 { // Close may be called more than once
		if err := l.Close(); err != nil {
			t.Errorf("Close: got %v, want no error", err)
		}
	}
	if _, err := l.Dial(t.Context(), "tcp", ""); !utilnet.IsConnectionRefused(err) {
		t.Errorf("Dial after Close: got %v, want connection refused", err)
	}
	if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Accept after Close: got %v, want net.ErrClosed", err)
	}
	if a := l.Addr(); a.Network() != "memory" || a.String() != "memory" {
		t.Errorf("got address %s %s, want memory", a.Network(), a)
	}
}
