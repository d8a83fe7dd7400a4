// SPDX-License-Identifier: Apache-2.0

package h2

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
)

// sink is a Receiver that consumes everything, unless hold is set.
type sink struct {
	hold   bool
	onData func([]byte) // may be nil

	mu   sync.Mutex
	text strings.Builder
	ends []error
}

func (s *sink) Data(p []byte) int {
	s.mu.Lock()
	s.text.Write(p)
	s.mu.Unlock()
	if s.onData != nil {
		s.onData(p)
	}
	if s.hold {
		return 0
	}
	return len(p)
}

func (s *sink) End(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ends = append(s.ends, err)
}

// want compares the text so far, and the error of End: nil before it.
func (s *sink) want(t *testing.T, text string, end error) {
	t.Helper()
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	if got := s.text.String(); got != text {
		t.Errorf("the receiver got %d bytes %.50q, want %d bytes %.50q", len(got), got, len(text), text)
	}
	if end == nil && len(s.ends) > 0 || end != nil && (len(s.ends) != 1 || !errors.Is(s.ends[0], end)) {
		t.Errorf("End: got %v, want %v", s.ends, end)
	}
}

// withBody runs test with a response whose body nobody takes yet.
func withBody(t *testing.T, test func(t *testing.T, e *exchange, v opened, body Body)) {
	t.Helper()
	withConn(t, func(t *testing.T, e *exchange) {
		v := e.openAs("/v", hold)
		test(t, e, v, v.resp.Body.(Body))
	})
}

// Close and Consumed may be called from Data, and nothing follows Close.
func TestReceiverMayCallTheBody(t *testing.T) {
	withBody(t, func(t *testing.T, e *exchange, v opened, body Body) {
		s := &sink{hold: true}
		s.onData = func(data []byte) {
			body.Consumed(len(data))
			if string(data) == "last" {
				_ = body.Close()
			}
		}
		body.Receive(s)
		quarter := strings.Repeat("x", testWindow/4)
		e.data(v.id, quarter)
		e.wantSent("WINDOW_UPDATE 1 65536")
		e.data(v.id, "last")
		e.wantSent("RST_STREAM 1 CANCEL", "PING")
		e.data(v.id, "late")
		e.endData(v.id, "")
		s.want(t, quarter+"last", nil)
	})
}

// The receiver is called without the lock of the connection: it may call the body, and may take long.
func TestReceiverIsCalledWithoutTheLock(t *testing.T) {
	c, calls := &conn{}, 0
	c.mu.conn = c
	s := &stream{conn: c, waiter: newWaiter(), receiver: &sink{onData: func([]byte) {
		if calls++; !c.mu.mutex.TryLock() {
			t.Errorf("call %d: the lock is held", calls)
			return
		}
		c.mu.Unlock()
	}}}
	c.mu.Lock()
	defer c.mu.Unlock()
	s.waiter.data = []byte("second")
	if consumed := s.deliverLocked([]byte("first ")); consumed != len("first second") || calls != 2 {
		t.Errorf("got %d calls with %d bytes, want 2 with all", calls, consumed)
	}
}

// A Receiver gets first what has arrived before it, without what was read. What comes while Receive or Data runs
// follows it, and End follows the last Data.
func TestReceiverIsCalledByOneAtATime(t *testing.T) {
	withBody(t, func(t *testing.T, e *exchange, v opened, body Body) {
		e.data(v.id, "so early ")
		e.wait()
		buf := make([]byte, 3)
		if n, err := body.Read(buf); n != 3 || err != nil {
			t.Fatalf("Read: %d, %v", n, err)
		}
		calls, entered, leave := 0, make(chan bool), make(chan bool)
		s := &sink{onData: func([]byte) {
			if calls++; calls == 1 {
				entered <- true
				<-leave
			}
		}}
		go body.Receive(s)
		<-entered
		if _, err := body.Read(buf); err == nil {
			t.Error("Read after Receive: no error")
		}
		e.data(v.id, "second ")
		e.endData(v.id, "third")
		s.want(t, "early ", nil)
		leave <- true
		s.want(t, "early second third", io.EOF)
	})
}

