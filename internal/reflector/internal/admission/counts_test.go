// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// memberOwner is an owner of a member, as a reflector is.
type memberOwner struct {
	Member

	admitted bool // guarded by Controller.mu
	attempt  bool
	left     bool
}

func (*memberOwner) OutageBegan()                {}
func (*memberOwner) OutageChanged(Outage) func() { return func() {} }

// randomStep does something with one of the owners, as a reflector may.
func randomStep(c *Controller, random *rand.Rand, o *memberOwner) string {
	c.mu.Lock()
	state, admitted := o.state, o.admitted
	c.mu.Unlock()
	outcome := Outcome{Kind: Kind(random.IntN(int(GivenUp) + 1)), Cause: errors.New("bad")}
	if random.IntN(4) == 0 {
		outcome.RetryAfter = time.Duration(random.IntN(3)) * time.Second
	}
	switch n := random.IntN(12); {
	case n == 0:
		o.Leave()
		o.left = true
		return "leave"
	case n == 1:
		o.Rest()
		return "rest"
	case n == 2:
		o.Expedite()
		return "expedite"
	case state == resting:
		o.Resume()
		return "resume"
	case state == idle && n > 6 && o.attempt:
		o.Ended(time.Duration(random.IntN(20))*time.Second, outcome)
		o.attempt = false
		return "ended"
	case state == idle:
		o.request(func() { o.admitted = true })
		return "request"
	case admitted && (state == opening || state == hung):
		c.mu.Lock()
		o.admitted = false
		c.mu.Unlock()
		o.Release(outcome)
		o.attempt = true
		return fmt.Sprint("outcome ", outcome.Kind)
	case n == 3 && (state == paused || state == queued):
		o.Release(Outcome{})
		return "withdraw"
	}
	return "none"
}

// checkCounts compares what a controller has counted with its members, and looks for members that have left.
func checkCounts(c *Controller, owners []*memberOwner) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := &c.server
	var opens, hungs, failing int
	counts := map[*resource]*census{}
	alive := map[*member]bool{}
	all := census{}
	for _, r := range s.resources {
		counts[r] = &census{}
	}
	openOf := map[*resource]int{}
	for _, o := range owners {
		if o.left {
			continue
		}
		alive[&o.member] = true
		for _, n := range []*census{&all, counts[o.resource]} {
			n.members++
			if o.state == resting {
				n.resting++
			} else if o.synced {
				n.synced++
			}
		}
		switch {
		case o.state == hung:
			hungs++
		case o.state == opening && o.failingAttempt:
			failing++
		case o.state == opening:
			opens++
			openOf[o.resource]++
		}
	}
	if all != s.census || opens != s.opening || hungs != s.hung || failing != s.failing {
		return fmt.Errorf("got %+v, %d opening, %d hung, %d failing; want %+v, %d, %d, %d", s.census, s.opening, s.hung, s.failing, all, opens, hungs, failing)
	}
	var kept []*member
	for m := range s.firstFailures {
		kept = append(kept, m)
	}
	kept = slices.Concat(kept, s.outage.failed, []*member{s.outage.probe}, s.schedule)
	for _, r := range s.resources {
		if *counts[r] != r.census || openOf[r] != r.opening {
			return fmt.Errorf("%s: got %+v and %d opening, want %+v and %d", r.name, r.census, r.opening, *counts[r], openOf[r])
		}
		kept = slices.Concat(kept, r.outage.failed, []*member{r.outage.probe, r.newest}, r.reserve.waiting)
		for _, l := range []*lane{&r.healthy, &r.failing} {
			l.each(func(m *member) { kept = append(kept, m) })
		}
	}
	for _, m := range kept {
		if m != nil && !alive[m] {
			return errors.New("a member that has left is kept")
		}
		if m != nil && m.state == resting {
			return errors.New("a member that rests is kept")
		}
	}
	return nil
}

// A controller counts its members as they are, whatever they do, and keeps none that has left: a member is a part of
// its owner.
func TestCountsOfMembers(t *testing.T) {
	for seed := range uint64(40) {
		synctest.Test(t, func(t *testing.T) {
			c, random := New(1+int(seed%40)), rand.New(rand.NewPCG(seed, 3))
			var owners []*memberOwner
			var steps []string
			for range 400 {
				if len(owners) < 3 || len(owners) < 40 && random.IntN(6) == 0 {
					o := &memberOwner{}
					c.Join(&o.Member, fmt.Sprint("resource-", random.IntN(3)), o)
					owners = append(owners, o)
				}
				i := random.IntN(len(owners))
				steps = append(steps, fmt.Sprint(i, " ", randomStep(c, random, owners[i])))
				if owners[i].left {
					owners = slices.Delete(owners, i, i+1)
				}
				if random.IntN(4) == 0 {
					time.Sleep(time.Duration(random.IntN(1500)) * time.Millisecond)
					synctest.Wait()
				}
				if err := checkCounts(c, owners); err != nil {
					t.Fatalf("seed %d: %v, after %q", seed, err, steps[max(0, len(steps)-30):])
				}
			}
			for _, o := range owners {
				o.Leave()
			}
			time.Sleep(time.Minute)
		})
		if t.Failed() {
			return
		}
	}
}
