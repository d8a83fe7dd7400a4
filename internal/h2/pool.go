// SPDX-License-Identifier: Apache-2.0

package h2

import (
	"container/list"
	"context"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/refwatch/refwatch/internal/redact"
)

const (
	// idleTimeout is how long a connection without streams stays open: as long as
	// that of client-go's own transport.
	idleTimeout = 90 * time.Second
	// defaultLimit is how many streams a connection is expected to carry before the
	// first has said it: kube-apiserver's default.
	defaultLimit = 100
	// maxDials is how many connections are dialled, or do not know yet how many streams
	// they take, at most: for servers that allow few streams on a connection, or none.
	maxDials = 32
	// overdueAfter is how long a dial may take until another begins beside it: one of
	// several addresses or servers may be unreachable. If the server may be away, those
	// that follow have overdueAfterFirst, and begin one at a time.
	overdueAfter, overdueAfterFirst = time.Second, 4 * time.Second
	// dialTrips is how many times the way to the server and back a dial may take at least: two are
	// those of TCP and TLS.
	dialTrips = 3
	// spareFor is how long one dial more is made at a time, after one that took long, while
	// a connection lives: one of several servers may be unreachable.
	spareFor = time.Minute
	// maxOverdue is how many dials in a row may take long while a connection lives. After
	// more, all servers may be away, and the connection may not have noticed.
	maxOverdue = 4
)

// errUnused is wrapped by the failure of a connection that ended before it took a stream. It is
// a failure as that of a dial: another dial would be as likely to fail.
var errUnused = redact.New("the server closed the connection before it took a request")

// unused returns the failure of a connection that ended so. A server or a front end that refuses a client after the
// handshake says why with a TLS alert, or a GOAWAY.
func unused(c connection) error { return redact.Errorf("%w: %w", errUnused, c.refusal()) }

// pool holds the connections to one server.
//
// An opening takes a slot of the oldest connection that has one, so that others can
// drain and end. If none has, it waits, and openings are served in their order. One
// connection is dialled for as many waiting openings as a connection takes. A
// failure to dial goes to as many, or to the oldest if another connection lives: a load
// balancer gives the next dial to another server. In both cases the rate of dials is
// bounded by the rate of openings. A dial does not end with the opening that began it:
// it is canceled when nobody waits.
//
// A connection whose server leaves an opening without an answer is suspect until it
// answers one. While one is suspect, openings prefer the connection that has answered
// last. If only suspect connections have slots, one is dialled as often as trials allow,
// and otherwise they are used.
type pool struct {
	// dial makes a connection that a request needs.
	dial func(context.Context, *http.Request, connectionEvents) (connection, error)

	mu       sync.Mutex
	pooled   []*pooledConn // oldest first
	draining []*pooledConn // closed after their last stream
	waiting  list.List     // of *waitingOpening
	openings list.List     // of *opening, in the order of their beginnings
	suspects int           // connections that are suspect
	trials   trials
	reviewer *time.Timer // runs review; nil before the first opening
	reviewAt time.Time   // when it fires, zero for never
	// dials are the dials in flight. One that was canceled is not among them.
	dials map[*pooledConn]context.CancelFunc
	// expected is how many connections are about to take streams: those that are
	// dialled, and those that do not know yet how many streams they take.
	expected int
	limit    int           // the last known limit of a connection
	overdue  time.Time     // when a dial last took long
	overdues int           // dials that have taken long since one has succeeded
	closings int           // calls of closeIdle
	trip     time.Duration // to the server and back: half of the last dial, or the least answer since then
}

// waitingOpening is an opening that waits.
type waitingOpening struct {
	request *http.Request

	avoid connection
	ready chan acquired // with room for one; nil for an opening that was sent
	from  *pooledConn   // these three are those of the opening to come
	reset bool
	sent  int

	opening *opening // was sent on the connection to avoid
	trial   bool     // it may have a dial of its own, though suspect connections have slots
}

// acquired is an opening, with a reserved slot, or an error.
type acquired struct {
	opening *opening
	err     error
}

// serveLocked passes an opening to whoever waits for it.
func (t *waitingOpening) serveLocked(o *opening) {
	if t.opening == nil {
		t.ready <- acquired{opening: o}
		return
	}
	t.opening.queued, t.opening.next = nil, o
	close(t.opening.moved)
}

