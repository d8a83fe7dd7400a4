// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"errors"

	"github.com/refwatch/refwatch/internal/reflector/internal/moment"
)

// successTokens is how many attempts a successful attempt of a failing member adds to each budget. So the budget does
// not slow down the members that meet one bad server of three behind a load balancer.
const successTokens = 3

// finish ends the attempt of m and learns from its outcome.
func (s *server) finish(m *member, outcome Outcome, now moment.Moment) {
	wasArriving, wasHung, wasAnswered := m.state == arriving, m.state == hung, m.state == answered
	if !wasAnswered {
		s.schedule.remove(m)
		s.uncount(m)
	}
	m.state = idle
	switch outcome.Kind {
	case Canceled:
		s.endProbe(m, now)
	case GivenUp:
		if m.failing {
			longer := min(max(2*m.pause, memberBackoff.first), unreachableBackoff.longest)
			m.ended, m.pause = now, max(m.pause, longer)
		}
		s.endProbe(m, now)
	case Synced:
		if !wasAnswered {
			s.serve(m, wasArriving, now)
		}
		s.succeed(m, now)
	default:
		if wasAnswered { // what has become of the answer says nothing about the server
			m.failures++
			s.backOff(m, Outcome{Kind: Refused}, now)
			return
		}
		s.fail(m, outcome, wasHung, now)
	}
}

// succeed ends the failures of a member whose attempt synced.
func (s *server) succeed(m *member, now moment.Moment) {
	if m.failingAttempt && m.shortStreams <= 1 {
		s.budgets[expedited].add(successTokens)
		s.budgets[unsynced].add(successTokens)
	}
	if !m.synced {
		m.synced = true
		for _, c := range s.censuses(m) {
			c.synced++
		}
	}
	m.failures, m.failing, m.retried, m.resumed = 0, false, false, false
	m.setPause(0, 0, now)
}

// attemptAnswered frees the place of an attempt that the server has answered, and learns from that.
func (s *server) attemptAnswered(m *member, now moment.Moment) {
	wasArriving := m.state == arriving
	s.schedule.remove(m)
	s.uncount(m)
	m.state = answered
	s.serve(m, wasArriving, now)
}

// attemptSent learns that the request of an attempt was sent. It may be the next one of the attempt.
func (s *server) attemptSent(m *member, now moment.Moment) {
	if m.state < opening || m.state > hung {
		return
	}
	if m.sent = now; m.state == arriving {
		m.state = opening
		s.schedule.set(m, now.Add(s.hungAfter(m)))
	}
}

// attemptArrives learns that a part of the answer to an attempt has arrived. The time until the first one is the
// latency. That of the rest is the size of the object.
func (s *server) attemptArrives(m *member, first bool, now moment.Moment) {
	if m.state < opening || m.state > hung {
		return
	}
	s.answered = true
	if first {
		s.learnLatency(m, now)
	}
	if m.state != hung {
		m.state = arriving
		s.schedule.set(m, now.Add(s.patience(m.resource)))
	}
}

// learnLatency learns how long the server takes for an answer.
func (s *server) learnLatency(m *member, now moment.Moment) {
	r := m.resource
	first, took := r.latency == 0, now.Sub(m.sent) // the wait for a connection is no sign of load
	r.latency.observe(now.Sub(m.began))
	r.rise.observe(took, now)
	s.way.observe(took, now)
	if first {
		s.reschedule(r)
	}
}

// serve learns that the server has answered an attempt with the state. knowsLatency says that its latency is known.
func (s *server) serve(m *member, knowsLatency bool, now moment.Moment) {
	r := m.resource
	s.lastSuccess, r.lastSuccess = now, now
	r.throttles, r.throttledUntil = 0, 0
	wasSlow := s.outage.wasSlow(m) || r.outage.wasSlow(m)
	if wasSlow { // the way to the server has become longer
		r.rise, s.way = rise{}, way{}
	}
	if wasSlow || !knowsLatency {
		s.learnLatency(m, now)
	}
	if !m.failingAttempt {
		r.window.grow(s.limit, r.opening+1, &r.rise)
	}
	delete(s.firstFailures, m)
	s.answered, s.failures, s.credit = true, 0, fullCredit
	invalid := s.outage.confirmed && s.outage.kind == Unauthorized // the token was
	if wasSlow {
		r.window.widen()
	}
	s.tellEnd(&s.outage, m, Synced, now)
	s.tellEnd(&r.outage, m, Synced, now)
	s.outage.clear()
	r.outage.clear()
	s.retryFirstFailures(func(m *member, kind Kind) bool {
		return m.resource == r || kind == Unreachable || invalid && kind == Unauthorized
	}, now)
}

