// SPDX-License-Identifier: Apache-2.0

package h2

import (
	"net/http"

	"golang.org/x/net/http2"
)

// stream is one request and its response; it is the Body of the response. There is one
// for each open watch, so it keeps little: no request, response, context, channel or
// goroutine once a Receiver takes its data. The lock of the connection guards it.
type stream struct {
	conn     *conn
	receiver Receiver    // nil until Receive
	waiter   *waiter     // what blocking callers wait for; nil after Receive
	detach   func() bool // separates it from the context of the request, or nil
	left     int64       // bytes of the body to come, or -1 if the server did not say
	id       uint32
	outflow  uint32 // the sum of the server's WINDOW_UPDATEs
	inflow   inflow
	opened   bool // the header of the response has come
	busy     bool // a goroutine calls the receiver without the lock
	ended    bool // no frame is handled any more; also set by Close
	closed   bool // Close was called: the receiver gets nothing more
}

// waiter is what a stream has besides while callers block on it: roundTrip until the
// header has come, Read until Receive.
type waiter struct {
	changed  chan struct{}  // has a value when a field below has changed
	response *http.Response // until roundTrip has returned it
	informed uint64         // bytes of 1xx responses before it
	data     []byte         // what nobody has read
	end      error          // what follows data
}

func newWaiter() *waiter { return &waiter{changed: make(chan struct{}, 1)} }

func (w *waiter) wake() {
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

// endLocked ends the stream. The caller calls notify after Unlock: a request that was
// refused returns to a pool that knows of the free slot already, and avoids it.
func (s *stream) endLocked(err error) (notify func()) {
	delete(s.conn.streams, s.id)
	s.ended = true
	s.detachLocked()
	switch {
	case s.closed:
		return func() {}
	case s.receiver != nil && !s.busy:
		return func() { s.receiver.End(err) }
	}
	// Read returns err, or the goroutine that calls the receiver now passes it on.
	if s.waiter == nil {
		s.waiter = newWaiter()
	}
	s.waiter.end = err
	return s.waiter.wake
}

// detachLocked does not wait for a contextEnded that has begun; that one sees it.
func (s *stream) detachLocked() {
	if s.detach != nil {
		s.detach()
		s.detach = nil
	}
}

// contextEnded ends the stream, unless it was detached meanwhile.
func (s *stream) contextEnded(err error) {
	s.conn.mu.Lock()
	if s.detach == nil {
		s.conn.mu.Unlock()
		return
	}
	s.cancelLocked(err)
}

// cancelLocked ends the stream with an error and notifies the server, unless the stream
// has ended. It unlocks the connection.
func (s *stream) cancelLocked(err error) {
	c := s.conn
	if s.ended {
		c.mu.Unlock()
		return
	}
	notify := s.endLocked(err)
	c.resetLocked(s.id, http2.ErrCodeCancel)
	c.mu.Unlock()
	notify()
}
