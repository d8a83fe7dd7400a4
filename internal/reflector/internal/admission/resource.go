// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"time"

	"github.com/refwatch/refwatch/internal/reflector/internal/moment"
)

// resource is what is known of one resource of the server, such as secrets.
type resource struct {
	census

	name             string
	healthy, failing lane // queued members
	reserve          reserve
	opening          int // attempts of healthy members that are under way and count
	window           window
	latency          latency
	refusalLatency   latency // the same of attempts of failing members that were refused
	rise             rise
	outage           outage

	lastSuccess    moment.Moment
	throttles      uint32        // 429s since the last success; those of one round trip count once
	lastThrottle   moment.Moment // when the last of these was counted
	throttledUntil moment.Moment // no attempt of a healthy member begins before, except the newest member's

	// newest is the newest queued member that has made no attempt yet; one that a caller waits for, if there is one. It
	// may be healthy, whatever others fail with.
	newest      *member
	newestSince moment.Moment // since when there has been one
}

func newResource(name string, limit int) *resource {
	return &resource{name: name, reserve: newReserve(), window: newWindow(limit)}
}

// lane returns the lane that m belongs to.
func (r *resource) lane(m *member) *lane {
	if m.failing {
		return &r.failing
	}
	return &r.healthy
}

// enqueue queues m.
func (r *resource) enqueue(m *member, now moment.Moment) {
	r.lane(m).add(m)
	if m.attempted {
		return
	}
	if r.newest == nil {
		r.newestSince = now
	}
	if r.newest == nil || m.expedited || !r.newest.expedited {
		r.newest = m
	}
}

// deadline returns when the newest member makes its first attempt at the latest. It does not move when a newer one
// comes: as long as members come, one makes its attempt.
func (r *resource) deadline() moment.Moment {
	if r.newest.expedited {
		return r.newestSince.Add(expeditedDeadline)
	}
	return r.newestSince.Add(newestDeadline)
}

// dequeue removes m from its queue, if it is in one.
func (r *resource) dequeue(m *member) {
	m.dequeue()
	if r.newest == m {
		r.newest = nil
	}
}

// queued returns how many members are queued.
func (r *resource) queued() int { return r.healthy.len() + r.failing.len() }

// throttle updates the resource after a 429 to a healthy member. The window shrinks, and healthy members pause: for at
// least twice the latency, which is long where a server is loaded. Attempts that were under way together count once.
func (r *resource) throttle(m *member, now moment.Moment) {
	if m.began.Before(r.lastThrottle) {
		return
	}
	r.window.shrink()
	r.throttles++
	r.lastThrottle = now
	b := throttleBackoff
	b.first = max(b.first, 2*time.Duration(r.latency))
	r.throttledUntil = now.Add(b.pause(r.throttles))
}

// nextHealthy returns the healthy member to admit next, and the time before which it is not admitted; nil if none is
// queued. It moves the members that a success has since shown to fail alone to the lane of failing members: another
// 429 of theirs would pause the whole resource again. othersFail is set after some failures in a row.
func (r *resource) nextHealthy(othersFail bool, now moment.Moment) (*member, moment.Moment) {
	m, notBefore := r.peekHealthy(othersFail, now)
	for m != nil && m.failedAlone() {
		r.dequeue(m)
		m.failing = true
		r.enqueue(m, now)
		m, notBefore = r.peekHealthy(othersFail, now)
	}
	return m, notBefore
}

// peekHealthy returns the first of the healthy members, and the time before which it is not admitted; nil if none is
// queued. After a 429 it is the newest member, or else a random one: the oldest may be the one that is throttled. While
// others fail it is the newest member once its deadline has passed: all before it may fail.
func (r *resource) peekHealthy(othersFail bool, now moment.Moment) (*member, moment.Moment) {
	switch {
	case r.throttles == 0 && othersFail && r.newest != nil && !r.deadline().After(now):
		return r.newest, r.throttledUntil
	case r.throttles == 0:
		return r.healthy.next(anyClass, false), r.throttledUntil
	case r.newest == nil:
		return r.healthy.next(anyClass, true), r.throttledUntil
	}
	return r.newest, earlier(r.deadline(), r.throttledUntil)
}

func anyClass(class) bool { return true }
