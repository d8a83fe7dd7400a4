// SPDX-License-Identifier: Apache-2.0

package h2

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// sick is a site whose connections have numbers, in the order of their dials. Its handler
// runs fault with the number before it answers a watch.
type sick struct {
	*site
	fault func(connection int, r *http.Request)

	mu       sync.Mutex
	accepted int
	requests int
}

type connectionNumber struct{}

func serveSick(t *testing.T, limit int) *sick {
	s := &sick{}
	s.site = serve(t, func(site *site) {
		site.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: limit}
		site.ConnContext = func(ctx context.Context, _ net.Conn) context.Context {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.accepted++
			return context.WithValue(ctx, connectionNumber{}, s.accepted)
		}
		site.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			s.mu.Lock()
			s.requests++
			fault := s.fault
			s.mu.Unlock()
			if fault != nil {
				fault(r.Context().Value(connectionNumber{}).(int), r)
			}
			_, _ = io.WriteString(w, "added\n")
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		})
	})
	return s
}

func (s *sick) set(fault func(connection int, r *http.Request)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = fault
}

func (s *sick) sent() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests
}

func (s *sick) wantDials(t *testing.T, least, most int) {
	t.Helper()
	synctest.Wait()
	if dials, _ := s.seen(); dials < least || dials > most {
		t.Errorf("dials: got %d, want %d to %d", dials, least, most)
	}
}

// on returns a fault that some connections have.
func on(fault func(r *http.Request), connections ...int) func(int, *http.Request) {
	return func(number int, r *http.Request) {
		for _, n := range connections {
			if n == number {
				fault(r)
			}
		}
	}
}

// slow returns a fault that delays answers.
func slow(latency time.Duration) func(int, *http.Request) {
	return func(_ int, r *http.Request) {
		select {
		case <-time.After(latency):
		case <-r.Context().Done():
		}
	}
}

func hangs(r *http.Request) { <-r.Context().Done() }

func aborts(*http.Request) { panic(http.ErrAbortHandler) } // net/http sends INTERNAL_ERROR

// took opens a watch, and returns how long that took.
func (c *client) took() (*http.Response, time.Duration) {
	c.t.Helper()
	began := time.Now()
	return c.watch(), time.Since(began)
}

// An opening that a server does not answer is sent again on another connection, and those
// that follow go there at once.
func TestOpeningsLeaveAHangingServer(t *testing.T) {
	t.Run("a connection has room", inBubble(func(t *testing.T) {
		server := serveSick(t, 2)
		c := clientFor(t, server.config())
		first, second := c.watch(), c.watch()
		c.watch() // on the second connection
		_ = first.Body.Close()
		synctest.Wait()
		server.set(on(hangs, 1))
		if _, took := c.took(); took != suspectAfter {
			t.Errorf("the first one: took %v, want %v", took, suspectAfter)
		}
		if _, took := c.took(); took > 0 {
			t.Errorf("the next one: took %v, want none", took)
		}
		server.wantDials(t, 3, 3) // the second is full
		server.set(nil)
		goesOn(t, second)
	}))
	t.Run("none has room", inBubble(func(t *testing.T) {
		server := serveSick(t, 100)
		c := clientFor(t, server.config())
		first := c.watch()
		server.set(on(hangs, 1))
		for i := range 10 {
			if _, took := c.took(); took > suspectAfter || i > 0 && took > 0 {
				t.Errorf("opening %d: took %v, want %v for the first one only", i, took, suspectAfter)
			}
		}
		server.wantDials(t, 2, 2)
		goesOn(t, first)
	}))
	t.Run("the next dial gets to the same server", inBubble(func(t *testing.T) {
		server := serveSick(t, 100)
		c := clientFor(t, server.config())
		c.watch()
		server.set(on(hangs, 1, 2))
		if _, took := c.took(); took > suspectAfter+movedAfter {
			t.Errorf("the first one: took %v, want %v", took, suspectAfter+movedAfter)
		}
		if _, took := c.took(); took > 0 {
			t.Errorf("the next one: took %v, want none", took)
		}
		server.wantDials(t, 3, 3)
	}))
}

// goesOn checks that a stream is open.
func goesOn(t *testing.T, response *http.Response) {
	t.Helper()
	ended := make(chan error, 1)
	go func() {
		_, err := response.Body.Read(make([]byte, 1))
		ended <- err
	}()
	time.Sleep(time.Hour)
	select {
	case err := <-ended:
		t.Errorf("an old stream has ended: %v", err)
	default:
	}
	_ = response.Body.Close()
	if err := <-ended; err == nil {
		t.Error("a closed stream can be read")
	}
}

