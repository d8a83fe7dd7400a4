// SPDX-License-Identifier: Apache-2.0

package h2

import (
	"context"
	"net/http"
	"slices"
	"time"
)

// pooledConn is a connection of a pool, from its dial to its end. Its fields are guarded by
// pool.mu.
type pooledConn struct {
	pool       *pool
	counters   *Counters  // nil if nobody counts
	connection connection // nil during the dial

	overdue *time.Timer // of the dial; not nil while it counts in pool.expected
	settled bool        // its limit is known
	full    bool        // it had no slot, and none has become free since
	used    bool        // it has taken a request
	removed bool        // it takes no more
	timer   *time.Timer // closes it when it was idle for long enough

	usual    time.Duration // how long an opening takes until its answer; of the dial before the first one
	suspect  bool          // its server does not answer openings
	answered time.Time     // when the server has last answered one, zero for never
	resets   int           // openings that the server has reset since
	trial    time.Time     // until then, openings that it resets are tried elsewhere

	closings int  // pool.closings when the dial began
	closing  bool // closeIdle was called, and no stream was begun since
}

// farAway is how long a dial takes at least if the server is far away. Then its SETTINGS are not waited for, which come
// a round trip later.
const farAway = 100 * time.Millisecond

// dial makes the connection, which request needs. ctx ends when nobody waits for it.
func (m *pooledConn) dial(ctx context.Context, request *http.Request) {
	began, p := time.Now(), m.pool
	c, err := p.dial(ctx, request, m)
	took := time.Since(began)
	if err == nil && took >= farAway {
		c.begin(p.lastLimit())
	}
	p.mu.Lock()
	defer p.unlock()
	cancel, wanted := p.dials[m]
	if wanted {
		cancel()
		delete(p.dials, m)
	}
	if err == nil && m.removed {
		err = unused(c)
	}
	if err != nil {
		m.arrivedLocked()
		if wanted {
			p.failLocked(err)
		}
		return
	}
	if m.overdue != nil {
		m.overdue.Stop() // a silent server is not dialled again and again
	}
	p.overdues = 0
	p.trip, m.usual = took/2, took
	m.connection = c
	m.closing = m.closings < p.closings
	p.pooled = append(p.pooled, m)
	m.settleLocked()
	p.serveLocked()
	if c.taken() == 0 {
		m.startTimerLocked()
	}
}

// expectLocked counts m among the expected connections, until it takes streams, fails
// or is overdue.
func (m *pooledConn) expectLocked() {
	m.pool.expected++
	after := overdueAfter
	if m.pool.overdueLocked() && m.pool.mayBeAwayLocked() {
		after = overdueAfterFirst
	}
	m.overdue = time.AfterFunc(max(after, dialTrips*min(m.pool.trip, longestTrip)), func() {
		m.pool.mu.Lock()
		defer m.pool.mu.Unlock()
		if m.overdue != nil {
			m.pool.overdue = time.Now()
			m.pool.overdues++
		}
		m.arrivedLocked()
		m.pool.serveLocked()
	})
}

// arrivedLocked counts m among the expected connections no more.
func (m *pooledConn) arrivedLocked() {
	if m.overdue != nil {
		m.overdue.Stop()
		m.overdue = nil
		m.pool.expected--
	}
}

// settleLocked learns the limit of the connection when it is known.
func (m *pooledConn) settleLocked() {
	if limit := m.connection.limit(); !m.settled && limit > 0 {
		m.settled = true
		m.pool.limit = limit
		m.arrivedLocked()
	}
}

// slotFreed implements connectionEvents.
func (m *pooledConn) slotFreed(connection) {
	m.pool.mu.Lock()
	defer m.pool.unlock()
	if m.connection == nil || m.removed {
		return
	}
	m.full = false
	m.settleLocked()
	m.pool.serveLocked()
}

// idle implements connectionEvents.
func (m *pooledConn) idle(connection) {
	m.pool.mu.Lock()
	defer m.pool.unlock() // which closes it if it drains
	if m.connection != nil && !m.removed {
		m.startTimerLocked()
	}
}

// gone implements connectionEvents.
func (m *pooledConn) gone(c connection) {
	p := m.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	if m.removed {
		p.draining = slices.DeleteFunc(p.draining, func(other *pooledConn) bool { return other == m })
		return
	}
	m.counters.left(c.reason())
	if m.connection == nil {
		m.removed = true // dial sees it
		return
	}
	p.removeLocked(m)
	if m.used && m.settled { // else it has refused this client
		p.dialLocked()
	} else {
		p.failLocked(unused(c))
	}
}

func (m *pooledConn) startTimerLocked() {
	if m.timer == nil {
		m.timer = time.AfterFunc(idleTimeout, m.expire)
		return
	}
	m.timer.Reset(idleTimeout)
}

func (m *pooledConn) stopTimerLocked() {
	if m.timer != nil {
		m.timer.Stop()
	}
}

// expire closes the connection if it is idle. It may have taken a stream since the
// timer was started; then another call of idle follows.
func (m *pooledConn) expire() {
	m.pool.mu.Lock()
	expired := !m.removed && m.connection.taken() == 0
	if expired {
		m.counters.left(Idle)
		m.pool.removeLocked(m)
		m.pool.dialLocked()
	}
	m.pool.mu.Unlock()
	if expired {
		m.connection.close()
	}
}
