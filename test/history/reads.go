// SPDX-License-Identifier: Apache-2.0

package history

import "time"

// get is a Get that has begun, and what was known then.
type get struct {
	object     *object
	began      time.Time
	floor      int    // no older state may be returned
	rule       string // that sets the floor
	demanding  bool
	try        bool
	referenced bool // an owner references the object for certain
	free       bool // no owner does
	synced     bool
	lost       int
	added      int
	owner      arrival
	ownerGone  int
}

func (c *Checker) beginGetLocked(o *object, e Event) *get {
	g := &get{
		object: o, began: c.now, floor: o.read, rule: "S2", demanding: e.Demanding, try: e.Try,
		referenced: o.certain > 0, free: o.possible == 0, synced: o.synced,
		lost: o.lost, added: o.added, owner: o.owner, ownerGone: o.ownerGone,
	}
	if o.first > g.floor && c.writes && !c.limits.HoldsMore {
		g.floor, g.rule = o.first, "S3"
	}
	if e.Newest && o.newest > g.floor && c.writes {
		g.floor, g.rule = o.newest, "S3"
	}
	return g
}

func (c *Checker) addReadLocked(e Event) (newest bool) {
	switch e.Op {
	case BeginGet:
		c.calls[e.Call] = c.beginGetLocked(c.objectLocked(e.Object), e)
	case EndGet:
		if g, ok := begunLocked[*get](c, e); ok {
			return c.endGetLocked(g, e)
		}
	case BeginRange:
		c.calls[e.Call] = &follower{began: c.now, yielded: map[*object]*yielded{}}
	case Yielded:
		if f, ok := c.calls[e.Call].(*follower); ok {
			return c.addYieldedLocked(f, c.objectLocked(e.Object), e)
		}
		c.violateLocked("", e.Object, "a range that has not begun yielded a state")
	case EndRange:
		if f, ok := begunLocked[*follower](c, e); ok {
			c.finishFollowerLocked(f)
		}
	}
	return false
}

// throughout reports whether an owner has referenced the object since the Get began.
func (g *get) throughout() bool { return g.referenced && g.object.lost == g.lost }

// endGetLocked checks what a Get has returned.
func (c *Checker) endGetLocked(g *get, e Event) (newest bool) {
	o := g.object
	throughout := g.throughout()
	if throughout {
		c.checkWaitLocked(g)
	}
	c.checkReleasedGetLocked(g)
	if c.limits.Released > 0 && g.free && o.added == g.added && e.Error != Canceled {
		c.expectLocked(e.Error == NotRegistered, "S5", o, "Get returned %s while no owner referenced the object", e.result())
	}
	switch e.Error {
	case "", NotFound:
		position, ok := c.locateLocked(o, e.State, e.Error == NotFound, g.floor, g.rule, "Get")
		if !ok {
			return false
		}
		if position > o.read {
			o.read, o.missed = position, o.firstAfter(position)
		}
		if throughout {
			c.report.Decided["S5"]++
			o.synced = true
			c.checkFreshLocked(g, position, e)
		}
		return c.writes && o.isNewest(position)
	case Canceled:
	case NotRegistered:
		c.expectLocked(!throughout, "S5", o, "Get returned %s while an owner referenced the object", e.Error)
	case NotSynced:
		if throughout && g.demanding && !e.Ended {
			c.checkAnsweredLocked(g)
		}
		switch {
		case !throughout || c.limits.Forgets || g.demanding:
		case g.synced && o.synced:
			c.expectLocked(false, "S2", o, "Get returned %s after it had returned a state", e.Error)
		default:
			d, due := c.dueLocked(o, g.began)
			c.expectLocked(!due, d.rule, o, "Get returned %s, and the object was referenced since %v", e.Error, o.since.Format(timeOfDay))
		}
	default:
		c.expectLocked(false, "S4", o, "Get returned an unexpected error: %s", e.Error)
	}
	return false
}

// result describes what a reader has returned.
func (e Event) result() string {
	if e.Error != "" {
		return e.Error
	}
	return e.State.String()
}