func TestCloseDuringData(t *testing.T) {
	withBody(t, func(t *testing.T, e *exchange, v opened, body Body) {
		entered, leave := make(chan bool), make(chan bool)
		s := &sink{onData: func([]byte) {
			entered <- true
			<-leave
		}}
		body.Receive(s)
		e.data(v.id, "one")
		<-entered
		_ = body.Close()
		leave <- true
		e.data(v.id, "two")
		e.endData(v.id, "")
		s.want(t, "one", nil)
	})
}

func TestReadWaitsForDataAndClose(t *testing.T) {
	withBody(t, func(t *testing.T, e *exchange, v opened, body Body) {
		results := make(chan error)
		read := func() {
			_, err := body.Read(make([]byte, 8))
			results <- err
		}
		go read()
		synctest.Wait()
		e.data(v.id, "x")
		if err := <-results; err != nil {
			t.Error(err)
		}
		go read()
		synctest.Wait()
		_ = body.Close()
		if err := <-results; !errors.Is(err, http.ErrBodyReadAfterClose) {
			t.Errorf("Read after Close: %v", err)
		}
		s := &sink{}
		body.Receive(s)
		s.want(t, "", nil)
	})
}

// Data that has arrived before Read and Receive gets its credit.
func TestReadAndReceiveReturnCredit(t *testing.T) {
	withBody(t, func(t *testing.T, e *exchange, v opened, body Body) {
		if body.(*stream).waiter.response != nil {
			t.Error("the stream keeps the response")
		}
		e.data(v.id, strings.Repeat("x", testWindow))
		e.wantSent()
		if _, err := io.ReadFull(body, make([]byte, 1000)); err != nil {
			t.Fatal(err)
		}
		e.wantSent("WINDOW_UPDATE 1 1000") // nothing may be withheld from a server that waits
		body.Receive(&sink{})
		e.wantSent("WINDOW_UPDATE 1 261144")
	})
}

// End is called once if the context ends while Data takes the last bytes.
func TestEndIsCalledOnce(t *testing.T) {
	withBody(t, func(t *testing.T, e *exchange, v opened, body Body) {
		s := &sink{onData: func([]byte) { body.(*stream).contextEnded(context.Canceled) }}
		body.Receive(s)
		e.endData(v.id, "last")
		s.want(t, "last", context.Canceled)
	})
}

// stoppable is a context that notes whether a function that waits for it was dropped.
type stoppable struct {
	context.Context
	done    chan struct{}
	stopped *bool
}

func (s stoppable) Done() <-chan struct{} { return s.done }

func (s stoppable) AfterFunc(func()) func() bool {
	return func() bool {
		*s.stopped = true
		return true
	}
}

// Only the record of a quiet stream is left, and a stream that has ended keeps no context.
func TestQuietStreamKeepsNothing(t *testing.T) {
	for name, quiet := range map[string]func(e *exchange, id uint32, body Body){
		"detached":       func(_ *exchange, _ uint32, body Body) { body.Receive(&sink{}); body.Detach() },
		"ended":          func(e *exchange, id uint32, body Body) { body.Receive(&sink{}); e.endData(id, "") },
		"ended, waiting": func(e *exchange, id uint32, _ Body) { e.endData(id, "") },
	} {
		t.Run(name, func(t *testing.T) {
			withConn(t, func(t *testing.T, e *exchange) {
				var dropped bool
				responses := make(chan *http.Response, 1)
				go func() {
					e.client.reserve()
					response, err := e.client.roundTrip(newRequest(t).WithContext(stoppable{t.Context(), make(chan struct{}), &dropped}))
					if err != nil {
						t.Error(err)
					}
					responses <- response
				}()
				id := e.request("/api?watch=true")
				e.ok(id)
				s := (<-responses).Body.(*stream)
				quiet(e, id, s)
				e.wait()
				if s.detach != nil || !dropped || s.receiver != nil && s.waiter != nil {
					t.Errorf("the stream keeps %v, %v; its context was dropped: %v", s.waiter, s.detach != nil, dropped)
				}
				if ended := s.ended; name == "detached" {
					if s.contextEnded(context.Canceled); ended || s.ended { // as if it had begun before Detach
						t.Error("the context has ended a detached stream")
					}
				}
			})
		})
	}
}
