// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"
)

// port is a free port on loopback, reserved for a server that binds it with SO_REUSEPORT.
//
// A free port that is not reserved can be taken before the server binds it, or while the server is down: the kernel may
// use it as the local port of any connection. A socket that is bound and does not listen reserves the port: connections
// are refused, and only processes of the same user that also set SO_REUSEPORT can bind it.
type port struct {
	socket int
	number int
	addr   string // host:port
}

func reservePort() (*port, error) {
	syscall.ForkLock.RLock() // no child inherits the socket
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	if err == nil {
		unix.CloseOnExec(socket)
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return nil, fmt.Errorf("reserving a port: %w", err)
	}
	number, err := bindReusable(socket)
	if err != nil {
		_ = unix.Close(socket)
		return nil, fmt.Errorf("reserving a port: %w", err)
	}
	return &port{socket: socket, number: number, addr: fmt.Sprintf("127.0.0.1:%d", number)}, nil
}

func bindReusable(socket int) (number int, err error) {
	if err := unix.SetsockoptInt(socket, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1); err != nil {
		return 0, err
	}
	if err := unix.Bind(socket, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		return 0, err
	}
	bound, err := unix.Getsockname(socket)
	if err != nil {
		return 0, err
	}
	address, ok := bound.(*unix.SockaddrInet4)
	if !ok {
		return 0, fmt.Errorf("bound to an address of type %T", bound)
	}
	return address.Port, nil
}

// release closes the socket. Call it when the server has ended.
func (p *port) release() error { return unix.Close(p.socket) }
