// SPDX-License-Identifier: Apache-2.0

package network

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// Conn is a connection of a [Network], between the client and the connection to the server. Faults may be injected at
// any time and from any goroutine; none can be undone, except that of Slow.
type Conn struct {
	net.Conn

	network *Network
	number  int
	// silence blocks the reads of a frozen connection whose server has closed it: nothing ever arrives.
	silence net.Conn
	closed  chan struct{} // closed by Close
	close   sync.Once

	mu       sync.Mutex
	end      error     // what reads return once the connection was reset or ended
	frozen   time.Time // zero: not frozen
	readable int       // so many bytes until the connection is reset; negative: no limit
	rate     int       // bytes per second; 0: no limit
}

func newConn(n *Network, number int, inner net.Conn) *Conn {
	silence, _ := net.Pipe()
	return &Conn{Conn: inner, network: n, number: number, silence: silence, closed: make(chan struct{}), readable: -1}
}

// Number returns the number of its dial. Behind n backends, that of its backend is the remainder of a division by n.
func (c *Conn) Number() int { return c.number }

// Reset resets the connection: the client's reads and writes fail with ECONNRESET, and with TCP the server's too. What
// is under way is lost.
func (c *Conn) Reset() {
	if tcp, ok := c.Conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // Close sends RST
	}
	c.finish(syscall.ECONNRESET)
}

// End ends the connection as if the server had closed it: the client reads EOF, and the server too.
func (c *Conn) End() {
	c.finish(io.EOF)
}

// finish closes the connection to the server. From then on reads return err.
func (c *Conn) finish(err error) {
	c.mu.Lock()
	if c.end == nil {
		c.end = err
	}
	c.mu.Unlock()
	_ = c.Conn.Close()
	_ = c.silence.Close()
}

// ResetAfter resets the connection when the client has read n more bytes.
func (c *Conn) ResetAfter(n int) {
	c.mu.Lock()
	c.readable = n
	c.mu.Unlock()
	if n <= 0 {
		c.Reset()
	}
}

// Freeze makes the connection half open, as a firewall does that has lost its state: what client and server write is
// lost, without an error, and the client does not notice that the server closes the connection. When the client closes
// it, the server does notice, so that nothing of it is left.
func (c *Conn) Freeze() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.frozen.IsZero() {
		c.frozen = time.Now()
	}
}

// Frozen returns when the connection was frozen, and false if it is not, or was reset or ended.
func (c *Conn) Frozen() (since time.Time, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.frozen, !c.frozen.IsZero() && c.end == nil
}

// Slow lets the client read at most so many bytes in a second. Zero ends the limit.
func (c *Conn) Slow(bytesPerSecond int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rate = bytesPerSecond
}

// Read implements net.Conn.
func (c *Conn) Read(p []byte) (int, error) {
	for {
		n, err := c.read(p)
		switch _, frozen := c.Frozen(); {
		case !frozen:
			return n, c.errorOf("read", err)
		case err == nil: // lost
		case errors.Is(err, os.ErrDeadlineExceeded), c.isClosed():
			return 0, err
		default:
			_, err = c.silence.Read(p)
			return 0, c.errorOf("read", err)
		}
	}
}

// read reads within the limits.
func (c *Conn) read(p []byte) (int, error) {
	c.mu.Lock()
	limit, rate := c.readable, c.rate
	c.mu.Unlock()
	if limit > 0 {
		p = p[:min(len(p), limit)]
	}
	if rate > 0 {
		p = p[:min(len(p), max(1, rate/10))]
	}
	n, err := c.Conn.Read(p)
	if rate > 0 && n > 0 {
		select {
		case <-time.After(time.Duration(n) * time.Second / time.Duration(rate)):
		case <-c.closed:
		}
	}
	c.mu.Lock()
	reset := false
	if c.readable > 0 {
		c.readable -= min(n, c.readable)
		reset = c.readable == 0
	}
	c.mu.Unlock()
	if reset {
		c.Reset()
	}
	return n, err
}

// Write implements net.Conn.
func (c *Conn) Write(p []byte) (int, error) {
	if _, frozen := c.Frozen(); frozen && !c.isClosed() {
		return len(p), nil
	}
	n, err := c.Conn.Write(p)
	return n, c.errorOf("write", err)
}

// errorOf returns err, or why the network has closed the connection. A read then returns io.EOF or a reset, a write a
// reset.
func (c *Conn) errorOf(op string, err error) error {
	c.mu.Lock()
	end := c.end
	c.mu.Unlock()
	switch {
	case err == nil, end == nil, c.isClosed():
		return err
	case op == "read" && errors.Is(end, io.EOF):
		return io.EOF
	}
	return &net.OpError{Op: op, Net: "tcp", Addr: c.RemoteAddr(), Err: os.NewSyscallError(op, syscall.ECONNRESET)}
}

// SetDeadline implements net.Conn.
func (c *Conn) SetDeadline(t time.Time) error {
	_ = c.silence.SetDeadline(t)
	return c.Conn.SetDeadline(t)
}

// SetReadDeadline implements net.Conn.
func (c *Conn) SetReadDeadline(t time.Time) error {
	_ = c.silence.SetReadDeadline(t)
	return c.Conn.SetReadDeadline(t)
}

func (c *Conn) isClosed() bool {
	select {
	case <-c.closed:
		return true
	default:
		return false
	}
}

// Close implements net.Conn.
func (c *Conn) Close() error {
	c.close.Do(func() {
		close(c.closed)
		_ = c.silence.Close()
		c.network.forget(c)
	})
	return c.Conn.Close()
}
