// SPDX-License-Identifier: Apache-2.0

package admission

import "time"

// Status is what a controller knows of itself at one moment.
type Status struct {
	// Opening counts the attempts under way, Queued the members that wait for
	// others, Paused those that wait for a time.
	Opening, Queued, Paused int
	// Cause is the last failure of the server, or of a resource, that is in an
	// outage; nil while none is. CauseTime is when it was seen.
	Cause     error
	CauseTime time.Time
}

// Status returns what the controller knows of itself.
func (c *Controller) Status() Status {
	c.mu.Lock()
	defer c.mu.Unlock()
	status := Status{Opening: c.opening + c.failing + c.hung}
	for _, r := range c.resources {
		status.Queued += r.lanes[0].count() + r.lanes[1].count()
		status.note(&r.trouble)
	}
	for _, m := range c.schedule {
		if m.state == pausing {
			status.Paused++
		}
	}
	status.note(&c.server)
	return status
}

// Waiting is why a member waits.
type Waiting struct {
	// RetryAfter is the time before which the server asked for no other request of
	// this member; zero if it did not ask.
	RetryAfter time.Time
	// Until is when the member's pause ends, zero if it is not in one.
	Until time.Time
	// Queued is how many members of the same resource are queued, itself included.
	Queued int
	// Kind and Cause are what the server, or the resource, fails at as a whole.
	// Kind is Canceled if there is nothing. Since is when it began, At when it was
	// last seen.
	Kind      Kind
	Cause     error
	Since, At time.Time
}

// Waiting returns why the member waits, false if it does not.
func (m *Member) Waiting() (Waiting, bool) {
	c := m.controller
	c.mu.Lock()
	defer c.mu.Unlock()
	var w Waiting
	switch m.state {
	case pausing:
		w.Until, w.RetryAfter = m.due, m.held
	case inLine:
		w.Queued = m.resource.lanes[0].count() + m.resource.lanes[1].count()
	default:
		return w, false
	}
	for _, t := range []*trouble{&c.server, &m.resource.trouble} {
		if t.proved && w.Kind == Canceled {
			w.Kind, w.Cause, w.Since, w.At = t.kind, t.cause, t.since, t.at
		}
	}
	return w, true
}

// note makes a trouble that is proved the status' own.
func (s *Status) note(t *trouble) {
	if t.proved {
		s.Cause, s.CauseTime = t.cause, t.at
	}
}
