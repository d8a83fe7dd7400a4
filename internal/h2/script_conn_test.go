// SPDX-License-Identifier: Apache-2.0

package h2

import (
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// memPipe returns the two ends of a connection in memory. Unlike those of net.Pipe,
// its writes do not wait for a reader until size bytes are unread. All that waits in it
// is durably blocked, so it works in a bubble of testing/synctest.
func memPipe(size int) (client, server *memConn) {
	up, down := newMemHalf(size), newMemHalf(1<<30)
	return &memConn{in: down, out: up}, &memConn{in: up, out: down}
}

// memConn is one end of a connection in memory.
type memConn struct{ in, out *memHalf }

func (c *memConn) Read(p []byte) (int, error)  { return c.in.read(p) }
func (c *memConn) Write(p []byte) (int, error) { return c.out.write(p) }

// Close ends both directions. The other end reads what was written before.
func (c *memConn) Close() error {
	c.in.end(net.ErrClosed, io.ErrClosedPipe)
	c.out.end(io.EOF, net.ErrClosed)
	return nil
}

// breakWith ends both directions: the other end gets err after what was written before.
func (c *memConn) breakWith(err error) {
	c.in.end(net.ErrClosed, err)
	c.out.end(err, net.ErrClosed)
}

// unread is how many bytes of memory hold what the other end has not read.
func (c *memConn) unread() int {
	c.out.mu.Lock()
	defer c.out.mu.Unlock()
	return cap(c.out.buf)
}

// stall lets Read return nothing, as a process that is stopped does.
func (c *memConn) stall(on bool) {
	c.in.mu.Lock()
	defer c.in.mu.Unlock()
	c.in.stalled = on
	c.in.changed.Broadcast()
}

// fill lets the next write of the other end wait, as if a stopped process had left its
// buffers full.
func (c *memConn) fill() {
	c.stall(true)
	c.in.mu.Lock()
	defer c.in.mu.Unlock()
	c.in.size = 0
}

// unfill ends what fill has begun.
func (c *memConn) unfill() {
	c.in.mu.Lock()
	c.in.size = 1 << 20
	c.in.mu.Unlock()
	c.stall(false)
}

func (c *memConn) LocalAddr() net.Addr  { return memAddr{} }
func (c *memConn) RemoteAddr() net.Addr { return memAddr{} }

func (c *memConn) SetDeadline(t time.Time) error {
	_ = c.SetReadDeadline(t)
	return c.SetWriteDeadline(t)
}
func (c *memConn) SetReadDeadline(t time.Time) error  { return c.in.setDeadline(&c.in.readBy, t) }
func (c *memConn) SetWriteDeadline(t time.Time) error { return c.out.setDeadline(&c.out.writeBy, t) }

type memAddr struct{}

func (memAddr) Network() string { return "memory" }
func (memAddr) String() string  { return "memory" }

// memHalf is one direction of a connection.
type memHalf struct {
	mu              sync.Mutex
	changed         *sync.Cond
	buf             []byte
	size            int
	stalled         bool
	readErr         error // what read returns once buf is empty
	writeErr        error
	readBy, writeBy deadline
}

type deadline struct {
	at    time.Time
	timer *time.Timer
}

func (d *deadline) passed() bool { return !d.at.IsZero() && !time.Now().Before(d.at) }

func newMemHalf(size int) *memHalf {
	h := &memHalf{size: size}
	h.changed = sync.NewCond(&h.mu)
	return h
}

func (h *memHalf) read(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for {
		switch {
		case h.readErr == net.ErrClosed: //nolint:errorlint // the error is this file's own
			return 0, h.readErr
		case h.readBy.passed():
			return 0, os.ErrDeadlineExceeded
		case h.stalled:
		case len(h.buf) > 0:
			n := copy(p, h.buf)
			if h.buf = h.buf[n:]; len(h.buf) == 0 {
				h.buf = nil
			}
			h.changed.Broadcast()
			return n, nil
		case h.readErr != nil:
			return 0, h.readErr
		}
		h.changed.Wait()
	}
}

func (h *memHalf) write(p []byte) (n int, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for {
		switch {
		case h.writeErr != nil:
			return n, h.writeErr
		case h.writeBy.passed():
			return n, os.ErrDeadlineExceeded
		}
		if room := h.size - len(h.buf); room > 0 {
			k := min(room, len(p))
			h.buf = append(h.buf, p[:k]...)
			n, p = n+k, p[k:]
			h.changed.Broadcast()
		}
		if len(p) == 0 {
			return n, nil
		}
		h.changed.Wait()
	}
}

// end keeps the first error of each side, except that a side that closes sees it.
func (h *memHalf) end(readErr, writeErr error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.readErr == nil || readErr == net.ErrClosed { //nolint:errorlint // the error is this file's own
		h.readErr = readErr
	}
	if h.writeErr == nil || writeErr == net.ErrClosed { //nolint:errorlint // the error is this file's own
		h.writeErr = writeErr
	}
	h.readBy.stop()
	h.writeBy.stop()
	h.changed.Broadcast()
}

func (d *deadline) stop() {
	if d.timer != nil {
		d.timer.Stop()
	}
}

func (h *memHalf) setDeadline(d *deadline, at time.Time) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	d.stop()
	d.at = at
	if !at.IsZero() {
		d.timer = time.AfterFunc(time.Until(at), func() {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.changed.Broadcast()
		})
	}
	h.changed.Broadcast()
	return nil
}
