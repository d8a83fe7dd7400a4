// SPDX-License-Identifier: Apache-2.0

package admission

import "time"

// Status is what a controller knows of itself at one moment.
type Status struct {
	// Opening counts the attempts under way, InLine the members that wait for
	// others, Pausing those that wait for a time.
	Opening, InLine, Pausing int
	// Cause is what the server, or a resource, fails at as a whole; nil while all
	// is well. At is when that was last seen.
	Cause error
	At    time.Time
}

// Status returns what the controller knows of itself.
func (c *Controller) Status() Status {
	c.mu.Lock()
	defer c.mu.Unlock()
	status := Status{Opening: c.opening + c.failing + c.hung}
	for _, r := range c.resources {
		status.InLine += r.lanes[0].count() + r.lanes[1].count()
		status.note(&r.trouble)
	}
	for _, m := range c.schedule {
		if m.state == pausing {
			status.Pausing++
		}
	}
	status.note(&c.server)
	return status
}

// Waiting is why a member waits.
type Waiting struct {
	// Held is until when the server asked to be left alone, zero if it did not.
	Held time.Time
	// Until is when the member's pause ends, zero if it is not in one.
	Until time.Time
	// Ahead is how many members are in line of the same resource, itself included.
	Ahead int
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
		w.Until, w.Held = m.due, m.held
	case inLine:
		w.Ahead = m.resource.lanes[0].count() + m.resource.lanes[1].count()
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
		s.Cause, s.At = t.cause, t.at
	}
}
