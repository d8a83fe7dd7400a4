// SPDX-License-Identifier: Apache-2.0

package transport

import (
	"container/list"
	"context"
	"errors"
	"slices"
	"sync"
	"time"
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
	// spareFor is how long one dial more is made at a time, after one that took long, while
	// a connection lives: one of several servers may be unreachable.
	spareFor = time.Minute
	// maxOverdue is how many dials in a row may take long while a connection lives. After
	// more, all servers may be away, and the connection may not have noticed.
	maxOverdue = 4
)

// errUnused is the failure of a connection that ended before it took a stream. It is
// a failure as that of a dial: another dial would be as likely to fail.
var errUnused = errors.New("the server closed the connection before it took a request")

// pool holds the connections to one server.
//
// An opening takes a slot of the oldest connection that has one, so that others can
// drain and end. If none has, it waits, and openings are served in their order. One
// connection is dialled for as many waiting openings as a connection takes. A
// failure to dial goes to as many, or to the oldest if another connection lives: a load
// balancer gives the next dial to another server. In both cases the rate of dials is
// bounded by the rate of openings. A dial does not end with the opening that began it:
// it is canceled when nobody waits.
type pool struct {
	dial func(context.Context, connectionEvents) (connection, error)

	mu      sync.Mutex
	members []*member // oldest first
	waiting list.List // of *turn
	// dials are the dials in flight. One that was canceled is not among them.
	dials map[*member]context.CancelFunc
	// expected is how many connections are about to take streams: those that are
	// dialled, and those that do not know yet how many streams they take.
	expected int
	limit    int       // the last known limit of a connection
	overdue  time.Time // when a dial last took long
	overdues int       // dials that have taken long since one has succeeded
	closings int       // calls of closeIdle
}

// turn is an opening that waits.
type turn struct {
	avoid connection
	ready chan outcome // with room for one
}

// outcome is the connection of an opening, with a reserved slot, or an error.
type outcome struct {
	connection connection
	err        error
}

func newPool(dial func(context.Context, connectionEvents) (connection, error)) *pool {
	return &pool{dial: dial, dials: map[*member]context.CancelFunc{}, limit: defaultLimit}
}

// acquire returns a connection with a reserved slot, other than avoid. It waits until
// there is one, a dial fails, or ctx ends.
func (p *pool) acquire(ctx context.Context, avoid connection) (connection, error) {
	ready := make(chan outcome, 1)
	p.mu.Lock()
	element := p.waiting.PushBack(&turn{avoid, ready})
	p.serveLocked()
	p.mu.Unlock()

	select {
	case o := <-ready:
		return o.connection, o.err
	case <-ctx.Done():
	}
	p.mu.Lock()
	var late outcome
	select {
	case late = <-ready:
	default:
		p.waiting.Remove(element)
		p.dialLocked()
	}
	p.unlock()
	if late.connection != nil {
		late.connection.release()
	}
	return nil, context.Cause(ctx)
}

// closeIdle closes the connections without streams. Those that are in use, also by
// streams whose end the server has not confirmed, are closed when they become idle,
// unless they take another stream before.
func (p *pool) closeIdle() {
	p.mu.Lock()
	p.closings++
	for _, m := range p.members {
		m.closing = true
	}
	p.unlock()
}

// unlock unlocks mu. It closes the connections that closeIdle has marked and that are
// idle.
func (p *pool) unlock() {
	var idle []*member
	for _, m := range p.members {
		if m.closing && m.connection.taken() == 0 && (m.settled || p.waiting.Len() == 0) {
			idle = append(idle, m)
		}
	}
	for _, m := range idle {
		p.removeLocked(m)
	}
	p.mu.Unlock()
	for _, m := range idle {
		m.connection.close()
	}
}

// reserveLocked takes a slot, and returns nil if no connection but avoid has one.
func (p *pool) reserveLocked(avoid connection) connection {
	for _, m := range p.members {
		if m.full || m.connection == avoid {
			continue
		}
		if m.connection.reserve() {
			m.used, m.closing = true, false
			m.stopTimerLocked()
			return m.connection
		}
		m.full = true
	}
	return nil
}

// serveLocked gives slots to those that wait, in their order, and dials for the rest. One
// that avoids the only connection with slots does not hold up others.
func (p *pool) serveLocked() {
	for e := p.waiting.Front(); e != nil; {
		waiting, next := e.Value.(*turn), e.Next()
		c := p.reserveLocked(waiting.avoid)
		switch {
		case c != nil:
			p.waiting.Remove(e)
			waiting.ready <- outcome{connection: c}
		case waiting.avoid == nil:
			next = nil // no connection has a slot
		}
		e = next
	}
	p.dialLocked()
}

// failLocked returns err to those that wait for the connection that failed: the oldest, as
// many as a connection takes. Other dials are for the others. If a connection lives, the
// server is not away, and err goes to the oldest only.
func (p *pool) failLocked(err error) {
	failed := p.limit
	if p.livesLocked() {
		failed = 1
	}
	for range min(failed, p.waiting.Len()) {
		p.waiting.Remove(p.waiting.Front()).(*turn).ready <- outcome{err: err}
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
	needed := (p.waiting.Len()-1)/p.limit + 1 - p.expected // a limit may be the highest int
	switch {
	case !p.overdueLocked():
	case p.mayBeAwayLocked():
		needed = min(needed, 1-p.expected) // one more at a time
	default:
		needed++ // the next dial may meet the same server
	}
	for range min(needed, maxDials-p.unsettledLocked()) {
		ctx, cancel := context.WithCancel(context.Background())
		m := &member{pool: p, closings: p.closings}
		m.expectLocked()
		p.dials[m] = cancel
		go m.dial(ctx)
	}
}

// livesLocked reports whether there is a connection that has taken a request.
func (p *pool) livesLocked() bool {
	return slices.ContainsFunc(p.members, func(m *member) bool { return m.used })
}

// mayBeAwayLocked reports whether the server may be away, in which case dials take long.
func (p *pool) mayBeAwayLocked() bool { return !p.livesLocked() || p.overdues > maxOverdue }

// overdueLocked reports whether a dial has taken long just now.
func (p *pool) overdueLocked() bool { return !p.overdue.IsZero() && time.Since(p.overdue) < spareFor }

// unsettledLocked is how many connections are dialled, or do not know how many streams
// they take.
func (p *pool) unsettledLocked() int {
	n := len(p.dials)
	for _, m := range p.members {
		if !m.settled {
			n++
		}
	}
	return n
}

// removeLocked removes a connection, which takes no new streams from here on.
func (p *pool) removeLocked(m *member) {
	m.removed = true
	m.stopTimerLocked()
	m.arrivedLocked()
	p.members = slices.DeleteFunc(p.members, func(other *member) bool { return other == m })
}
