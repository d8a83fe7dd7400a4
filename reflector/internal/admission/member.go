// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"context"
	"errors"
	"time"
)

// ErrLeft is returned by Acquire once the member has left.
var ErrLeft = errors.New("the member has left")

// state is where a member is.
type state uint8

const (
	idle    state = iota // it has asked for nothing
	pausing              // it waits for a time
	inLine               // it waits for others
	opening              // its attempt is under way and counts
	hung                 // its attempt is under way and counts no longer
	gone
)

// Member is one object that is to be listed and watched. Acquire, Release and
// Ended are called from one goroutine; the other methods from any.
type Member struct {
	controller *Controller
	resource   *resource
	notify     func()

	// The fields below are guarded by Controller.mu.
	state    state
	waited   bool   // a caller waits for it, and no attempt was made since
	synced   bool   // it was synced before
	failing  bool   // it belongs to the lane of failing members
	apart    bool   // its attempt under way began in that lane
	forgiven bool   // once since it was last synced
	tried    bool   // it has made an attempt
	strikes  uint32 // attempts that failed in a row
	short    uint32 // streams in a row that ended soon

	ready         chan struct{} // closed when Acquire may return
	line          *line
	before, after *Member // in line
	position      int     // in the schedule, from 1 on
	due           time.Time
	began, ended  time.Time // of the last attempt, or stream
	pause         time.Duration
	held          time.Time // the server asked to be left alone until then
	cause         error     // of the last failure
}

// Acquire waits until the member may make an attempt, and then returns nil. It
// must be followed by Release. It returns ctx's error when ctx ends, and
// [ErrLeft] when the member leaves.
func (m *Member) Acquire(ctx context.Context) error {
	ready := m.request()
	select {
	case <-ready:
	case <-ctx.Done():
		m.Release(Outcome{})
		return ctx.Err()
	}
	m.controller.mu.Lock()
	defer m.controller.mu.Unlock()
	if m.state == gone {
		return ErrLeft
	}
	return nil
}

// request puts the member in line, or in the pause before that.
func (m *Member) request() <-chan struct{} {
	c := m.controller
	c.mu.Lock()
	defer c.mu.Unlock()
	ready := make(chan struct{})
	if m.state == gone {
		close(ready)
		return ready
	}
	m.ready = ready
	m.state = pausing
	c.schedule.set(m, m.readyAt())
	c.admitLocked()
	return ready
}

// readyAt is when the pause of a member ends. A caller that waits cuts short a
// long one, and never what the server asked for.
func (m *Member) readyAt() time.Time {
	pause := m.pause
	if m.waited {
		pause = min(pause, between(shortestWaited, longestWaited))
	}
	return later(m.ended.Add(pause), m.held)
}

// Expedite says that a caller waits for the member's next attempt. Its pause is
// over 1.1 to 1.6 s after its last attempt at the latest, but for a Retry-After,
// and it goes before members that no caller waits for, by weight. That holds for
// one attempt. Expedite does nothing while an attempt is under way.
func (m *Member) Expedite() {
	c := m.controller
	c.mu.Lock()
	defer c.mu.Unlock()
	if m.waited || m.state == opening || m.state == hung || m.state == gone {
		return
	}
	m.leaveLine()
	m.waited = true
	switch m.state {
	case pausing:
		if at := m.readyAt(); at.Before(m.due) {
			c.schedule.set(m, at)
		}
	case inLine:
		c.enqueueLocked(m)
	}
	c.admitLocked()
}

// Release reports how the attempt went, or takes back a request that is still
// waiting. Nothing happens if there is neither.
func (m *Member) Release(o Outcome) {
	c := m.controller
	c.mu.Lock()
	defer c.mu.Unlock()
	switch m.state {
	case opening, hung:
		c.finishLocked(m, o, time.Now())
	case pausing, inLine:
		m.state = idle
		c.withdrawLocked(m)
	default:
		return
	}
	c.admitLocked()
}

// Ended reports that the stream which a synced attempt had opened has ended, how
// long it had lived, and why. The next attempt of a member whose streams end soon
// comes after a pause. A member whose stream was refused shares the budget of those
// that fail.
func (m *Member) Ended(lived time.Duration, o Outcome) {
	c := m.controller
	c.mu.Lock()
	defer c.mu.Unlock()
	if m.short++; lived >= stableAfter {
		m.short = 1
	}
	pause := memberPace.pause(m.short)
	if o.Kind == Answered { // the next attempt asks for something else
		pause = max(0, pause-lived)
	}
	if o.Kind == Refused { // a list is served, and a watch is not
		m.failing = true
	}
	m.rest(pause, o, time.Now())
}

// rest makes the next attempt of the member wait.
func (m *Member) rest(pause time.Duration, o Outcome, now time.Time) {
	m.ended, m.pause, m.cause = now, pause, o.Cause
	m.held = time.Time{}
	if o.RetryAfter > 0 {
		m.held = now.Add(retryAfter(o.RetryAfter))
	}
}

// Leave ends the membership. Acquire returns ErrLeft from then on.
func (m *Member) Leave() {
	c := m.controller
	c.mu.Lock()
	defer c.mu.Unlock()
	if m.state == gone {
		return
	}
	c.removeLocked(m)
	c.admitLocked()
}

// class is why the member is in line.
func (m *Member) class() class {
	switch {
	case m.waited:
		return waited
	case m.synced:
		return returning
	}
	return fresh
}

// lane is where the member stands in line.
func (m *Member) lane() *lane {
	if m.failing {
		return &m.resource.lanes[1]
	}
	return &m.resource.lanes[0]
}
