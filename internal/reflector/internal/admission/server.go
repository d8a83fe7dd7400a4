// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"github.com/refwatch/refwatch/internal/reflector/histogram"
	"github.com/refwatch/refwatch/internal/reflector/internal/moment"
)

const (
	// failingRate is how many attempts of failing members begin in a second at most; expeditedRate is how many more of
	// those that a caller waits for.
	failingRate, expeditedRate = 20, 160
	// maxFailingAttempts is how many attempts of failing members are under way and count at most. Fewer are too few
	// where answers take seconds: such an attempt counts for 5 s. More overload a server that is slow because
	// it is loaded.
	maxFailingAttempts = 20
)

// server is what is known of the API server, and of the members and their attempts. It is guarded by Controller.mu.
type server struct {
	census

	limit     int // of opening
	resources []*resource

	schedule schedule
	opening  int // attempts of healthy members that are under way and count
	hung     int // attempts that are under way and count no longer
	failing  int // attempts of failing members that are under way and count
	budgets  [classes]*budget
	credit   int // reserved attempts that may begin until the next success

	outage        outage
	answered      bool // the server has answered
	way           way
	lastSuccess   moment.Moment    // of any member
	firstFailures map[*member]Kind // members that failed for the first time since the last success, or in an outage
	failures      int              // failed attempts of healthy members in a row
	lastBegan     moment.Moment    // when an attempt of a healthy member last began
	waits         histogram.Histogram

	wake     moment.Moment // when admit must run again, beside the schedule; zero for never
	toNotify []Observer    // that an outage has begun, without a lock
	changes  []change      // that are not reported yet
}

func newServer(limit int) server {
	failing := newBudget(failingRate, failingRate)
	return server{
		limit:         max(1, limit),
		budgets:       [classes]*budget{expedited: newBudget(expeditedRate, expeditedRate), returning: failing, unsynced: failing},
		firstFailures: map[*member]Kind{},
		credit:        fullCredit,
	}
}

// join makes m a member of the resource of that name.
func (s *server) join(m *member, name string) {
	m.resource = s.resource(name)
	for _, c := range s.censuses(m) {
		c.count(1, m.synced)
	}
}

func (s *server) resource(name string) *resource {
	for _, r := range s.resources {
		if r.name == name {
			return r
		}
	}
	r := newResource(name, s.limit)
	s.resources = append(s.resources, r)
	return r
}

// leave makes m no member any more, for ever.
func (s *server) leave(m *member, now moment.Moment) {
	before := m.state
	if before == resting {
		s.countResting(m, -1)
	} else {
		s.remove(m, now)
	}
	for _, c := range s.censuses(m) {
		c.count(-1, m.synced)
	}
	s.clearIfInactive(m.resource)
	m.state = left
	if before == paused || before == queued {
		m.endWait()
	}
}

// rest keeps m out of everything until resume: it makes no attempt.
func (s *server) rest(m *member, now moment.Moment) {
	s.remove(m, now)
	m.state = resting
	s.countResting(m, 1)
	s.clearIfInactive(m.resource)
	m.expedited, m.shortStreams = false, 0
}

// resume ends the rest of m. It reports whether its last attempt was recent, or a Retry-After still counts.
func (s *server) resume(m *member, now moment.Moment) (recent bool) {
	m.state, m.resumed = idle, true
	s.countResting(m, -1)
	recent = now.Sub(m.ended) <= memberBackoff.longest
	if !recent {
		m.failures, m.failing, m.retried = 0, false, false
		m.ended, m.pause = 0, 0
	}
	m.attempted = m.failing || m.failures > 0
	return recent || m.retryAfter.After(now)
}

// countResting counts a member that rests, or does so no longer.
func (s *server) countResting(m *member, n int) {
	for _, c := range s.censuses(m) {
		c.rest(n, m.synced)
	}
}

