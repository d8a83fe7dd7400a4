// SPDX-License-Identifier: Apache-2.0

package h2

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// fakeServer is dialled by a pool, in a bubble of synctest. Its connections have slots,
// and no streams.
type fakeServer struct {
	limit     int           // of new connections
	latency   time.Duration // of a dial
	unknown   bool          // new connections do not know their limit until settle
	err       error         // of dials
	firstErr  error         // of the first dial, half as late as others
	hang      bool          // dials last until their context ends
	stillborn bool          // connections end before the pool has them

	mu          sync.Mutex
	dials       int
	canceled    int
	connections []*fakeConnection
}

func (s *fakeServer) dial(ctx context.Context, _ *http.Request, events connectionEvents) (connection, error) {
	s.mu.Lock()
	s.dials++
	err, hang := s.err, s.hang
	first := s.dials == 1 && s.firstErr != nil
	latency := s.latency
	if first {
		err, latency = s.firstErr, s.latency/2
	}
	s.mu.Unlock()
	wait := time.After(latency)
	if hang {
		wait = nil
	}
	select {
	case <-ctx.Done():
		s.mu.Lock()
		s.canceled++
		s.mu.Unlock()
		return nil, ctx.Err()
	case <-wait:
	}
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c := &fakeConnection{events: events, max: s.limit, settled: !s.unknown}
	s.connections = append(s.connections, c)
	if s.stillborn {
		events.gone(c)
	}
	return c, nil
}

// set changes the server while it runs.
func (s *fakeServer) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

// counts returns the number of dials, of canceled ones, and of open connections.
func (s *fakeServer) counts() (dials, canceled, open int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.connections {
		if !c.isClosed() {
			open++
		}
	}
	return s.dials, s.canceled, open
}

func (s *fakeServer) wantDials(t *testing.T, want int) {
	t.Helper()
	synctest.Wait()
	if got, _, _ := s.counts(); got != want {
		t.Errorf("dials: got %d, want %d", got, want)
	}
}

var errFakeRefusal = errors.New("remote error: tls: bad certificate")

type fakeConnection struct {
	events connectionEvents

	mu      sync.Mutex
	settled bool
	early   int
	max     int
	used    int
	going   bool // after GOAWAY
	closed  bool
}

func (c *fakeConnection) begin(streams int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.early = streams
}

func (c *fakeConnection) reserve() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	most := c.max
	if !c.settled {
		most = c.early
	}
	if c.going || c.closed || c.used >= most {
		return false
	}
	c.used++
	return true
}

func (c *fakeConnection) release() {
	c.mu.Lock()
	c.used--
	idle := c.used == 0
	c.mu.Unlock()
	c.events.slotFreed(c)
	if idle {
		c.events.idle(c)
	}
}

func (c *fakeConnection) taken() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.used
}

func (c *fakeConnection) limit() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.settled {
		return 0
	}
	return c.max
}

func (c *fakeConnection) settle() {
	c.mu.Lock()
	c.settled = true
	c.mu.Unlock()
	c.events.slotFreed(c)
}

func (c *fakeConnection) goAway() {
	c.mu.Lock()
	c.going = true
	c.mu.Unlock()
	c.events.gone(c)
}

func (c *fakeConnection) isClosed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closed
}

func (c *fakeConnection) roundTrip(*http.Request, <-chan struct{}) (*http.Response, error) {
	return nil, errors.New("a fake connection has no streams")
}

func (c *fakeConnection) reason() string { return Lost }

func (c *fakeConnection) refusal() error { return errFakeRefusal }

func (c *fakeConnection) probe() {}

func (c *fakeConnection) close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.events.gone(c)
}

// acquisition is a call of acquire.
type acquisition struct {
	done chan struct{}
	c    connection
	err  error
}

func open(ctx context.Context, p *pool) *acquisition {
	o := &acquisition{done: make(chan struct{})}
	go func() {
		defer close(o.done)
		o.c, o.err = acquire(ctx, p, nil)
	}()
	return o
}

// acquire returns a connection of p, whose server answers at once.
func acquire(ctx context.Context, p *pool, avoid connection) (connection, error) {
	o, err := p.acquire((&http.Request{}).WithContext(ctx), avoid)
	if err != nil {
		return nil, err
	}
	p.finish(o, &http.Response{StatusCode: http.StatusOK}, nil)
	return o.pooled.connection, nil
}

// openAll opens n streams, in the order of the result.
func openAll(ctx context.Context, p *pool, n int) []*acquisition {
	all := make([]*acquisition, n)
	for i := range all {
		all[i] = open(ctx, p)
		synctest.Wait()
	}
	return all
}

// waits reports whether acquire has not returned.
func (o *acquisition) waits() bool {
	synctest.Wait()
	select {
	case <-o.done:
		return false
	default:
		return true
	}
}

// served counts the openings that have a connection.
func served(all []*acquisition) (n int) {
	synctest.Wait()
	for _, o := range all {
		if !o.waits() && o.err == nil {
			n++
		}
	}
	return n
}

// end closes the connections, so that the bubble can end.
func end(p *pool) {
	synctest.Wait()
	p.mu.Lock()
	members := append([]*pooledConn(nil), p.pooled...)
	p.mu.Unlock()
	for _, m := range members {
		m.connection.close()
	}
	synctest.Wait()
}