// failLocked ends the wait. An opening that was sent goes on waiting for its answer.
func (t *waitingOpening) failLocked(err error) {
	if t.opening == nil {
		t.ready <- acquired{err: err}
		return
	}
	t.opening.queued = nil
}

func newPool(dial func(context.Context, *http.Request, connectionEvents) (connection, error)) *pool {
	return &pool{dial: dial, dials: map[*pooledConn]context.CancelFunc{}, limit: defaultLimit}
}

// acquire returns an opening with a reserved slot of a connection other than avoid. It
// waits until there is one, a dial fails, or the context of the request ends. finish must
// follow.
func (p *pool) acquire(request *http.Request, avoid connection) (*opening, error) {
	return p.await(&waitingOpening{request: request, avoid: avoid})
}

// elsewhere is acquire for an opening that the server has reset.
func (p *pool) elsewhere(o *opening) (*opening, error) {
	return p.await(&waitingOpening{request: o.request, avoid: o.pooled.connection, from: o.pooled, reset: true, sent: o.sent, trial: true})
}

func (p *pool) await(t *waitingOpening) (*opening, error) {
	ctx := t.request.Context()
	t.ready = make(chan acquired, 1)
	p.mu.Lock()
	element := p.waiting.PushBack(t)
	p.serveLocked()
	p.mu.Unlock()

	select {
	case o := <-t.ready:
		return o.opening, o.err
	case <-ctx.Done():
	}
	p.mu.Lock()
	var late acquired
	select {
	case late = <-t.ready:
	default:
		p.waiting.Remove(element)
		p.dialLocked()
	}
	if late.opening != nil {
		p.openings.Remove(late.opening.element)
	}
	p.unlock()
	if late.opening != nil {
		late.opening.pooled.connection.release()
	}
	return nil, context.Cause(ctx)
}

// closeIdle closes the connections without streams. Those that are in use, also by
// streams whose end the server has not confirmed, are closed when they become idle,
// unless they take another stream before.
func (p *pool) closeIdle() {
	p.mu.Lock()
	p.closings++
	for _, m := range p.pooled {
		m.closing = true
	}
	p.unlock()
}

// unlock unlocks mu. It closes the connections that are to be closed and that are idle.
func (p *pool) unlock() {
	var idle []*pooledConn
	for _, m := range p.pooled {
		if m.closing && m.connection.taken() == 0 && (m.settled || p.waiting.Len() == 0) {
			idle = append(idle, m)
		}
	}
	for _, m := range idle {
		m.counters.left(Idle)
		p.removeLocked(m)
	}
	p.draining = slices.DeleteFunc(p.draining, func(m *pooledConn) bool {
		done := m.connection.taken() == 0
		if done {
			idle = append(idle, m)
		}
		return done
	})
	p.mu.Unlock()
	for _, m := range idle {
		m.connection.close()
	}
}

// reserveLocked takes a slot of a connection that is suspect, or of one that is not. It
// returns nil if no connection but avoid has one.
func (p *pool) reserveLocked(avoid connection, suspect bool) *pooledConn {
	for {
		m := p.candidateLocked(avoid, suspect)
		if m == nil {
			return nil
		}
		if m.connection.reserve() {
			m.used, m.closing = true, false
			m.stopTimerLocked()
			return m
		}
		m.full = true
	}
}

// candidateLocked returns the oldest connection that may have a slot. While one is
// suspect, others may lead to the same server: then it is the one that has answered last.
func (p *pool) candidateLocked(avoid connection, suspect bool) (best *pooledConn) {
	for _, m := range p.pooled {
		switch {
		case m.full || m.connection == avoid || m.suspect != suspect:
		case p.suspects == 0:
			return m
		case best == nil || m.answered.After(best.answered):
			best = m
		}
	}
	return best
}

// serveLocked gives slots to those that wait, and dials for the rest. If no connection is
// expected, those of suspect connections are used.
func (p *pool) serveLocked() {
	p.giveLocked(false)
	p.dialLocked()
	if p.suspects > 0 && p.expected == 0 {
		p.giveLocked(true)
		p.dialLocked()
	}
}

// giveLocked gives slots to those that wait, in their order. One that avoids the only
// connection with slots does not hold up others.
func (p *pool) giveLocked(suspect bool) {
	for e := p.waiting.Front(); e != nil; {
		waiting, next := e.Value.(*waitingOpening), e.Next()
		var m *pooledConn
		if !suspect || waiting.opening == nil {
			m = p.reserveLocked(waiting.avoid, suspect)
		}
		switch {
		case m != nil:
			p.waiting.Remove(e)
			waiting.serveLocked(p.beginLocked(m, waiting))
		case waiting.avoid == nil:
			next = nil // no connection has a slot
		}
		e = next
	}
}

