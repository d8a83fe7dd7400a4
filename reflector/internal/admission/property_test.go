// SPDX-License-Identifier: Apache-2.0

package admission_test

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/refwatch/refwatch/reflector/internal/admission"
)

const (
	// boundWaited and bound are within what time a healthy new member makes its
	// attempt, with a caller that waits and without.
	boundWaited, bound = time.Second, 5 * time.Second
	// boundAll is within what time 100 healthy members are synced again after a cut,
	// beside up to 360 others in the same resources.
	boundAll = time.Minute
	// boundRate is how many attempts all members together make in a second, first
	// ones, and those after a success, left aside.
	boundRate = 200
)

// pattern is how some members of one resource behave.
type pattern struct {
	count    int
	resource string
	manner   manner
	synced   bool // before they turn bad
	waited   bool
}

func drawPattern(t *rapid.T) pattern {
	return pattern{
		count:    rapid.IntRange(1, 60).Draw(t, "count"),
		resource: rapid.SampledFrom([]string{"secrets", "configmaps", "leases"}).Draw(t, "resource"),
		manner: rapid.SampledFrom([]manner{
			hangs(), fails(admission.Refused), fails(admission.Failed), fails(admission.Unreachable), fails(admission.Answered),
			throttled(0), throttled(time.Second), throttled(30 * time.Second), well(), well().slowly(100 * time.Millisecond),
			fails(admission.Failed).slowly(2 * time.Second), fails(admission.Unreachable).slowly(5 * time.Second),
		}).Draw(t, "manner"),
		synced: rapid.Bool().Draw(t, "synced"),
		waited: rapid.Bool().Draw(t, "waited"),
	}
}

// Whatever members fail at, hang in or are throttled for, and however often
// callers ask for them: once each has made an attempt, a healthy new member makes
// its own within a bound, and attempts per second stay within one.
func TestHealthyMembersAreAdmittedWithinABound(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		patterns := rapid.SliceOfN(rapid.Custom(drawPattern), 1, 6).Draw(rt, "patterns")
		waited := rapid.Bool().Draw(rt, "a caller waits")
		resource := rapid.SampledFrom([]string{"secrets", "pods"}).Draw(rt, "new resource")
		var problem string
		inBubble(t, 32, func(c *crowd) { problem = admitted(c, patterns, resource, waited) })
		if problem != "" {
			rt.Fatal(problem)
		}
	})
}

// admitted returns what is wrong with how a new member beside such others is
// admitted.
func admitted(c *crowd, patterns []pattern, resource string, waited bool) string {
	good := c.comes(50, "secrets", well())
	good = append(good, c.comes(50, "configmaps", well())...)
	after(5 * time.Second)
	var awaited []*follower
	for _, p := range patterns {
		how := p.manner
		if p.synced {
			how = well()
		}
		some := c.comes(p.count, p.resource, how)
		if p.synced {
			after(5 * time.Second)
			c.treat(some, p.manner)
			c.cutStreams(some)
		}
		if p.waited {
			awaited = append(awaited, some...)
		}
	}
	c.waits(awaited, 500*time.Millisecond, 3*time.Minute)
	began := time.Now()
	c.waits(awaited, 500*time.Millisecond, 10*time.Second)
	if got := c.since(began); got > 10*boundRate {
		return fmt.Sprintf("attempts in ten seconds: got %d, want at most %d", got, 10*boundRate)
	}
	late, within := c.comes(1, resource, well())[0], bound
	if waited {
		late.Expedite()
		within = boundWaited
	}
	c.waits(awaited, 500*time.Millisecond, 20*time.Second)
	if took, ok := late.firstTry(); !ok || took > within {
		return fmt.Sprintf("a new member: got its attempt after %v (%v), want within %v; %+v", took, ok, within, c.Status())
	}
	c.cutStreams(good)
	c.waits(awaited, 500*time.Millisecond, boundAll)
	if got := c.countSynced(good); got != len(good) {
		return fmt.Sprintf("%v after a cut: got %d of %d healthy members, %+v", boundAll, got, len(good), c.Status())
	}
	return ""
}
