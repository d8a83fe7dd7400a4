// SPDX-License-Identifier: Apache-2.0

package h2

import (
	"context"
	"errors"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
)

// TestReceiverMayCallTheBody: Close and Consumed may be called from Data, and nothing
// follows Close.
func TestReceiverMayCallTheBody(t *testing.T) {
	withPeer(t, func(t *testing.T, p *peer) {
		a, s := p.open(1)
		s.hold = true
		s.onData = func(data []byte) {
			a.body.Consumed(len(data))
			if string(data) == "last" {
				_ = a.body.Close()
			}
		}
		p.fill(1, 1<<20)
		p.wantSent("WINDOW_UPDATE 1 1048576")
		p.data(1, "last")
		p.wantSent("RST_STREAM 1 CANCEL", "PING")
		p.data(1, "late")
		p.end(1, "")
		if got, err := s.got(), s.ended(t); len(got) != 1<<20+4 || err != nil {
			t.Errorf("the receiver got %d bytes and End(%v)", len(got), err)
		}
	})
}

// The receiver is called without the lock of the connection: it may call the body, and may take long.
func TestReceiverIsCalledWithoutTheLock(t *testing.T) {
	c, calls := &conn{}, 0
	s := &stream{conn: c, waiter: newWaiter(), receiver: &sink{onData: func([]byte) {
		if calls++; !c.mu.TryLock() {
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

// TestReceiverIsCalledByOneAtATime: what comes while Receive or Data runs follows
// it, and End follows the last Data.
func TestReceiverIsCalledByOneAtATime(t *testing.T) {
	withPeer(t, func(t *testing.T, p *peer) {
		a := p.get(t.Context())
		p.header(1, false, ":status", "200")
		p.data(1, "early ")
		synctest.Wait()
		calls, entered, leave := 0, make(chan bool), make(chan bool)
		s := &sink{onData: func([]byte) {
			if calls++; calls == 1 {
				entered <- true
				<-leave
			}
		}}
		go a.body.Receive(s)
		<-entered
		p.data(1, "second ")
		p.end(1, "third")
		if got, err := s.got(), s.ended(t); got != "early " || err != nil {
			t.Errorf("during Data: got %q, End(%v)", got, err)
		}
		leave <- true
		if got, err := s.got(), s.ended(t); got != "early second third" || !errors.Is(err, io.EOF) {
			t.Errorf("after Data: got %q, End(%v)", got, err)
		}
	})
}

func TestCloseDuringData(t *testing.T) {
	withPeer(t, func(t *testing.T, p *peer) {
		a, s := p.open(1)
		entered, leave := make(chan bool), make(chan bool)
		s.onData = func([]byte) {
			entered <- true
			<-leave
		}
		p.data(1, "one")
		<-entered
		_ = a.body.Close()
		leave <- true
		p.data(1, "two")
		p.end(1, "")
		if got, err := s.got(), s.ended(t); got != "one" || err != nil {
			t.Errorf("the receiver got %q and End(%v)", got, err)
		}
	})
}

func TestReadWaitsForDataAndClose(t *testing.T) {
	withPeer(t, func(t *testing.T, p *peer) {
		a := p.get(t.Context())
		p.header(1, false, ":status", "200")
		<-a.done
		results := make(chan error)
		read := func() {
			_, err := a.body.Read(make([]byte, 8))
			results <- err
		}
		go read()
		synctest.Wait()
		p.data(1, "x")
		if err := <-results; err != nil {
			t.Error(err)
		}
		go read()
		synctest.Wait()
		_ = a.body.Close()
		if err := <-results; !errors.Is(err, http.ErrBodyReadAfterClose) {
			t.Errorf("Read after Close: %v", err)
		}
		s := &sink{}
		a.body.Receive(s)
		if got, err := s.got(), s.ended(t); got != "" || err != nil {
			t.Errorf("Receive after Close: got %q, End(%v)", got, err)
		}
	})
}

func TestReadReturnsCredit(t *testing.T) {
	withPeer(t, func(t *testing.T, p *peer) {
		a := p.get(t.Context())
		p.header(1, false, ":status", "200")
		p.fill(1, 4<<20)
		<-a.done
		p.sent()
		if _, err := io.ReadFull(a.body, make([]byte, 1<<20)); err != nil {
			t.Fatal(err)
		}
		p.wantSent("WINDOW_UPDATE 1 1048576")
	})
}

// Data that has arrived before Receive gets its credit, as does what Read has left of it.
func TestReceiveReturnsCredit(t *testing.T) {
	withPeer(t, func(t *testing.T, p *peer) {
		a := p.get(t.Context())
		p.header(1, false, ":status", "200")
		p.fill(1, 4<<20)
		<-a.done
		p.sent()
		if a.resp.Body.(*stream).waiter.response != nil {
			t.Error("the stream keeps the response")
		}
		if _, err := io.ReadFull(a.body, make([]byte, 1000)); err != nil {
			t.Fatal(err)
		}
		p.wantSent("WINDOW_UPDATE 1 1000")
		a.body.Receive(&sink{})
		p.wantSent("WINDOW_UPDATE 1 4193304")
	})
}

func TestHeaderThatEndsTheStream(t *testing.T) {
	withPeer(t, func(t *testing.T, p *peer) {
		a := p.get(t.Context())
		p.header(1, true, ":status", "404")
		<-a.done
		if a.err != nil || a.resp.StatusCode != http.StatusNotFound || a.resp.ContentLength != 0 {
			t.Fatalf("got %+v, %v", a.resp, a.err)
		}
		s := &sink{}
		a.body.Receive(s)
		if err := s.ended(t); !errors.Is(err, io.EOF) {
			t.Errorf("End(%v), want io.EOF", err)
		}
		if a.body.(*stream).detach != nil {
			t.Error("the stream has ended, and keeps the context of its request")
		}

		a = p.get(t.Context()) // 304 may name the length of a body that it does not have
		p.header(3, true, ":status", "304", "content-length", "5")
		if <-a.done; a.err != nil || a.resp.ContentLength != 5 {
			t.Fatalf("got %+v, %v", a.resp, a.err)
		}
	})
}

func TestCloseOfAQuietStream(t *testing.T) {
	withPeer(t, func(t *testing.T, p *peer) {
		a, s := p.open(1)
		_ = a.body.Close()
		p.data(1, "late")
		if got, err := s.got(), s.ended(t); got != "" || err != nil || len(s.ends) > 0 {
			t.Errorf("after Close: got %q, %d calls of End", got, len(s.ends))
		}
	})
}

// TestEndIsCalledOnce: the context ends while Data takes the last bytes.
func TestEndIsCalledOnce(t *testing.T) {
	withPeer(t, func(t *testing.T, p *peer) {
		a, s := p.open(1)
		s.onData = func([]byte) { a.body.(*stream).contextEnded(context.Canceled) }
		p.end(1, "last")
		if got, err := s.got(), s.ended(t); got != "last" || !errors.Is(err, context.Canceled) {
			t.Errorf("got %q, End(%v)", got, err)
		}
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

// TestQuietStreamKeepsNothing: only the record of a quiet stream is left.
func TestQuietStreamKeepsNothing(t *testing.T) {
	withPeer(t, func(t *testing.T, p *peer) {
		var dropped bool
		a := p.get(stoppable{t.Context(), make(chan struct{}), &dropped})
		p.header(1, false, ":status", "200")
		<-a.done
		a.body.Receive(&sink{})
		a.body.Detach()
		s := a.body.(*stream)
		if s.waiter != nil || s.detach != nil || !dropped {
			t.Errorf("the stream keeps %v, %v; its context was dropped: %v", s.waiter, s.detach != nil, dropped)
		}
		s.contextEnded(context.Canceled) // as if it had begun before Detach
		if s.ended {
			t.Error("the context has ended an detached stream")
		}

		dropped = false
		p.get(stoppable{t.Context(), make(chan struct{}), &dropped})
		p.header(3, false, ":status", "200")
		synctest.Wait()
		p.end(3, "")
		if synctest.Wait(); !dropped {
			t.Error("a stream that has ended keeps the context of its request")
		}
	})
}