// failLocked returns err to those that wait for the connection that failed: the oldest, as
// many as a connection takes. Other dials are for the others. If a connection lives, the
// server is not away, and err goes to the oldest only. Nobody fails while a suspect
// connection has slots.
func (p *pool) failLocked(err error) {
	failed := p.limit
	if p.livesLocked() {
		failed = 1
	}
	p.giveLocked(true)
	for e := p.waiting.Front(); e != nil && failed > 0; {
		t, at := e.Value.(*waitingOpening), e
		e = e.Next()
		p.waiting.Remove(at)
		if t.failLocked(err); t.opening == nil {
			failed--
		} else { // it may be tried elsewhere again
			p.reviewInLocked(max(0, time.Until(p.trials.next)))
		}
	}
	p.dialLocked()
}

// dialLocked begins the dials that those who wait need, and cancels all if nobody
// waits.
func (p *pool) dialLocked() {
	if p.waiting.Len() == 0 {
		for m, cancel := range p.dials {
			cancel()
			delete(p.dials, m)
			m.arrivedLocked()
		}
		return
	}
	needed := p.neededLocked()
	// The last to come has caused the dial. It may end before the dial.
	cause := p.waiting.Back().Value.(*waitingOpening).request
	for range min(needed, maxDials-p.unsettledLocked()) {
		ctx, cancel := context.WithCancel(context.WithoutCancel(cause.Context()))
		m := &pooledConn{pool: p, counters: countersOf(ctx), closings: p.closings}
		m.expectLocked()
		p.dials[m] = cancel
		go m.dial(ctx, cause.Clone(ctx))
	}
}

// neededLocked returns how many dials are to begin.
func (p *pool) neededLocked() int {
	waiting := p.waiting.Len()
	if slices.ContainsFunc(p.pooled, func(m *pooledConn) bool { return m.suspect && !m.full }) {
		if waiting = p.trialsLocked(); waiting == 0 {
			return 0
		}
	}
	needed := (waiting-1)/p.limit + 1 - p.expected // a limit may be the highest int
	switch {
	case !p.overdueLocked():
		return needed
	case p.mayBeAwayLocked():
		return min(needed, 1-p.expected) // one more at a time
	}
	return needed + 1 // the next dial may meet the same server
}

// trialsLocked returns how many wait for a dial, though suspect connections have slots. If
// there is none, and no connection is expected, the oldest becomes one if it may.
func (p *pool) trialsLocked() (n int) {
	for e := p.waiting.Front(); e != nil; e = e.Next() {
		if e.Value.(*waitingOpening).trial {
			n++
		}
	}
	if n == 0 && p.expected == 0 && p.trials.begin(time.Now()) {
		p.waiting.Front().Value.(*waitingOpening).trial = true
		n = 1
	}
	return n
}

// lastLimit returns the last known limit of a connection.
func (p *pool) lastLimit() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.limit
}

// livesLocked reports whether there is a connection that has taken a request.
func (p *pool) livesLocked() bool {
	return slices.ContainsFunc(p.pooled, func(m *pooledConn) bool { return m.used })
}

func (p *pool) lives() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.livesLocked()
}

// mayBeAwayLocked reports whether the server may be away, in which case dials take long.
func (p *pool) mayBeAwayLocked() bool { return !p.livesLocked() || p.overdues > maxOverdue }

// overdueLocked reports whether a dial has taken long just now.
func (p *pool) overdueLocked() bool { return !p.overdue.IsZero() && time.Since(p.overdue) < spareFor }

// unsettledLocked is how many connections are dialled, or do not know how many streams
// they take.
func (p *pool) unsettledLocked() int {
	n := len(p.dials)
	for _, m := range p.pooled {
		if !m.settled {
			n++
		}
	}
	return n
}

// removeLocked removes a connection, which takes no new streams from here on.
func (p *pool) removeLocked(m *pooledConn) {
	p.suspectLocked(m, false)
	m.removed = true
	m.stopTimerLocked()
	m.arrivedLocked()
	p.pooled = slices.DeleteFunc(p.pooled, func(other *pooledConn) bool { return other == m })
}
