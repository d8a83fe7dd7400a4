// SPDX-License-Identifier: Apache-2.0

package history

import "time"

// reference is a reference whose addition has begun.
type reference struct {
	began  time.Time
	newest int  // the newest position then
	again  bool // the owner had one before
}

// release is a reference whose deletion has begun.
type release struct {
	held bool // the owner had one
}

func (c *Checker) addReferenceLocked(e Event) {
	o := c.objectLocked(e.Object)
	switch e.Op {
	case BeginReference:
		c.beginReferenceLocked(o, e)
	case EndReference:
		r, ok := begunLocked[*reference](c, e)
		if !ok {
			return
		}
		o.adding--
		o.addedAt = c.report.Events
		if o.certain++; o.certain == 1 {
			o.since = c.now
		}
		c.addOwnerLocked(o, e.Owner, r)
	case BeginRelease:
		held := e.Owner == "" || o.owners[e.Owner] != nil
		c.calls[e.Call] = &release{held}
		if !held {
			return // it does nothing
		}
		o.removeOwner(e.Owner)
		if o.certain--; o.certain == 0 {
			c.checkAttemptLocked(o)
			o.lost++
			o.synced = false
		}
	case EndRelease:
		r, ok := begunLocked[*release](c, e)
		if !ok || !r.held {
			return
		}
		if o.possible--; o.possible == 0 {
			c.serveLocked(o, true)
			o.released = c.now
		}
	}
}

func (c *Checker) beginReferenceLocked(o *object, e Event) {
	r := &reference{began: c.now, newest: o.newest, again: o.owners[e.Owner] != nil}
	c.calls[e.Call] = r
	o.countReference(e.Owner)
	o.added++
	o.adding++
	o.newOwners.add(c.now)
	c.newOwners.add(c.now)
	if o.streams > 0 {
		c.checkReleasedLocked(o, "L2", "a stream is open")
	}
	if o.possible++; o.possible == 1 {
		c.serveLocked(o, false)
		o.first = o.newest
		o.since, o.requested = time.Time{}, false
	}
}

// countReference counts a reference of an owner with a name.
func (o *object) countReference(name string) {
	if name == "" {
		return
	}
	if o.owners == nil {
		o.owners = map[string]*owner{}
	}
	if o.owners[name] == nil {
		o.owners[name] = &owner{}
	}
	o.owners[name].references++
}

// addOwnerLocked makes an owner whose reference was added the newest one, unless it had one before, or has none again.
func (c *Checker) addOwnerLocked(o *object, name string, r *reference) {
	if r.again {
		return
	}
	o.last = arrival{newest: r.newest, event: c.report.Events, began: r.began, at: c.now}
	if name == "" {
		o.owner = o.last
	} else if added := o.owners[name]; added != nil {
		o.owner, added.arrival = o.last, o.last
	}
}

// removeOwner deletes a reference of an owner. If the newest owner has gone, the others need not wait for the read for
// it: the newest of them is the newest owner. An owner without a name may be any.
func (o *object) removeOwner(name string) {
	if name == "" {
		o.owner.newest = 0
		o.ownerGone++
		return
	}
	removed := o.owners[name]
	if removed.references--; removed.references > 0 {
		return
	}
	delete(o.owners, name)
	if removed.arrival.event == o.owner.event {
		o.owner.newest = 0
		o.ownerGone++
		o.owner = o.newestArrival(o.owner)
	}
	if len(o.owners) == 0 {
		o.owners = nil // an empty map keeps its memory
	}
}

// newestArrival returns the arrival of the newest owner with a name, and the other one if there is none.
func (o *object) newestArrival(other arrival) (newest arrival) {
	for _, left := range o.owners {
		if left.arrival.event > newest.event {
			newest = left.arrival
		}
	}
	if newest.event == 0 {
		return other
	}
	return newest
}

// checkAttemptLocked checks that there was a request soon after the first reference.
func (c *Checker) checkAttemptLocked(o *object) {
	quiet, ok := c.quietSinceLocked(o)
	if c.limits.Attempt == 0 || !ok || o.requested || o.since.IsZero() {
		return
	}
	waited := c.now.Sub(later(o.since, quiet))
	c.expectLocked(waited <= c.limits.Attempt, "L4", o, "no request within %v of the first reference, want one within %v", waited, c.limits.Attempt)
}
