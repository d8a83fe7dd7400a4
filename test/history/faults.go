// SPDX-License-Identifier: Apache-2.0

package history

import (
	"slices"
	"time"
)

// faults are those under way, and when the others ended.
type faults struct {
	all      scope     // those that affect every object
	outages  int       // those of them beside which nothing works
	affected int       // objects that a fault of their own affects
	wentOn   time.Time // when the last partial one ended: a server that was stopped handles what it was sent
}

// scope is what faults do to some objects.
type scope struct {
	active []*fault  // that have not ended
	over   time.Time // when all that the ended ones affected must be fresh
	last   time.Time // when the last one began or ended
	lasted time.Time // when the last one ended that had lasted
}

func (s *scope) begin(f *fault, now time.Time) {
	s.active = append(s.active, f)
	s.last = now
}

func (s *scope) end(f *fault, now time.Time) {
	s.active = slices.DeleteFunc(s.active, func(other *fault) bool { return other == f })
	if len(s.active) == 0 {
		s.active = nil // an empty slice keeps its memory
	}
	s.last = now
	if now.After(f.began) {
		s.lasted = now
	}
	s.over = later(s.over, now.Add(f.within))
}

// fault is a fault that has begun.
type fault struct {
	objects []string
	began   time.Time
	partial bool // of one of several API servers
	within  time.Duration
	works   *Works
}

// isOutage reports whether the fault affects all objects, however they are read.
func (f *fault) isOutage() bool { return len(f.objects) == 0 && !f.partial && f.works == nil }

func (c *Checker) addFaultLocked(e Event) {
	if e.Op == FaultBegan {
		f := &fault{objects: e.Objects, began: c.now, partial: e.Partial, works: e.Works}
		if e.Within != nil {
			f.within = e.Within.Duration
		}
		c.checkBeforeFaultLocked(f)
		c.calls[e.Call] = f
		if f.isOutage() {
			c.faults.outages++
		}
		for _, s := range c.scopesLocked(f) {
			if s.begin(f, c.now); s != &c.faults.all && len(s.active) == 1 {
				c.faults.affected++
			}
		}
		return
	}
	if f, ok := begunLocked[*fault](c, e); ok {
		c.checkBeforeFaultLocked(f)
		if f.isOutage() {
			c.faults.outages--
		}
		if f.partial {
			c.faults.wentOn = c.now
		}
		for _, s := range c.scopesLocked(f) {
			if s.end(f, c.now); s != &c.faults.all && len(s.active) == 0 {
				c.faults.affected--
			}
		}
	}
}

// checkBeforeFaultLocked checks the attempts and Gets that a fault is about to affect, or has affected, when it begins
// or ends: what they have waited for so far is not the effect of what comes.
func (c *Checker) checkBeforeFaultLocked(f *fault) {
	affected := map[*object]bool{}
	for _, name := range f.objects {
		affected[c.objectLocked(name)] = true
	}
	for _, o := range c.objects {
		if (affected[o] || len(affected) == 0) && o.certain > 0 {
			c.checkAttemptLocked(o)
		}
	}
	for _, begun := range c.calls {
		if g, ok := begun.(*get); ok && g.throughout() && (affected[g.object] || len(affected) == 0) {
			c.checkWaitLocked(g)
		}
	}
}

// scopesLocked returns what a fault affects: each once.
func (c *Checker) scopesLocked(f *fault) []*scope {
	if len(f.objects) == 0 {
		return []*scope{&c.faults.all}
	}
	var scopes []*scope
	for _, name := range f.objects {
		if s := &c.objectLocked(name).faults; !slices.Contains(scopes, s) {
			scopes = append(scopes, s)
		}
	}
	return scopes
}

// quietSinceLocked returns since when no fault affects an object, and what faults delayed must have arrived. It returns
// false while a fault affects it.
func (c *Checker) quietSinceLocked(o *object) (time.Time, bool) {
	return later(c.faults.all.over, o.faults.over), len(c.faults.all.active) == 0 && len(o.faults.active) == 0
}

// duty is what is promised of an object at a moment.
type duty struct {
	rule     string
	from     time.Time     // since when Gets are answered
	quiet    time.Time     // since when the state is fresh
	fresh    time.Duration // how old a state may be that was replaced
	answered time.Duration // how long a Get may wait
	rechecks time.Duration // how much longer the next read of an immutable object may take
}

// dutyLocked returns what is promised of an object now. It returns false while faults affect it, unless a verb works
// beside the only one.
func (c *Checker) dutyLocked(o *object) (d duty, ok bool) {
	all, own := &c.faults.all, &o.faults
	quiet, ok := c.quietSinceLocked(o)
	if ok {
		return duty{rule: "L1", from: quiet, quiet: quiet, fresh: c.limits.Fresh, answered: c.limits.Fresh}, true
	}
	if len(all.active)+len(own.active) > 1 {
		return duty{}, false
	}
	f := append(slices.Clone(all.active), own.active...)[0]
	if f.works == nil {
		return duty{}, false
	}
	after, fresh := f.works.After.Duration, f.works.Fresh.Duration
	from := later(later(f.began, quiet), later(all.lasted, own.lasted).Add(after))
	return duty{"L6", from, from.Add(fresh), fresh, f.works.Answered.Duration, fresh}, true
}

// affectedSinceLocked reports whether a fault has affected an object at any time since.
func (c *Checker) affectedSinceLocked(o *object, since time.Time) bool {
	for _, s := range []*scope{&c.faults.all, &o.faults} {
		if len(s.active) > 0 || !s.last.Before(since) || s.over.After(since) {
			return true
		}
	}
	return false
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
