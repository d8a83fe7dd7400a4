// SPDX-License-Identifier: Apache-2.0

package h2

import (
	"io"

	"golang.org/x/net/http2"

	"github.com/refwatch/refwatch/internal/redact"
)

var (
	errTooMuchData   = redact.New("the body is longer than its content-length")
	errTooLittleData = redact.New("the body is shorter than its content-length")
)

// readData handles a DATA frame. The connection gets its credit back at once, the
// stream when the receiver has consumed the data.
func (c *conn) readData(f *http2.DataFrame) error {
	n := int32(f.Length)
	c.mu.Lock()
	if !c.inflow.take(n) {
		c.mu.Unlock()
		return protocolError{http2.ErrCodeFlowControl, "DATA exceeds the window of the connection"}
	}
	c.creditLocked(0, c.inflow.credit(int(n), connWindow))
	s, err := c.streamLocked(f.FrameHeader)
	if s == nil {
		c.mu.Unlock()
		return err
	}
	if err := s.acceptLocked(f); err != nil {
		c.mu.Unlock()
		return err
	}
	consumed := s.dataLocked(f.Data()) + int(n) - len(f.Data()) // padding is consumed
	if f.StreamEnded() && !s.ended {
		notify := s.endLocked(io.EOF)
		c.mu.Unlock()
		notify()
		return nil
	}
	s.creditLocked(consumed)
	c.mu.Unlock()
	return nil
}

// acceptLocked checks that the server may send a DATA frame.
func (s *stream) acceptLocked(f *http2.DataFrame) error {
	n := int64(len(f.Data()))
	switch {
	case !s.opened:
		return http2.StreamError{StreamID: s.id, Code: http2.ErrCodeProtocol, Cause: redact.New("DATA before the header")}
	case !s.inflow.take(int32(f.Length)):
		return http2.StreamError{StreamID: s.id, Code: http2.ErrCodeFlowControl, Cause: redact.New("DATA exceeds the window")}
	case s.left < 0:
		return nil
	case n > s.left:
		return http2.StreamError{StreamID: s.id, Code: http2.ErrCodeProtocol, Cause: errTooMuchData}
	}
	s.left -= n
	if f.StreamEnded() && s.left > 0 {
		return http2.StreamError{StreamID: s.id, Code: http2.ErrCodeProtocol, Cause: errTooLittleData}
	}
	return nil
}

// dataLocked passes p to the receiver, or keeps it if there is none or another
// goroutine calls it. It returns how much was consumed.
func (s *stream) dataLocked(p []byte) (consumed int) {
	switch {
	case len(p) == 0:
		return 0
	case s.receiver != nil && !s.busy:
		return s.deliverLocked(p)
	}
	s.waiter.data = append(s.waiter.data, p...)
	s.waiter.wake()
	return 0
}

// deliverLocked passes p to the receiver, then what has come while it was busy. It
// returns how much was consumed. It releases the lock during the calls, and busy keeps
// other goroutines from calling the receiver meanwhile.
func (s *stream) deliverLocked(p []byte) (consumed int) {
	r := s.receiver
	for {
		if len(p) > 0 {
			s.busy = true
			s.conn.mu.Unlock()
			n := r.Data(p)
			s.conn.mu.Lock()
			s.busy = false
			consumed += n
		}
		w := s.waiter
		switch {
		case w == nil: // nothing has come, or the stream was closed
			return consumed
		case len(w.data) > 0:
			p, w.data = w.data, nil
			continue
		case w.end != nil:
			s.conn.mu.Unlock()
			r.End(w.end)
			s.conn.mu.Lock()
		}
		s.waiter = nil
		return consumed
	}
}

// creditLocked counts n bytes as consumed, and announces the credit that is due.
func (s *stream) creditLocked(n int) {
	if !s.ended {
		s.conn.creditLocked(s.id, s.inflow.credit(n, s.conn.options.streamWindow))
	}
}
