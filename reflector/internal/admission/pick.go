// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"errors"
	"slices"
	"time"
)

// pickLocked returns the member to admit now, nil if there is none. It notes in
// wake when there may be one that nothing else announces.
func (c *Controller) pickLocked(now time.Time) *Member {
	if c.server.proved {
		return c.probeLocked(&c.server, c.rotationLocked(), now)
	}
	for _, r := range c.resources {
		if !r.trouble.proved {
			continue
		}
		if m := c.probeLocked(&r.trouble, []*resource{r}, now); m != nil {
			return m
		}
		if m := c.pickNewLocked(r, now); m != nil {
			return m
		}
	}
	if m := c.pickHealthyLocked(now); m != nil {
		return m
	}
	return c.pickFailingLocked(now)
}

// rotationLocked returns the resources, beginning with the one whose turn it is.
func (c *Controller) rotationLocked() []*resource {
	n := len(c.resources)
	if n == 1 {
		return c.resources
	}
	all := make([]*resource, 0, n)
	all = append(all, c.resources[c.first%n:]...)
	return append(all, c.resources[:c.first%n]...)
}

// passLocked gives the turn to the resource after r.
func (c *Controller) passLocked(r *resource) {
	for i := range c.resources {
		if c.resources[i] == r {
			c.first = i + 1
		}
	}
}

func (c *Controller) pickHealthyLocked(now time.Time) *Member {
	if c.opening >= c.most {
		return nil
	}
	free := c.lastBegin
	if c.streak >= streakLength {
		free = free.Add(streakSpacing)
	}
	for _, r := range c.rotationLocked() {
		if r.trouble.proved || r.opening >= int(r.window) {
			continue
		}
		m, at := r.nextHealthy()
		if m == nil {
			continue
		}
		if at = later(at, free); at.After(now) {
			c.wake = earlier(c.wake, at)
			continue
		}
		c.passLocked(r)
		return m
	}
	return nil
}

// pickNewLocked returns a new member of a resource that fails and whose server
// answers: it may be healthy, and it makes one attempt. nil if there is none.
func (c *Controller) pickNewLocked(r *resource, now time.Time) *Member {
	if r.trouble.kind != Failed || errors.Is(r.trouble.cause, errHung) || r.opening >= firstWindow || c.opening >= c.most {
		return nil
	}
	m := r.favorite
	if m == nil || !m.waited {
		m = r.lanes[0].lines[fresh].first
	}
	if m == nil || m.tried {
		return nil
	}
	if at := c.lastBegin.Add(streakSpacing); at.After(now) {
		c.wake = earlier(c.wake, at)
		return nil
	}
	return m
}

// nextHealthy returns the healthy member to admit next, and when; nil if none is
// in line. After a 429 the favorite goes first, or else any: the oldest may be what
// is throttled.
func (r *resource) nextHealthy() (*Member, time.Time) {
	switch {
	case r.throttles == 0:
		return r.lanes[0].peek(anyClass, false), r.free
	case r.favorite != nil && r.favorite.triedBy().Before(r.free):
		return r.favorite, r.favorite.triedBy()
	case r.favorite != nil:
		return r.favorite, r.free
	}
	return r.lanes[0].peek(anyClass, true), r.free
}

func anyClass(class) bool { return true }

func (c *Controller) pickFailingLocked(now time.Time) *Member {
	if c.failing >= failingAttempts {
		return nil
	}
	affordable := func(class class) bool {
		at := c.budgets[class].next(now)
		if at.After(now) {
			c.wake = earlier(c.wake, at)
			return false
		}
		return true
	}
	for _, r := range c.rotationLocked() {
		if r.trouble.proved || r.lanes[1].count() == 0 {
			continue
		}
		if r.free.After(now) {
			c.wake = earlier(c.wake, r.free)
			continue
		}
		if m := r.lanes[1].peek(affordable, false); m != nil {
			c.budgets[m.class()].add(-1)
			c.passLocked(r)
			return m
		}
	}
	return nil
}

// probeLocked returns the member that is to probe now, nil if none is.
func (c *Controller) probeLocked(t *trouble, resources []*resource, now time.Time) *Member {
	if t.probe != nil {
		return nil
	}
	m := c.candidateLocked(t, resources, now)
	if m == nil {
		return nil
	}
	next := t.next
	if !m.tried && m.resource.favorite == m && m.triedBy().Before(next) {
		next = m.triedBy()
	}
	if next.After(now) {
		c.wake = earlier(c.wake, next)
		return nil
	}
	c.schedule.drop(m)
	c.passLocked(m.resource)
	t.begin(m)
	return m
}

// candidateLocked returns the member that is to probe next, nil if none waits.
// The favorite goes first. Then it is the turn of healthy members, any of them, at
// the first probe one of a resource that was not seen to fail.
func (c *Controller) candidateLocked(t *trouble, resources []*resource, now time.Time) *Member {
	if m := favoriteOf(resources); m != nil {
		return m
	}
	if t.probes == 0 {
		for _, r := range resources {
			if m := r.lanes[0].peek(anyClass, true); m != nil && !t.involves(r) {
				return m
			}
		}
	}
	for lane := range resources[0].lanes {
		for i := range classes { // each in turn: all of one class may fail for ever
			for _, r := range resources {
				if m := r.lanes[lane].lines[(class(t.probes)+i)%classes].peek(lane == 0); m != nil {
					return m
				}
			}
		}
	}
	return c.soonestLocked(func(m *Member) bool { return slices.Contains(resources, m.resource) }, now)
}

// favoriteOf returns the favorite of some resources, one that a caller waits for if
// there is one; nil if there is none.
func favoriteOf(resources []*resource) (favorite *Member) {
	for _, r := range resources {
		if m := r.favorite; m != nil && (favorite == nil || m.waited && !favorite.waited) {
			favorite = m
		}
	}
	return favorite
}

// soonestLocked returns the member whose pause is over next, of those that eligible
// admits. A probe cuts a pause short, but not one that the server asked for.
func (c *Controller) soonestLocked(eligible func(*Member) bool, now time.Time) *Member {
	var soonest *Member
	for _, m := range c.schedule {
		if m.state == pausing && !m.held.After(now) && eligible(m) && (soonest == nil || m.due.Before(soonest.due)) {
			soonest = m
		}
	}
	return soonest
}
