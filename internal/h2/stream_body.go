// SPDX-License-Identifier: Apache-2.0

package h2

import (
	"net/http"

	"github.com/refwatch/refwatch/internal/redact"
)

// The Body of a stream.

var _ Body = (*stream)(nil)

var errReceiving = redact.New("read of a body whose data a Receiver takes")

// Read waits for data or the end.
func (s *stream) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for {
		s.conn.mu.Lock()
		w := s.waiter
		n, err := s.readLocked(p)
		s.creditLocked(n)
		s.conn.mu.Unlock()
		if n > 0 || err != nil {
			return n, err
		}
		<-w.changed
	}
}

// readLocked reads what there is. Without data or an error, there is a waiter to wait
// for.
func (s *stream) readLocked(p []byte) (int, error) {
	w := s.waiter
	switch {
	case s.closed:
		return 0, http.ErrBodyReadAfterClose
	case s.receiver != nil:
		return 0, errReceiving
	case len(w.data) == 0:
		return 0, w.end
	}
	n := copy(p, w.data)
	if w.data = w.data[n:]; len(w.data) == 0 {
		w.data = nil
	}
	return n, nil
}

// Receive passes all that follows to r.
func (s *stream) Receive(r Receiver) {
	s.conn.mu.Lock()
	defer s.conn.mu.Unlock()
	if s.receiver == nil {
		s.receiver = r
		s.creditLocked(s.deliverLocked(nil))
	}
}

// Consumed returns n bytes of credit to the server.
func (s *stream) Consumed(n int) {
	s.conn.mu.Lock()
	defer s.conn.mu.Unlock()
	s.creditLocked(n)
}

// Detach separates the stream from the context of its request.
func (s *stream) Detach() {
	s.conn.mu.Lock()
	defer s.conn.mu.Unlock()
	s.detachLocked()
}

// Close ends the stream. It returns nil.
func (s *stream) Close() error {
	s.conn.mu.Lock()
	s.closed = true
	if s.waiter != nil {
		s.waiter.wake()
		s.waiter = nil
	}
	s.cancelLocked(nil)
	return nil
}
