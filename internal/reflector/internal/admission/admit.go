// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"cmp"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/refwatch/refwatch/internal/reflector/internal/moment"
)

// After spacingThreshold failures of healthy members in a row, their attempts begin attemptSpacing apart or more.
const (
	spacingThreshold = 4
	attemptSpacing   = 20 * time.Millisecond
	// maxFirstAttempts is how many attempts of a resource are under way in an outage beside its probe.
	maxFirstAttempts = 4
)

// admit handles the members that are due, and begins every attempt that may begin now.
func (s *server) admit(now moment.Moment) {
	s.wake = 0
	for len(s.schedule) > 0 && !s.schedule[0].due.After(now) {
		m := s.schedule[0]
		s.schedule.remove(m)
		if m.state == paused {
			s.endPause(m, now)
		} else {
			s.attemptHung(m, now)
		}
	}
	for m := s.pick(now); m != nil; m = s.pick(now) {
		s.begin(m, now)
	}
}

// endPause queues a member whose pause is over.
func (s *server) endPause(m *member, now moment.Moment) {
	m.state, m.due = queued, now
	m.failing = m.failing || m.failedAlone()
	m.resource.enqueue(m, now)
}

// pick returns the member to admit now, nil if there is none. It sets wake to when there may be one, if nothing else
// calls admit then.
func (s *server) pick(now moment.Moment) *member {
	if s.outage.confirmed {
		if m := s.pickProbe(&s.outage, s.resources, now); m != nil {
			return m
		}
		return s.pickReserved(now)
	}
	for _, r := range s.resources {
		if !r.outage.confirmed {
			continue
		}
		if m := s.pickProbe(&r.outage, []*resource{r}, now); m != nil {
			return m
		}
		if m := s.pickFirstAttempt(r, now); m != nil {
			return m
		}
	}
	if m := s.pickHealthy(now); m != nil {
		return m
	}
	if m := s.pickReserved(now); m != nil {
		return m
	}
	return s.pickFailing(now)
}

// inTurn returns the resources in the order in which they are served, a random one. If they took fixed turns, one whose
// members a caller waits for could give each turn to the same other one.
func (s *server) inTurn() []*resource {
	if len(s.resources) == 1 {
		return s.resources
	}
	order := slices.Clone(s.resources)
	rand.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	return order
}

// ready reports whether a time has come. If not, admit runs again then.
func (s *server) ready(at, now moment.Moment) bool {
	if at.After(now) {
		s.wake = earlier(s.wake, at)
		return false
	}
	return true
}

// pickHealthy returns the healthy member to admit, nil if there is none.
func (s *server) pickHealthy(now moment.Moment) *member {
	spaced, othersFail := s.lastBegan, s.failures >= spacingThreshold
	if othersFail {
		spaced = spaced.Add(attemptSpacing)
	}
	for _, r := range s.inTurn() {
		if r.outage.confirmed || r.opening >= int(r.window.size) || !s.hasPlace(r) {
			continue
		}
		m, notBefore := r.nextHealthy(othersFail, now)
		if m == nil || !s.ready(max(notBefore, spaced), now) {
			continue
		}
		return m
	}
	return nil
}

// pickFailing returns the failing member to admit, nil if there is none.
func (s *server) pickFailing(now moment.Moment) *member {
	if s.failing >= maxFailingAttempts {
		return nil
	}
	affordable := func(c class) bool { return s.ready(s.budgets[c].next(now), now) }
	for _, r := range s.inTurn() {
		if r.outage.confirmed || r.failing.len() == 0 || !s.ready(r.throttledUntil, now) {
			continue
		}
		if m := r.failing.next(affordable, false); m != nil {
			s.budgets[m.class()].add(-1)
			return m
		}
	}
	return nil
}