// retryFirstFailures ends the pauses of members that failed for the first time since the last success, or in an outage
// of the server: the cause may have been the resource, or the server. Many of them may fail again where the server
// answers. So they stay in the lane of failing members, where a success adds to the budget.
func (s *server) retryFirstFailures(eligible func(*member, Kind) bool, now moment.Moment) {
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
			s.schedule.set(m, max(now, m.retryAfter))
		case queued:
			m.resource.enqueue(m, now)
		}
	}
}

// fail learns from an attempt that failed. If it was hung, attemptHung has recorded its failure.
func (s *server) fail(m *member, outcome Outcome, wasHung bool, now moment.Moment) {
	if _, ok := s.firstFailures[m]; ok && !m.retried && s.endsOutage(outcome.Kind) {
		m.failures, m.retried = 0, true // those so far were the server's
	}
	m.failures++
	s.backOff(m, outcome, now)
	if outcome.Kind != Unreachable {
		s.answered = true
		s.learnAnswer(m, outcome.Kind, now)
	}
	if outcome.Kind == Answered {
		s.tellEnd(&m.resource.outage, m, Answered, now)
		m.resource.outage.clear()
	}
	if outcome.Kind == Refused && m.failingAttempt {
		m.resource.refusalLatency.observe(now.Sub(m.began))
	}
	switch outcome.Kind {
	case Refused, Answered, Unauthorized:
		s.way.observe(now.Sub(m.sent), now)
	}
	if outcome.Kind == Refused && wasHung {
		s.refusedLate(m, now)
	}
	s.outage.seen(outcome.Kind, now)
	m.resource.outage.seen(outcome.Kind, now)
	healthy := !wasHung && !m.failingAttempt && (!m.retried || outcome.Kind == Unreachable)
	only := s.isOnly() && !wasHung && (outcome.Kind == Unreachable || outcome.Kind == Failed)
	start := outcome.Kind == Unreachable && !s.answered
	if healthy || outcome.Kind == Unauthorized || only || start {
		s.learnFailure(m, outcome, now)
	}
	if outcome.Kind == Refused && m.resource.outage.probe == m {
		s.endRefusedProbe(m, now)
	} else {
		s.endProbe(m, now)
	}
}

// refusedLate learns from the refusal of an attempt that had counted as hung: requests are answered, late. So it ends
// an outage by hung attempts, also while others hang for good. An early refusal does not: a server may refuse before it
// hangs.
func (s *server) refusedLate(m *member, now moment.Moment) {
	if o := &m.resource.outage; errors.Is(o.cause, errHung) {
		s.tellEnd(o, m, Refused, now)
		o.interrupt(resourceBackoff, now)
	}
}

// endRefusedProbe ends the probe of m's resource, which was refused. One refusal is no end of the outage: m may be
// refused alone. But 16 in a row are: nothing shows that the outage lasts, and the budget of failing members bounds
// what is tried after it.
func (s *server) endRefusedProbe(m *member, now moment.Moment) {
	o := &m.resource.outage
	refusals := o.refusals + 1
	s.endProbe(m, now)
	if o.refusals = refusals; refusals >= maxFailures {
		s.tellEnd(o, m, Refused, now)
		o.interrupt(resourceBackoff, now)
	}
}

