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
	// maxDials is how many dials are in flight at most, for servers that allow few
	// streams on a connection.
	maxDials = 32
)

// errUnused is the failure of a connection that ended before it took a stream. It is
// a failure as that of a dial: another dial would be as likely to fail.
var errUnused = errors.New("the server closed the connection before it took a request")

// pool holds the connections to one server.
//
// An opening takes a slot of the oldest connection that has one, so that others can
// drain and end. If none has, it waits, and openings are served in their order. One
// connection is dialled for as many waiting openings as a connection takes. A failure
// to dial goes to all that wait at that moment, so that the rate of dials is bounded by
// the rate of openings. A dial does not end with the opening that began it, but when
// nobody waits.
type pool struct {
	dial func(context.Context, connectionEvents) (connection, error)

	mu      sync.Mutex
	members []*member // oldest first
	waiting list.List // of chan outcome
	// dials are the dials in flight. One that was canceled is not among them.
	dials map[*member]context.CancelFunc
	// unsettled is how many members do not know yet how many streams they take.
	unsettled int
	limit     int // the last known limit of a connection
}

// outcome is the connection of an opening, with a reserved slot, or an error.
type outcome struct {
	connection connection
	err        error
}

func newPool(dial func(context.Context, connectionEvents) (connection, error)) *pool {
	return &pool{dial: dial, dials: map[*member]context.CancelFunc{}, limit: defaultLimit}
}

// acquire returns a connection with a reserved slot. It waits until there is one, a
// dial fails, or ctx ends.
func (p *pool) acquire(ctx context.Context) (connection, error) {
	p.mu.Lock()
	if p.waiting.Len() == 0 {
		if c := p.reserveLocked(); c != nil {
			p.mu.Unlock()
			return c, nil
		}
	}
	turn := make(chan outcome, 1)
	element := p.waiting.PushBack(turn)
	p.dialLocked()
	p.mu.Unlock()

	select {
	case o := <-turn:
		return o.connection, o.err
	case <-ctx.Done():
	}
	p.mu.Lock()
	var late outcome
	select {
	case late = <-turn:
	default:
		p.waiting.Remove(element)
		p.dialLocked()
	}
	p.mu.Unlock()
	if late.connection != nil {
		late.connection.release()
	}
	return nil, context.Cause(ctx)
}

// refused prefers other connections to c, which has just refused a request, until a
// slot of c becomes free.
func (p *pool) refused(c connection) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, m := range p.members {
		if m.connection == c {
			m.full = true
		}
	}
}

// closeIdle closes the connections without streams.
func (p *pool) closeIdle() {
	p.mu.Lock()
	var idle []*member
	for _, m := range slices.Clone(p.members) {
		if !m.unsettled && m.connection.taken() == 0 {
			p.removeLocked(m)
			idle = append(idle, m)
		}
	}
	p.mu.Unlock()
	for _, m := range idle {
		m.connection.close()
	}
}

// reserveLocked takes a slot, and returns nil if no connection has one.
func (p *pool) reserveLocked() connection {
	for _, m := range p.members {
		if m.full {
			continue
		}
		if m.connection.reserve() {
			m.used = true
			m.stopTimerLocked()
			return m.connection
		}
		m.full = true
	}
	return nil
}

// serveLocked gives slots to those that wait, in their order, and dials for the rest.
func (p *pool) serveLocked() {
	for p.waiting.Len() > 0 {
		c := p.reserveLocked()
		if c == nil {
			break
		}
		p.waiting.Remove(p.waiting.Front()).(chan outcome) <- outcome{connection: c}
	}
	p.dialLocked()
}

// failLocked returns err to all that wait.
func (p *pool) failLocked(err error) {
	for p.waiting.Len() > 0 {
		p.waiting.Remove(p.waiting.Front()).(chan outcome) <- outcome{err: err}
	}
	p.dialLocked()
}

// dialLocked begins the dials that those who wait need, and cancels all if nobody
// waits. A connection that does not know its limit yet counts as a dial.
func (p *pool) dialLocked() {
	if p.waiting.Len() == 0 {
		for m, cancel := range p.dials {
			cancel()
			delete(p.dials, m)
		}
		return
	}
	needed := min((p.waiting.Len()+p.limit-1)/p.limit, maxDials)
	for range needed - len(p.dials) - p.unsettled {
		ctx, cancel := context.WithCancel(context.Background())
		m := &member{pool: p}
		p.dials[m] = cancel
		go m.dial(ctx)
	}
}

// removeLocked removes a connection, which takes no new streams from here on.
func (p *pool) removeLocked(m *member) {
	m.removed = true
	m.stopTimerLocked()
	if m.unsettled {
		m.unsettled = false
		p.unsettled--
	}
	p.members = slices.DeleteFunc(p.members, func(other *member) bool { return other == m })
}