// knowableSince returns since when the store can know the state of an object: it has a reference, and an immutable
// object is read again for each new owner.
func (o *object) knowableSince() time.Time {
	if o.immutable {
		return later(o.since, o.last.at)
	}
	return o.since
}

// dueLocked returns the duty of an object, and whether it has held, while an owner has referenced the object, for so
// long before a time that the state must be known then.
func (c *Checker) dueLocked(o *object, at time.Time) (d duty, due bool) {
	d, ok := c.dutyLocked(o)
	if !ok {
		d.rule = "L1"
	}
	return d, ok && c.limits.Fresh > 0 && !d.quiet.After(at) && o.certain > 0 && at.Sub(o.knowableSince()) > d.fresh
}

// checkFreshLocked checks that a Get has returned what was written long before it began.
func (c *Checker) checkFreshLocked(g *get, position int, e Event) {
	o := g.object
	if !c.writes || c.limits.Fresh == 0 {
		return
	}
	missedAt := o.firstAfter(position)
	if position == o.read {
		missedAt = o.missed
	}
	position = o.newestLike(position)
	// It is read for the newest owner, and the Get could not wait for that.
	reading := (e.Ended || g.try) && c.now.Sub(g.owner.at) <= c.limits.Fresh
	if e.Immutable && !reading && g.ownerGone == o.ownerGone && !c.affectedSinceLocked(o, g.owner.at.Add(-c.limits.Fresh)) {
		fresh := position >= g.owner.newest
		c.expectLocked(fresh, "S3", o, "Get returned %v to a new owner after %v, want %v or a later write",
			e.State, c.now.Sub(g.began), o.at(g.owner.newest))
		if !fresh {
			return
		}
	}
	if position >= o.base { // it may be that of a later state that is the same
		missedAt = o.firstAfter(position)
	}
	d, due := c.dueLocked(o, g.began)
	since, bound := c.staleSinceLocked(d, e.Immutable, missedAt)
	if bound == 0 || !due {
		return
	}
	late := g.began.Sub(since)
	c.expectLocked(missedAt == 0 || late <= bound, d.rule, o, "Get returned %s, and a later state was written %v before", e.result(), late)
}

// staleSinceLocked returns since when a reader has missed a write, and how long it may; with 0 that is not checked. The
// next read of an immutable object is due for as long after a fault as after a write.
func (c *Checker) staleSinceLocked(d duty, immutable bool, missedAt int64) (since time.Time, bound time.Duration) {
	since = time.Unix(0, missedAt)
	switch {
	case !immutable:
		return since, d.fresh
	case c.limits.ImmutableFresh == 0:
		return since, 0
	}
	return later(since, d.quiet), c.limits.ImmutableFresh + d.rechecks
}

// checkWaitLocked checks that a Get did not wait for long while no fault affected the object, or while a verb worked.
// Owners that come later do not make it wait longer.
func (c *Checker) checkWaitLocked(g *get) {
	o := g.object
	d, ok := c.dutyLocked(o)
	if c.limits.Fresh == 0 || !ok || o.certain == 0 {
		return
	}
	waited := c.now.Sub(later(later(g.began, d.from), o.since))
	c.expectLocked(waited <= d.answered, d.rule, o, "Get has waited %v, want at most %v", waited, d.answered)
}

// checkAnsweredLocked is called for a Get with demands that has failed before its context ended. Without a fault the
// test knows whether it may.
func (c *Checker) checkAnsweredLocked(g *get) {
	if d, ok := c.dutyLocked(g.object); ok && d.rule == "L6" {
		c.expectLocked(d.from.After(g.began), "L6", g.object, "Get failed before its context ended, and a verb works")
	}
}

// checkReleasedGetLocked checks that a Get did not wait for an object after its last reference was deleted.
func (c *Checker) checkReleasedGetLocked(g *get) {
	o := g.object
	if c.limits.Released == 0 || o.possible > 0 {
		return
	}
	waited := c.now.Sub(later(g.began, o.released))
	c.expectLocked(waited <= c.limits.Released, "S5", o, "Get has waited %v without a reference, want at most %v", waited, c.limits.Released)
}
