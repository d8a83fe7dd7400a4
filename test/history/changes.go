// SPDX-License-Identifier: Apache-2.0

package history

import "time"

// follower is a range over Changes.
type follower struct {
	began   time.Time
	yielded map[*object]*yielded
}

// yielded is what a range has yielded of an object.
type yielded struct {
	known     bool // it has yielded a state
	position  int  // of that state
	state     uint64
	immutable bool      // that state was
	at        time.Time // of the last yield, also of a refusal
	// event is the number of the event at which it was yielded, and before that of the state before.
	event, before int64
}

// addYieldedLocked checks what a range has yielded.
func (c *Checker) addYieldedLocked(f *follower, o *object, e Event) (newest bool) {
	y := f.yielded[o]
	if y == nil {
		y = &yielded{}
		f.yielded[o] = y
	}
	y.at = c.now
	switch e.Error {
	case "", NotFound:
	case NotSynced:
		return false // refused
	default:
		c.expectLocked(false, "S10", o, "Changes yielded an unexpected error: %s", e.Error)
		return false
	}
	before := y.before
	y.event, y.before = c.report.Events, y.event
	position, ok := c.locateLocked(o, e.State, e.Error == NotFound, y.position, "S10", "Changes")
	if !ok {
		return false
	}
	state := e.State.hash()
	again := position == y.position && (state == y.state || !c.writes) // states that are not kept have the same position
	if y.known && again && !o.mayBeLater(e, position, c.writes) {
		// The last yield may have been under way when the owner came, but not the one before it.
		c.expectLocked(o.adding > 0 || o.addedAt > before, "S10", o, "Changes yielded %s again, and no owner was new", e.result())
	}
	y.known, y.position, y.state, y.immutable = true, position, state, e.Immutable
	return c.writes && o.isNewest(position)
}

// yieldedNewest reports whether a range has yielded the newest state of an object.
func (c *Checker) yieldedNewest(call uint64, name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	f, ok := c.calls[call].(*follower)
	if !ok {
		return false
	}
	o := c.objectLocked(name)
	y := f.yielded[o]
	return y != nil && y.known && o.isNewest(y.position)
}

// mayBeLater reports whether a state that was yielded may be another one than that at a position: the object may be
// absent again.
func (o *object) mayBeLater(e Event, position int, writes bool) bool {
	if !writes {
		return e.Error == NotFound
	}
	_, later := o.find(e.State, e.Error == NotFound, position+1)
	return later
}

// finishFollowerLocked checks that a range has yielded the newest state of each referenced object, to its newest owner
// too.
func (c *Checker) finishFollowerLocked(f *follower) {
	for _, o := range c.objects {
		d, due := c.dueLocked(o, c.now)
		if !c.writes || !due || c.now.Sub(later(f.began, o.last.at)) <= d.fresh {
			continue
		}
		c.report.Decided["S10"]++
		y, w := f.yielded[o], o.at(o.newest)
		since, bound := c.staleSinceLocked(d, y != nil && y.immutable, w.at)
		switch {
		case y == nil || !y.known:
			c.violateLocked("S10", o.name, "Changes has yielded no state, and the newest is %v", w)
		case y.at.Before(o.last.began):
			c.violateLocked("S10", o.name, "Changes has yielded nothing since a new owner came at %v", o.last.at.Format(timeOfDay))
		case !o.isNewest(y.position) && bound > 0 && c.now.Sub(since) > bound:
			c.violateLocked("S10", o.name, "Changes has not yielded %v", w)
		}
	}
}