// pickFirstAttempt returns a member of a resource in an outage that has made no attempt yet, nil if there is none. It
// may be healthy where the server answers. Hence 5xx of others do not keep it from its first attempt.
func (s *server) pickFirstAttempt(r *resource, now moment.Moment) *member {
	if r.outage.kind != Failed || errors.Is(r.outage.cause, errHung) || r.opening >= maxFirstAttempts || !s.hasPlace(r) {
		return nil
	}
	m := r.newest
	if m == nil || !m.expedited {
		m = r.healthy.peek(unsynced, false)
	}
	if m == nil || m.attempted || !s.ready(s.lastBegan.Add(attemptSpacing), now) {
		return nil
	}
	return m
}

// pickProbe returns the member whose attempt is to probe, nil if there is none.
func (s *server) pickProbe(o *outage, resources []*resource, now moment.Moment) *member {
	if o.probe != nil {
		return nil
	}
	m := s.probeCandidate(o, resources, now)
	if m == nil {
		return nil
	}
	at := o.nextProbe
	switch {
	case active(resources) == 1: // its own pause is over
		at = now
	case m.resource.newest == m:
		at = earlier(at, m.resource.deadline())
	}
	if !s.ready(at, now) {
		return nil
	}
	if m.resource.newest == m { // one newest member at a time, of all resources
		for _, r := range resources {
			r.newestSince = now
		}
	}
	s.schedule.remove(m)
	o.beginProbe(m)
	return m
}

// probeCandidate returns the member to probe next, nil if none waits. It is the newest member, if there is one. Of the
// others, a random healthy one goes before failing ones. The first probe prefers a resource without failures. All
// members of a class and a resource may fail, so another class goes first at each probe, and another resource at each
// probe of a class. If some are refused, all healthy ones may be: then each third probe is of a member that a
// caller waits for, also of a failing one.
func (s *server) probeCandidate(o *outage, resources []*resource, now moment.Moment) *member {
	if m := newestOf(resources); m != nil {
		return m
	}
	if o.probes == 0 {
		for _, r := range resources {
			if m := r.healthy.next(anyClass, true); m != nil && !slices.ContainsFunc(o.failed, m.sameResource) {
				return m
			}
		}
	}
	turn := class(o.probes % uint32(classes)) // a class itself overflows at 256
	if turn == expedited && o.refusals > 0 {
		if m := cmp.Or(o.queued(expedited, false, resources), o.queued(expedited, true, resources)); m != nil {
			return m
		}
	}
	for _, failing := range []bool{false, true} {
		for i := range classes {
			if m := o.queued((turn+i)%classes, failing, resources); m != nil {
				return m
			}
		}
	}
	return s.firstPaused(resources, now)
}

// queued returns a queued member of a class and a lane, nil if there is none: a random one of the healthy, or else the
// oldest. Another resource goes first after a probe of each class.
func (o *outage) queued(c class, failing bool, resources []*resource) *member {
	for i := range resources {
		r := resources[(int(o.probes)/int(classes)+i)%len(resources)]
		lane := &r.healthy
		if failing {
			lane = &r.failing
		}
		if m := lane.peek(c, !failing); m != nil {
			return m
		}
	}
	return nil
}

// newestOf returns the newest member of some resources that has made no attempt, nil if there is none. It prefers one
// that a caller waits for.
func newestOf(resources []*resource) (m *member) {
	for _, r := range resources {
		if r.newest != nil && (m == nil || r.newest.expedited && !m.expedited) {
			m = r.newest
		}
	}
	return m
}

// firstPaused returns the member of some resources whose pause ends first, nil if there is none. A probe ends a pause
// early, but not a Retry-After, and not that of the only member: no other probes meanwhile.
func (s *server) firstPaused(resources []*resource, now moment.Moment) (first *member) {
	if active(resources) == 1 {
		return nil
	}
	for _, m := range s.schedule {
		if m.state == paused && !m.retryAfter.After(now) && slices.Contains(resources, m.resource) &&
			(first == nil || m.due.Before(first.due)) {
			first = m
		}
	}
	return first
}

// active returns how many members of some resources do not rest.
func active(resources []*resource) (count int) {
	for _, r := range resources {
		count += r.active()
	}
	return count
}
