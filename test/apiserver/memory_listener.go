// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"net"
	"os"
	"sync"
	"syscall"
)

// memoryListener is a net.Listener of in-memory pipes. It has no sockets, so that no goroutine waits for anything
// outside its testing/synctest bubble.
type memoryListener struct {
	connections chan net.Conn
	closed      chan struct{}
	close       sync.Once
}

func newMemoryListener() *memoryListener {
	return &memoryListener{connections: make(chan net.Conn), closed: make(chan struct{})}
}

// Dial connects a client. After Close it returns ECONNREFUSED.
func (l *memoryListener) Dial(ctx context.Context, _, _ string) (net.Conn, error) {
	client, server := net.Pipe()
	var err error
	select {
	case l.connections <- server:
		return client, nil
	case <-l.closed:
		err = os.NewSyscallError("connect", syscall.ECONNREFUSED)
	case <-ctx.Done():
		err = ctx.Err()
	}
	_ = client.Close()
	_ = server.Close()
	return nil, &net.OpError{Op: "dial", Net: "memory", Addr: l.Addr(), Err: err}
}

func (l *memoryListener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.connections:
		return conn, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *memoryListener) Close() error {
	l.close.Do(func() { close(l.closed) })
	return nil
}

func (l *memoryListener) Addr() net.Addr { return memoryAddr{} }

type memoryAddr struct{}

func (memoryAddr) Network() string { return "memory" }
func (memoryAddr) String() string  { return "memory" }