// censuses returns those that count m.
func (s *server) censuses(m *member) [2]*census { return [...]*census{&s.census, &m.resource.census} }

// remove removes m from all but the census.
func (s *server) remove(m *member, now moment.Moment) {
	r := m.resource
	s.withdraw(m)
	if m.state >= opening && m.state <= hung {
		s.uncount(m)
	}
	delete(s.firstFailures, m)
	s.endProbe(m, now)
	s.outage.remove(m)
	r.outage.remove(m)
}

// clearIfInactive ends the outages that no member can end, because each rests or has left.
func (s *server) clearIfInactive(r *resource) {
	if s.active() == 0 {
		s.outage.clear()
	}
	if r.active() == 0 {
		r.outage.clear()
	}
}

// request begins the pause of m before an attempt. proceed is called when m is admitted, or has left.
func (s *server) request(m *member, proceed func(), now moment.Moment) {
	if m.state == left {
		proceed()
		return
	}
	m.proceed = proceed
	m.state = paused
	s.schedule.set(m, m.pauseEnd())
	m.resource.reserve.offer(m, now)
}

// withdraw removes m from its queue and from the schedule.
func (s *server) withdraw(m *member) {
	m.resource.reserve.remove(m)
	m.resource.dequeue(m)
	s.schedule.remove(m)
}

// expedite shortens the pause of m, or moves it to the queue of expedited members.
func (s *server) expedite(m *member, now moment.Moment) {
	m.resource.dequeue(m)
	m.expedited = true
	switch m.state {
	case paused:
		if end := m.pauseEnd(); end.Before(m.due) {
			s.schedule.set(m, end)
		}
	case queued:
		m.resource.enqueue(m, now)
	}
}

// begin begins an attempt of m.
func (s *server) begin(m *member, now moment.Moment) {
	r := m.resource
	m.reservedAttempt = m.reserved
	r.reserve.remove(m)
	if m.state == queued {
		s.waits.Observe(now.Sub(m.due))
	}
	if m.queue != nil {
		r.lane(m).admitted(m.class())
		r.dequeue(m)
	}
	m.state, m.failingAttempt = opening, m.failing
	m.began, m.sent, m.attempted, m.expedited = now, now, true, false
	if m.failing {
		s.failing++
	} else {
		s.opening++
		r.opening++
		s.lastBegan = now
	}
	s.schedule.set(m, now.Add(s.hungAfter(m)))
	m.endWait()
}

// uncount removes the attempt of m from the counts.
func (s *server) uncount(m *member) {
	switch {
	case m.state == hung:
		s.hung--
	case m.failingAttempt:
		s.failing--
	default:
		s.opening--
		m.resource.opening--
		if m.resource.opening == 0 {
			m.resource.window.rest(s.restWindow(m.resource))
		}
	}
}

// endProbe ends the probe of m, if its attempt is one, without success.
func (s *server) endProbe(m *member, now moment.Moment) {
	r := m.resource
	if s.outage.probe == m {
		s.outage.endProbe(serverBackoff, r.throttledUntil, now)
	}
	if r.outage.probe == m {
		r.outage.endProbe(resourceBackoff, r.throttledUntil, now)
	}
}

// notify notes the observers of the waiting members of the resources that eligible accepts.
func (s *server) notify(eligible func(*resource) bool) {
	add := func(m *member) {
		if m.observer != nil && eligible(m.resource) {
			s.toNotify = append(s.toNotify, m.observer)
		}
	}
	for _, m := range s.schedule {
		if m.state == paused {
			add(m)
		}
	}
	for _, r := range s.resources {
		r.healthy.each(add)
		r.failing.each(add)
	}
}

// next returns when admit must run again; zero for never.
func (s *server) next(now moment.Moment) moment.Moment {
	if len(s.toNotify)+len(s.changes) > 0 {
		return now
	}
	if len(s.schedule) == 0 {
		return s.wake
	}
	return earlier(s.wake, s.schedule[0].due)
}
