// SPDX-License-Identifier: Apache-2.0

package admission

import "time"

// successTokens is how many attempts a successful attempt of a failing member adds to each budget. So the budget does
// not slow down the members that meet one bad server of three behind a load balancer.
const successTokens = 3

// finish ends the attempt of m and learns from its outcome.
func (s *server) finish(m *member, outcome Outcome, now time.Time) {
	wasHung := m.state == hung
	s.schedule.remove(m)
	s.uncount(m)
	m.state = idle
	switch outcome.Kind {
	case Canceled:
		s.endProbe(m, now)
	case Synced:
		s.succeed(m, now)
	default:
		s.fail(m, outcome, wasHung, now)
	}
}

// succeed learns from an attempt that synced.
func (s *server) succeed(m *member, now time.Time) {
	r := m.resource
	s.lastSuccess, r.lastSuccess = now, now
	r.throttles, r.throttledUntil = 0, time.Time{}
	r.latency.observe(now.Sub(m.began))
	if !m.failingAttempt {
		r.window.grow(s.limit)
	} else if m.shortStreams <= 1 {
		s.budgets[expedited].add(successTokens)
		s.budgets[unsynced].add(successTokens)
	}
	if !m.synced {
		m.synced = true
		s.synced++
		r.synced++
	}
	m.failures, m.failing, m.retried = 0, false, false
	m.setPause(0, 0, now)
	delete(s.firstFailures, m)
	s.answered, s.failures = true, 0
	s.outage.clear()
	r.outage.clear()
	s.retryFirstFailures(func(m *member, kind Kind) bool {
		return m.resource == r || kind == Unreachable || kind == Unauthorized
	}, now)
}

// retryFirstFailures ends the pauses of members that failed for the first time since the last success, or in an outage
// of the server: the cause may have been the resource, or the server. Many of them may fail again where the server
// answers. So they stay in the lane of failing members, where a success adds to the budget.
func (s *server) retryFirstFailures(eligible func(*member, Kind) bool, now time.Time) {
	for m, kind := range s.firstFailures {
		if !eligible(m, kind) {
			continue
		}
		delete(s.firstFailures, m)
		m.resource.dequeue(m)
		m.retried, m.failures, m.failing = true, 0, kind == Failed
		m.pause = 0
		switch m.state {
		case paused:
			s.schedule.set(m, later(now, m.retryAfter))
		case queued:
			m.resource.enqueue(m, now)
		}
	}
}

// fail learns from an attempt that failed. If it was hung, attemptHung has recorded its failure.
func (s *server) fail(m *member, outcome Outcome, wasHung bool, now time.Time) {
	m.failures++
	s.backOff(m, outcome, now)
	if outcome.Kind != Unreachable {
		s.answered = true
		s.learnAnswer(outcome.Kind, now)
	}
	if outcome.Kind == Answered {
		m.resource.outage.clear()
	}
	s.outage.seen(outcome.Kind, now)
	m.resource.outage.seen(outcome.Kind, now)
	healthy := !wasHung && !m.failingAttempt && (!m.retried || outcome.Kind == Unreachable)
	if healthy || outcome.Kind == Unauthorized {
		s.learnFailure(m, outcome, now)
	}
	s.endProbe(m, now)
}

// backOff begins the pause of a member that failed, and sets its lane. An outcome that may well pass with the next
// attempt does not make it a failing member.
func (s *server) backOff(m *member, outcome Outcome, now time.Time) {
	b, transient := memberBackoff, false
	switch outcome.Kind {
	case Answered, Throttled:
		transient = m.failures == 1
	case Unreachable:
		b = unreachableBackoff
	}
	m.failing = !transient
	pause := b.pause(m.failures)
	if outcome.Kind == Answered && transient {
		pause = 0
	}
	m.setPause(pause, outcome.RetryAfter, now)
	duringOutage := s.outage.confirmed && s.outage.kind == outcome.Kind // then it is not the member's failure
	switch outcome.Kind {
	case Failed, Unreachable, Unauthorized:
		if duringOutage || m.failures == 1 && !m.retried {
			s.firstFailures[m] = outcome.Kind
		}
	}
}

// learnAnswer learns from an answer of the server: it can be reached, and the members that did not reach it may try
// again. A 401 does not end an outage by 401.
func (s *server) learnAnswer(kind Kind, now time.Time) {
	if s.outage.kind == kind {
		return
	}
	if s.outage.confirmed {
		s.failures = 0
		s.retryFirstFailures(func(_ *member, kind Kind) bool { return kind == Unreachable || kind == Unauthorized }, now)
	}
	s.outage.interrupt(serverBackoff, now)
}

// learnFailure learns from the failure of a healthy member, or from a 401: the cause may be the resource or the server.
func (s *server) learnFailure(m *member, outcome Outcome, now time.Time) {
	r := m.resource
	s.failures++
	if outcome.Kind == Throttled {
		r.throttle(m, now)
	}
	if r.lastSuccess.After(m.began) || outcome.Kind == Unauthorized && s.lastSuccess.After(m.began) {
		return // another member was served meanwhile
	}
	switch {
	case outcome.Kind == Unauthorized:
		s.record(&s.outage, m, outcome, 1, now)
	case outcome.Kind == Unreachable && m.synced:
		s.record(&s.outage, m, outcome, failureThreshold(s.synced), now)
	case outcome.Kind == Unreachable && !s.answered:
		s.record(&s.outage, m, outcome, failureThreshold(s.members), now)
	case outcome.Kind == Failed && m.synced:
		s.record(&r.outage, m, outcome, failureThreshold(r.synced), now)
	case outcome.Kind == Throttled:
		s.record(&r.outage, m, outcome, failureThreshold(r.members), now)
	}
}

// attemptHung learns from an attempt that lasts for too long. It counts no longer.
func (s *server) attemptHung(m *member, now time.Time) {
	r := m.resource
	s.uncount(m)
	m.state = hung
	s.hung++
	switch {
	case m.failingAttempt || r.lastSuccess.After(m.began):
	case m.synced:
		s.record(&r.outage, m, Outcome{Kind: Failed, Cause: errHung}, failureThreshold(r.synced), now)
	case !s.answered:
		s.record(&s.outage, m, Outcome{Kind: Unreachable, Cause: errHung}, failureThreshold(s.members), now)
	}
	s.endProbe(m, now)
}

// record records a failure that may be an outage. If that confirms the outage, the windows shrink, the budgets are
// emptied for the server's return, and the members that wait are notified.
func (s *server) record(o *outage, m *member, outcome Outcome, threshold int, now time.Time) {
	if !o.record(m, outcome, threshold, now) {
		return
	}
	if outcome.Kind == Throttled { // the first probe waits, as the resource does
		o.nextProbe = m.resource.throttledUntil
	}
	for _, b := range s.budgets {
		b.empty()
	}
	involved := func(r *resource) bool { return o == &s.outage || o == &r.outage }
	for _, r := range s.resources {
		if involved(r) {
			r.window.shrink()
		}
	}
	s.notify(involved)
}
