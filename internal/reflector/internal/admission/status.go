// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"time"

	"github.com/refwatch/refwatch/internal/reflector/histogram"
)

// Status is the state of a controller at one moment.
type Status struct {
	// Opening counts the attempts under way, Queued the members that wait for others,
	// Paused those that wait for a time.
	Opening, Queued, Paused int
	// Window is how many attempts of healthy members may be under way and count, of all resources with members. In an
	// outage it is 1, the probe.
	Window int
	// Waits is how long members were queued until their attempts began.
	Waits histogram.Snapshot
	// Cause is the last failure of the server, or of a resource, that is in an outage; nil while none is. CauseTime is
	// when it was seen, and Since when that outage was noticed: it is kept if no member could end the outage meanwhile.
	Cause            error
	CauseTime, Since time.Time
}

// Status returns the controller's state.
func (c *Controller) Status() Status {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := &c.server
	status := Status{Opening: s.opening + s.failing + s.hung, Window: s.windowNow(), Waits: s.waits.Snapshot()}
	for _, r := range s.resources {
		status.Queued += r.queued()
		status.add(&r.outage)
	}
	for _, m := range s.schedule {
		if m.state == paused {
			status.Paused++
		}
	}
	status.add(&s.outage)
	return status
}

// windowNow returns how many attempts of healthy members may be under way and count.
func (s *server) windowNow() (window int) {
	for _, r := range s.resources {
		switch {
		case r.members == 0:
		case r.outage.confirmed:
			window++
		default:
			window += int(r.window.size)
		}
	}
	if s.outage.confirmed {
		return min(window, 1)
	}
	return min(window, s.limit)
}

// add sets the cause if the outage is confirmed.
func (s *Status) add(o *outage) {
	if o.confirmed {
		s.Cause, s.CauseTime, s.Since = o.cause, o.lastSeen.Time(), o.told.Since
	}
}

// Waiting is the reason why a member waits.
type Waiting struct {
	// RetryAfter is the time before which the server asked for no other request of this member; zero if it did not ask.
	RetryAfter time.Time
	// Until is when the member's pause ends, zero if there is none.
	Until time.Time
	// Queued is how many members of the same resource are queued, itself included.
	Queued int
	// Kind and Cause are the last failure of the server, or of the resource, if it is in an outage. Otherwise Kind is
	// Canceled. Since is when the outage was noticed, At when it was last seen. They are also set for a member that
	// does not wait.
	Kind      Kind
	Cause     error
	Since, At time.Time
	// Hung is set while the member does not wait: its attempt is under way, and takes much longer than usual for the
	// resource.
	Hung bool
	// RoundTrip is the least time until an answer of the server in the last minutes in which it answered, 8 s at most,
	// and 0 before the first one.
	RoundTrip time.Duration
}

// Patience returns how long an attempt may have no answer until it is likely to be lost: the longest of 5 s, four round
// trips, and twice the usual latency of the resource, which counts up to 8 s. It is 30 s before the server's first
// answer.
func (m *Member) Patience() time.Duration {
	m.controller.mu.Lock()
	defer m.controller.mu.Unlock()
	return m.controller.server.patience(m.resource)
}

// Waiting returns why the member waits, and false if it does not.
func (m *Member) Waiting() (Waiting, bool) {
	m.controller.mu.Lock()
	defer m.controller.mu.Unlock()
	w, waits := Waiting{RoundTrip: m.controller.server.way.roundTrip()}, true
	switch m.state {
	case paused:
		w.Until, w.RetryAfter = m.due.Time(), m.retryAfter.Time()
	case queued:
		w.Queued = m.resource.queued()
	default:
		w.Hung, waits = m.state == hung, false
	}
	for _, o := range []*outage{&m.controller.server.outage, &m.resource.outage} {
		if o.confirmed {
			w.Kind, w.Cause, w.Since, w.At = o.kind, o.cause, o.since.Time(), o.lastSeen.Time()
			break
		}
	}
	return w, waits
}