// A suspect connection is used again when the server has answered an opening on it.
func TestSuspectConnectionBecomesWell(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &fakeServer{limit: 100}
		p := newPool(server.dial)
		slow, err := p.acquire((&http.Request{}).WithContext(t.Context()), nil)
		check(t, err)
		time.Sleep(suspectAfter + time.Millisecond)
		if got, err := acquire(t.Context(), p, nil); err != nil || got == slow.pooled.connection {
			t.Errorf("while it is suspect: got %v and %v, want another connection", got, err)
		}
		p.finish(slow, &http.Response{StatusCode: http.StatusServiceUnavailable}, nil)
		if got, err := acquire(t.Context(), p, nil); err != nil || got == slow.pooled.connection {
			t.Errorf("after a server error: got %v and %v, want another connection", got, err)
		}
		again := p.beginOn(slow.pooled)
		p.finish(again, &http.Response{StatusCode: http.StatusOK}, nil)
		if got, err := acquire(t.Context(), p, nil); err != nil || got != slow.pooled.connection {
			t.Errorf("after an answer: got %v and %v, want the oldest connection", got, err)
		}
		server.wantDials(t, 2)
		end(p)
	})
}

// beginOn begins an opening that has a slot of m.
func (p *pool) beginOn(m *pooledConn) *opening {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.beginLocked(m, &waitingOpening{})
}

// A server that is slow for all is not dialled again and again, and its requests are
// sent few times more.
func TestSlowServerIsNoSickOne(t *testing.T) {
	for _, latency := range []time.Duration{1400 * time.Millisecond, 2 * time.Second, 10 * time.Second} {
		t.Run(latency.String(), inBubble(func(t *testing.T) {
			const streams = 500
			server := serveSick(t, 100)
			server.set(slow(latency))
			c := clientFor(t, server.config())
			var all sync.WaitGroup
			places := make(chan struct{}, 32)
			for range streams {
				all.Go(func() {
					places <- struct{}{}
					c.watch()
					<-places
				})
			}
			all.Wait()
			server.wantDials(t, 5, 15)
			if got := server.sent(); got > streams+20 {
				t.Errorf("requests: got %d, want little more than %d", got, streams)
			}
		}))
	}
	t.Run("few openings", inBubble(func(t *testing.T) {
		server := serveSick(t, 100)
		server.set(slow(5 * time.Second))
		c := clientFor(t, server.config())
		for range 60 {
			c.watch()
			time.Sleep(55 * time.Second)
		}
		server.wantDials(t, 1, 65) // one a minute
		if got := server.sent(); got > 150 {
			t.Errorf("requests: got %d, want 150 at most", got)
		}
	}))
}

// If all connections are suspect, they are used.
func TestSuspectConnectionsAreUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := serveSick(t, 100)
		c := clientFor(t, server.config())
		c.watch()
		server.set(slow(time.Minute))
		var hung sync.WaitGroup
		for range 20 {
			hung.Go(func() { c.watch() })
		}
		time.Sleep(20 * time.Second)
		server.set(nil)
		if _, took := c.took(); took > suspectAfter {
			t.Errorf("took %v, want no wait for a dial", took)
		}
		hung.Wait()
		server.wantDials(t, 2, 10)
	})
}

// Openings that hang for ever, as those of some objects do, are sent a few times more.
func TestHangingOpeningsAreTriedElsewhereSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := serveSick(t, 100)
		server.set(func(_ int, r *http.Request) {
			if r.URL.Query().Has("hangs") {
				hangs(r)
			}
		})
		c := clientFor(t, server.config())
		var all sync.WaitGroup
		for range 30 {
			all.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
				defer cancel()
				if _, err := c.get(ctx, "/api?watch=true&hangs"); !errors.Is(err, context.DeadlineExceeded) { //nolint:bodyclose // an error
					t.Errorf("got %v, want the end of the context", err)
				}
			})
		}
		for range 60 {
			time.Sleep(10 * time.Second)
			if _, took := c.took(); took > suspectAfter {
				t.Errorf("another opening took %v", took)
			}
		}
		all.Wait()
		server.wantDials(t, 2, 20)
		if got := server.sent(); got > 30+60+40 {
			t.Errorf("requests: got %d, want 130 at most", got)
		}
	})
}
