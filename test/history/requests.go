// SPDX-License-Identifier: Apache-2.0

package history

import (
	"net/http"
	"time"
)

// network names what concerns no object.
var network = &object{}

// addRequestLocked handles what the server and the network have seen.
func (c *Checker) addRequestLocked(e Event) {
	switch e.Op {
	case Foreign:
		c.expectLocked(false, "S7", network, "the request is not one that the library may send: %s", e.Text)
	case Dialed:
		count := c.dialed.add(c.now)
		c.limitLocked("L5", network, c.limits.Dials, count, "connections were dialed")
		limit, when := c.outageLimitLocked(c.limits.OutageDials, c.limits.PartialDials)
		c.limitLocked("L5", network, limit, count, "connections were dialed "+when)
	case Requested:
		o := c.objectLocked(e.Object)
		c.checkReleasedLocked(o, "S7", "a request came")
		c.checkAttemptLocked(o)
		o.requested = true
		c.limitLocked("L3", o, c.limits.ObjectRequests*o.causesLocked(c.now), o.requests.add(c.now), "requests came")
	case Responded:
		if o := c.objectLocked(e.Object); e.Code >= http.StatusOK && e.Code < http.StatusMultipleChoices {
			c.serveLocked(o, true)
		} else {
			c.countFailureLocked(o)
		}
	case StreamOpened:
		o := c.objectLocked(e.Object)
		o.streams++
		if c.limits.Streams > 0 && !c.affectedSinceLocked(o, c.now) {
			c.expectLocked(o.streams <= c.limits.Streams, "S6", o, "%d streams are open, want at most %d", o.streams, c.limits.Streams)
		}
	case StreamClosed:
		o := c.objectLocked(e.Object)
		c.checkReleasedLocked(o, "L2", "a stream was open")
		o.streams--
	}
}

// limitLocked checks a number of the last ten seconds. A limit of zero is none.
func (c *Checker) limitLocked(rule string, o *object, limit, count int, what string) {
	if limit > 0 {
		c.expectLocked(count <= limit, rule, o, "%d %s in %v, want at most %d", count, what, windowLength, limit)
	}
}

// causesLocked returns how often the requests of an object are allowed: each new owner may cause as many as there may
// be without one.
func (o *object) causesLocked(now time.Time) int { return 1 + o.newOwners.count(now) }

// countFailureLocked checks how many requests fail.
func (c *Checker) countFailureLocked(o *object) {
	c.limitLocked("L3", o, c.limits.ObjectFailures*o.causesLocked(c.now), o.failed.add(c.now), "requests failed")
	count := c.failed.add(c.now)
	c.limitLocked("L5", o, c.limits.Failures, count, "requests failed")
	limit, when := c.outageLimitLocked(c.limits.OutageFailures, c.limits.PartialFailures)
	c.limitLocked("L5", o, limit, count, "requests failed "+when)
}

// outageLimitLocked returns the limit of an outage, or that of partial faults, when these have affected all objects for
// long, and else zero. Objects that may fail by themselves add to it.
func (c *Checker) outageLimitLocked(outage, partial int) (limit int, when string) {
	limit, when = outage, "in an outage"
	if c.faults.outages == 0 {
		limit, when = partial, "while one server or verb fails"
	}
	if limit == 0 || len(c.faults.all.active) == 0 || c.now.Sub(c.faults.all.last) < outageSettled {
		return 0, when
	}
	return limit + c.limits.ObjectFailures*(c.faults.affected+c.unserved+c.newOwners.count(c.now)), when
}

// outageSettled is how long after it began an outage is known to be one, and the requests of before are forgotten.
const outageSettled = 2 * windowLength

// serveLocked sets whether the server has answered a request for an object since its first reference. An object without
// references counts as served.
func (c *Checker) serveLocked(o *object, served bool) {
	if o.unserved == served {
		o.unserved = !served
		if served {
			c.unserved--
		} else {
			c.unserved++
		}
	}
}

// checkReleasedLocked checks that the object has a reference, or had one a moment ago.
func (c *Checker) checkReleasedLocked(o *object, rule, what string) {
	released := o.released
	if rule == "S7" {
		released = later(released, c.faults.wentOn)
	}
	switch late := c.now.Sub(released); {
	case c.limits.Released == 0:
	case o.possible > 0:
		c.report.Decided[rule]++
	case o.added == 0:
		c.expectLocked(false, rule, o, "%s, and there was never a reference", what)
	case rule == "S7" || !c.affectedSinceLocked(o, o.released): // no fault makes the library begin a request
		c.expectLocked(late <= c.limits.Released, rule, o, "%s %v after the last reference, want none after %v", what, late, c.limits.Released)
	}
}