// backOff begins the pause of a member that failed, and sets its lane. An outcome that may well pass with the next
// attempt does not make it a failing member.
func (s *server) backOff(m *member, outcome Outcome, now moment.Moment) {
	b, transient := memberBackoff, false
	switch outcome.Kind {
	case Answered:
		transient = m.failures == 1
	case Throttled:
		transient = m.failures == 1 && !m.cameAlone()
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
	if s.firstFailures[m] != outcome.Kind {
		delete(s.firstFailures, m)
	}
	switch outcome.Kind {
	case Failed, Unreachable, Unauthorized:
		if duringOutage || m.failures == 1 && !m.retried {
			s.firstFailures[m] = outcome.Kind
		}
	}
}

// learnAnswer learns from an answer to m: the server can be reached, and the members that did not reach it may try
// again. A 401 does not end an outage by 401.
func (s *server) learnAnswer(m *member, kind Kind, now moment.Moment) {
	if s.outage.kind == kind {
		return
	}
	if s.endsOutage(kind) {
		s.failures = 0
		s.retryFirstFailures(func(_ *member, kind Kind) bool { return kind == Unreachable || kind == Unauthorized }, now)
	}
	s.tellEnd(&s.outage, m, kind, now)
	s.outage.interrupt(serverBackoff, now)
}

// endsOutage reports whether a failure of that kind is an answer that ends the outage of the server.
func (s *server) endsOutage(kind Kind) bool {
	return s.outage.confirmed && kind != Unreachable && kind != s.outage.kind
}

// learnFailure learns from the failure of a healthy member, from a 401, and from any failure of an only member to
// reach the server, or to get more than a 5xx from it: the cause may be the resource or the server. A reserved attempt
// may be that of a member that fails alone. So it delays no other.
func (s *server) learnFailure(m *member, outcome Outcome, now moment.Moment) {
	r := m.resource
	if !m.cameAlone() {
		s.failures++
		if outcome.Kind == Throttled {
			r.throttle(m, now)
		}
	}
	if r.lastSuccess.After(m.began) {
		return // another member was served meanwhile
	}
	switch {
	case outcome.Kind == Unauthorized:
		s.learnUnauthorized(m, outcome, now)
	case outcome.Kind == Unreachable && (m.synced || s.isOnly()):
		s.record(&s.outage, m, outcome, s.outage.threshold(m, s.synced, &s.census, s.isOnly()), now)
	case outcome.Kind == Unreachable && !s.answered:
		if m.began.Before(s.outage.lastSeen) && m.failures < maxDials {
			break // one dial may have failed for many
		}
		s.record(&s.outage, m, outcome, min(maxDials, s.outage.threshold(m, s.active(), &s.census, s.isOnly())), now)
	case outcome.Kind == Failed && (m.synced || s.isOnly()):
		s.record(&r.outage, m, outcome, r.outage.threshold(m, r.synced, &r.census, s.isOnly()), now)
	case outcome.Kind == Throttled:
		s.record(&r.outage, m, outcome, r.outage.threshold(m, r.active(), &r.census, false), now)
	}
}

// learnUnauthorized learns from a 401: the token may be invalid, or not be accepted for one kind, as by an aggregated
// API server. It is an outage of the resource at once, and of the server if another resource agrees, or if there is no
// other.
func (s *server) learnUnauthorized(m *member, outcome Outcome, now moment.Moment) {
	threshold := 1
	if m.cameAlone() {
		threshold = m.resource.outage.threshold(m, m.resource.active(), &m.resource.census, false)
	}
	s.record(&m.resource.outage, m, outcome, threshold, now)
	agree, others := 0, 0
	for _, r := range s.resources {
		switch {
		case r.outage.confirmed && r.outage.kind == Unauthorized && !s.lastSuccess.After(r.outage.since):
			agree++
		case r.members > 0:
			others++
		}
	}
	if agree > 1 || agree == 1 && others == 0 {
		s.record(&s.outage, m, outcome, 1, now)
	}
}

// attemptHung learns from an attempt that lasts for too long. It counts no longer. Before the server's first answer
// that says nothing of the server for a time: the way to it may be long.
func (s *server) attemptHung(m *member, now moment.Moment) {
	r := m.resource
	if m.state != hung {
		s.uncount(m)
		m.state = hung
		s.hung++
	}
	if due := m.began.Add(firstAnswer); s.way.roundTrip() == 0 && due.After(now) {
		s.schedule.set(m, due)
		s.endProbe(m, now)
		return
	}
	switch {
	case m.failingAttempt && !r.isOnly(), r.lastSuccess.After(m.began):
	case m.synced, s.answered && r.isOnly():
		s.record(&r.outage, m, Outcome{Kind: Failed, Cause: errHung}, r.outage.threshold(m, r.synced, &r.census, r.isOnly()), now)
	case !s.answered:
		s.record(&s.outage, m, Outcome{Kind: Unreachable, Cause: errHung}, s.outage.threshold(m, s.active(), &s.census, s.isOnly()), now)
	}
	s.endProbe(m, now)
}

// record records a failure that may be an outage. If that confirms the outage, the windows shrink for the server's
// return, and the observers of the members that wait are notified.
func (s *server) record(o *outage, m *member, outcome Outcome, threshold int, now moment.Moment) {
	if !o.record(m, outcome, threshold, now) {
		return
	}
	if outcome.Kind == Throttled { // the first probe waits, as the resource does
		o.nextProbe = m.resource.throttledUntil
	}
	involved := func(r *resource) bool { return o == &s.outage && !r.outage.confirmed || o == &r.outage }
	for _, r := range s.resources {
		if involved(r) {
			r.window.shrink()
		}
	}
	s.notify(involved)
	s.tellBegin(o, m)
}
