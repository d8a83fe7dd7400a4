// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"errors"
	"time"
)

// errHung is the cause of a trouble that attempts without an answer prove.
var errHung = errors.New("the server does not answer")

// finishLocked ends an attempt and learns from its outcome.
func (c *Controller) finishLocked(m *Member, o Outcome, now time.Time) {
	late := m.state == hung
	c.schedule.drop(m)
	c.uncountLocked(m)
	m.state = idle
	switch o.Kind {
	case Canceled:
		c.endProbeLocked(m, now)
	case Synced:
		c.succeedLocked(m, now)
	default:
		c.failLocked(m, o, late, now)
	}
}

// succeedLocked learns from an attempt that brought the state.
func (c *Controller) succeedLocked(m *Member, now time.Time) {
	r := m.resource
	c.succeeded, r.succeeded, r.throttles, r.free = now, now, 0, time.Time{}
	r.observe(now.Sub(m.began))
	if m.apart && m.short <= 1 {
		c.budgets[waited].add(successPays)
		c.budgets[fresh].add(successPays)
	} else if !m.apart {
		r.grow(float64(c.most))
	}
	if !m.synced {
		m.synced = true
		c.synced++
		r.synced++
	}
	m.strikes, m.failing, m.forgiven = 0, false, false
	m.ended, m.pause, m.held, m.cause = now, 0, time.Time{}, nil
	delete(c.suspects, m)
	c.answered, c.streak = true, 0
	c.server.clear()
	r.trouble.clear()
	c.forgiveLocked(func(m *Member, kind Kind) bool {
		return m.resource == r || kind == Unreachable || kind == Unauthorized
	})
}

// forgiveLocked ends the pauses of members that failed for the first time since the
// last success: it may have been the fault of the resource, or of the server. Where
// the server answers, many of them may fail again. So they stay in the lane of
// failing members, where a success pays for more attempts.
func (c *Controller) forgiveLocked(eligible func(*Member, Kind) bool) {
	for m, kind := range c.suspects {
		if !eligible(m, kind) {
			continue
		}
		delete(c.suspects, m)
		m.leaveLine()
		m.forgiven, m.strikes, m.failing = true, 0, kind == Failed
		m.pause = 0
		switch m.state {
		case pausing:
			c.schedule.set(m, later(time.Now(), m.held))
		case inLine:
			c.enqueueLocked(m)
		}
	}
}

// failLocked learns from an attempt that did not bring the state. What late ones say
// of others was learned when they became late.
func (c *Controller) failLocked(m *Member, o Outcome, late bool, now time.Time) {
	m.strikes++
	c.punishLocked(m, o, now)
	if o.Kind != Unreachable {
		c.answered = true
		c.answeredLocked(o.Kind)
	}
	if o.Kind == Answered {
		m.resource.trouble.clear()
	}
	if !late && !m.apart && (!m.forgiven || o.Kind == Unreachable) || o.Kind == Unauthorized {
		c.blameLocked(m, o, now)
	}
	c.endProbeLocked(m, now)
}

// answeredLocked learns from any answer of the server: it is there, and what
// failed because it was not may try again.
func (c *Controller) answeredLocked(kind Kind) {
	if c.server.kind == kind { // which is Unauthorized, then
		return
	}
	if c.server.proved {
		c.streak = 0
		c.forgiveLocked(func(_ *Member, kind Kind) bool { return kind == Unreachable || kind == Unauthorized })
	}
	c.server.clear()
}

// endProbeLocked notes that the probe of a member, if it was one, ended no
// trouble.
func (c *Controller) endProbeLocked(m *Member, now time.Time) {
	for _, t := range [...]*trouble{&c.server, &m.resource.trouble} {
		if t.probe == m {
			t.failed(m, now)
		}
	}
}

// punishLocked makes a member pause that failed, and puts it in its lane. What
// may pass with the next attempt does not make it a failing member.
func (c *Controller) punishLocked(m *Member, o Outcome, now time.Time) {
	pace, passing := memberPace, false
	switch o.Kind {
	case Answered, Throttled:
		passing = m.strikes == 1
	case Unreachable:
		pace = unreachablePace
	}
	m.failing = !passing
	pause := pace.pause(m.strikes)
	if o.Kind == Answered && passing {
		pause = 0
	}
	m.rest(pause, o, now)
	switch o.Kind {
	case Failed, Unreachable, Unauthorized:
		if m.strikes == 1 && !m.forgiven {
			c.suspects[m] = o.Kind
		}
	}
}

// blameLocked decides what the failure of a healthy member says of others.
func (c *Controller) blameLocked(m *Member, o Outcome, now time.Time) {
	r := m.resource
	c.streak++
	if o.Kind == Throttled {
		r.throttle(m, now)
	}
	if r.succeeded.After(m.began) || o.Kind == Unauthorized && c.succeeded.After(m.began) {
		return // the server served others meanwhile
	}
	switch {
	case o.Kind == Unauthorized:
		c.suspectLocked(&c.server, m, o, 1, now)
	case o.Kind == Unreachable && m.synced:
		c.suspectLocked(&c.server, m, o, needed(c.synced), now)
	case o.Kind == Unreachable && !c.answered:
		c.suspectLocked(&c.server, m, o, needed(c.members), now)
	case o.Kind == Failed && m.synced:
		c.suspectLocked(&r.trouble, m, o, needed(r.synced), now)
	case o.Kind == Throttled:
		c.suspectLocked(&r.trouble, m, o, needed(r.members), now)
	}
}

// suspectLocked notes a failure that may be more than the member's own. A trouble
// that is proved by it narrows the windows.
func (c *Controller) suspectLocked(t *trouble, m *Member, o Outcome, needed int, now time.Time) {
	if !t.suspect(m, o, needed, now) {
		return
	}
	for _, b := range c.budgets { // what was saved up is too much for a server that returns
		b.tokens = 0
	}
	involved := func(r *resource) bool { return t == &c.server || t == &r.trouble }
	for _, r := range c.resources {
		if involved(r) {
			r.shrink()
		}
	}
	c.noticeLocked(involved)
}
