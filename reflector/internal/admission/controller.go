// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"sync"
	"time"
)

const (
	// failingAttempts is how many attempts of failing members may be under way.
	failingAttempts = 8
	// failingRate is how many attempts of failing members there may be in a
	// second, waitedRate how many of those that a caller waits for.
	failingRate, waitedRate = 20, 160
	// successPays is for how many more attempts one of a failing member pays that
	// succeeds: one bad server in three behind a balancer must not slow down the
	// members that met it.
	successPays = 3
	// streakLength is after how many failures in a row attempts of healthy members
	// are streakSpacing apart.
	streakLength  = 4
	streakSpacing = 20 * time.Millisecond
)

// Controller decides which of its members may make an attempt now. Make one with
// [New].
type Controller struct {
	most int // attempts of healthy members that count, of all resources

	mu        sync.Mutex
	resources []*resource
	first     int // whose turn it is among the resources
	schedule  schedule
	opening   int // attempts of healthy members that count
	hung      int // attempts that count no longer
	failing   int // attempts of failing members that count
	budgets   [classes]*budget
	server    trouble
	suspects  map[*Member]Kind // failed for the first time since the last success, and how
	streak    int              // failures of healthy members in a row
	lastBegin time.Time
	succeeded time.Time // when an attempt last did
	members   int
	synced    int      // members that have synced
	answered  bool     // the server has been seen to answer
	notices   []func() // to be called with no lock held
	timer     *time.Timer
	wake      time.Time // when to look again, beside the schedule
}

// New returns a controller without members that admits so many attempts of
// healthy members at a time; at least 1.
func New(most int) *Controller {
	waitedBudget, otherBudget := newBudget(waitedRate), newBudget(failingRate)
	return &Controller{
		most:     max(1, most),
		budgets:  [classes]*budget{waited: &waitedBudget, returning: &otherBudget, fresh: &otherBudget},
		suspects: map[*Member]Kind{},
	}
}

// Join adds a member that follows an object of a resource. notify, which may be
// nil, is called when the member waits and the server, or the resource, turns out to
// be in trouble: with no lock held, on a goroutine of the timer. It must return
// soon.
func (c *Controller) Join(resource string, notify func()) *Member {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.resourceLocked(resource)
	c.members++
	r.members++
	return &Member{controller: c, resource: r, notify: notify}
}

func (c *Controller) resourceLocked(name string) *resource {
	for _, r := range c.resources {
		if r.name == name {
			return r
		}
	}
	r := newResource(name, float64(c.most))
	c.resources = append(c.resources, r)
	return r
}

// admitLocked begins the attempts that may begin now, and sees to it that it is
// called again in time for the others.
func (c *Controller) admitLocked() {
	now := time.Now()
	c.wake = time.Time{}
	for len(c.schedule) > 0 && !c.schedule[0].due.After(now) {
		c.dueLocked(c.schedule[0], now)
	}
	for m := c.pickLocked(now); m != nil; m = c.pickLocked(now) {
		c.beginLocked(m, now)
	}
	c.setTimerLocked(now)
}

// dueLocked moves on a member whose time has come.
func (c *Controller) dueLocked(m *Member, now time.Time) {
	c.schedule.drop(m)
	if m.state == pausing {
		m.state = inLine
		if m.strikes > 0 && m.resource.succeeded.After(m.ended) {
			m.failing = true // for others were served since
		}
		c.enqueueLocked(m)
		return
	}
	c.uncountLocked(m)
	m.state = hung
	c.hung++
	switch {
	case m.apart || m.resource.succeeded.After(m.began):
	case m.synced:
		c.suspectLocked(&m.resource.trouble, m, Outcome{Kind: Failed, Cause: errHung}, needed(m.resource.synced), now)
	case !c.answered:
		c.suspectLocked(&c.server, m, Outcome{Kind: Unreachable, Cause: errHung}, needed(c.members), now)
	}
	c.endProbeLocked(m, now)
}

// enqueueLocked puts a member in line.
func (c *Controller) enqueueLocked(m *Member) {
	m.lane().add(m)
	if !m.tried {
		m.due = time.Now()
		m.resource.prefer(m)
	}
}

func (c *Controller) beginLocked(m *Member, now time.Time) {
	m.resource.forget(m)
	if m.line != nil {
		m.lane().served(m.class())
		m.leaveLine()
	}
	m.state, m.apart = opening, m.failing
	m.began, m.tried, m.waited = now, true, false
	if m.failing {
		c.failing++
	} else {
		c.opening++
		m.resource.opening++
		c.lastBegin = now
	}
	c.schedule.set(m, now.Add(m.resource.patience()))
	close(m.ready)
}

// uncountLocked lets an attempt under way no longer count.
func (c *Controller) uncountLocked(m *Member) {
	switch {
	case m.state == hung:
		c.hung--
	case m.apart:
		c.failing--
	default:
		c.opening--
		m.resource.opening--
	}
}

// withdrawLocked takes a member out of all lists.
func (c *Controller) withdrawLocked(m *Member) {
	m.leaveLine()
	m.resource.forget(m)
	c.schedule.drop(m)
}

func (c *Controller) removeLocked(m *Member) {
	c.withdrawLocked(m)
	switch m.state {
	case opening, hung:
		c.uncountLocked(m)
	case pausing, inLine:
		close(m.ready)
	}
	m.state = gone
	c.members--
	m.resource.members--
	if m.synced {
		c.synced--
		m.resource.synced--
	}
	delete(c.suspects, m)
	c.endProbeLocked(m, time.Now())
	c.server.forget(m)
	m.resource.trouble.forget(m)
	if c.members == 0 {
		c.server.clear()
	}
	if m.resource.members == 0 {
		m.resource.trouble.clear()
	}
}

// setTimerLocked sees to it that admitLocked is called when something is due.
func (c *Controller) setTimerLocked(now time.Time) {
	at := c.wake
	if len(c.notices) > 0 {
		at = now
	}
	if len(c.schedule) > 0 {
		at = earlier(at, c.schedule[0].due)
	}
	switch {
	case at.IsZero() && c.timer != nil:
		c.timer.Stop()
	case at.IsZero():
	case c.timer == nil:
		c.timer = time.AfterFunc(at.Sub(now), c.fire)
	default:
		c.timer.Reset(at.Sub(now))
	}
}

// fire is the timer's function. Members are notified here alone: whoever calls a
// method of theirs may hold a lock that notify takes.
func (c *Controller) fire() {
	c.mu.Lock()
	c.admitLocked()
	notices := c.notices
	c.notices = nil
	c.mu.Unlock()
	for _, notify := range notices {
		notify()
	}
}

// noticeLocked has the waiting members of some resources notified.
func (c *Controller) noticeLocked(eligible func(*resource) bool) {
	add := func(m *Member) {
		if m.notify != nil && eligible(m.resource) {
			c.notices = append(c.notices, m.notify)
		}
	}
	for _, m := range c.schedule {
		if m.state == pausing {
			add(m)
		}
	}
	for _, r := range c.resources {
		for i := range r.lanes {
			r.lanes[i].each(add)
		}
	}
}

// later returns the later of two times.
func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// earlier returns the earlier of two times; a zero one is never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
