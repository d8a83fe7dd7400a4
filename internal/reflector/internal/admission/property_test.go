// SPDX-License-Identifier: Apache-2.0

package admission_test

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/refwatch/refwatch/internal/reflector/internal/admission"
	"github.com/refwatch/refwatch/test/testmain"
)

const (
	// firstAttemptBound is the time within which a healthy new member makes its first attempt. expeditedBound is the
	// same for one that a caller waits for.
	expeditedBound, firstAttemptBound = time.Second, 5 * time.Second
	// resyncBound is the time within which 100 healthy members sync again after their streams ended. resyncBoundPerBad
	// is added for each bad member whose failure may be the resource's or the server's. It is the longest pause after
	// such a failure. Each of these members may make an attempt before the healthy ones: nothing distinguishes them.
	resyncBound, resyncBoundPerBad = time.Minute, 5 * time.Second
	// rateBound is how many attempts all members make in a second at most, except first ones and those after a success.
	rateBound = 200
)

// pattern is some members of one resource, and how the server handles their requests.
type pattern struct {
	count     int
	resource  string
	behavior  behavior
	synced    bool // they sync before the server behaves so
	expedited bool
}

// pausesOthers reports whether the failures of these members may look like one of the resource or the server.
func (p pattern) pausesOthers() bool {
	switch p.behavior.kind {
	case admission.Canceled, admission.Throttled, admission.Failed, admission.Unreachable:
		return true
	}
	return false
}

func drawPattern(t *rapid.T) pattern {
	return pattern{
		count:    rapid.IntRange(1, 60).Draw(t, "count"),
		resource: rapid.SampledFrom([]string{"secrets", "configmaps", "leases"}).Draw(t, "resource"),
		behavior: rapid.SampledFrom([]behavior{
			hangs(), fails(admission.Refused), fails(admission.Failed), fails(admission.Unreachable), fails(admission.Answered),
			throttled(0), throttled(time.Second), throttled(30 * time.Second), healthy(), healthy().taking(100 * time.Millisecond),
			fails(admission.Failed).taking(2 * time.Second), fails(admission.Unreachable).taking(5 * time.Second),
		}).Draw(t, "behavior"),
		synced:    rapid.Bool().Draw(t, "synced"),
		expedited: rapid.Bool().Draw(t, "expedited"),
	}
}

// Members fail, hang and are throttled in any mixture, and callers ask for them at any rate. Once each has made an
// attempt, a healthy new member makes its own within a bound, and the attempts per second stay within a bound.
func TestHealthyMembersAreAdmittedWithinABound(t *testing.T) {
	testmain.Long(t)
	rapid.Check(t, func(rt *rapid.T) {
		patterns := rapid.SliceOfN(rapid.Custom(drawPattern), 1, 6).Draw(rt, "patterns")
		expedited := rapid.Bool().Draw(rt, "new member expedited")
		resource := rapid.SampledFrom([]string{"secrets", "pods"}).Draw(rt, "new resource")
		var problem string
		inBubble(t, 32, func(r *rig) { problem = boundExceeded(r, patterns, resource, expedited) })
		if problem != "" {
			rt.Fatal(problem)
		}
	})
}

// boundExceeded runs the patterns, and then a new member. It returns a description of the first bound that does not
// hold, and "" if all hold.
func boundExceeded(r *rig, patterns []pattern, resource string, expedited bool) string {
	good := r.join(50, "secrets", healthy())
	good = append(good, r.join(50, "configmaps", healthy())...)
	advance(5 * time.Second)
	var expeditedClients []*client
	for _, p := range patterns {
		b := p.behavior
		if p.synced {
			b = healthy()
		}
		clients := r.join(p.count, p.resource, b)
		if p.synced {
			advance(5 * time.Second)
			r.behave(clients, p.behavior)
			r.cutStreams(clients)
		}
		if p.expedited {
			expeditedClients = append(expeditedClients, clients...)
		}
	}
	r.expedite(expeditedClients, 500*time.Millisecond, 3*time.Minute)
	began := time.Now()
	r.expedite(expeditedClients, 500*time.Millisecond, 10*time.Second)
	if got := r.attemptsSince(began); got > 10*rateBound {
		return fmt.Sprintf("attempts in ten seconds: got %d, want at most %d", got, 10*rateBound)
	}
	newest, within := r.join(1, resource, healthy())[0], firstAttemptBound
	if expedited {
		newest.Expedite()
		within = expeditedBound
	}
	r.expedite(expeditedClients, 500*time.Millisecond, 20*time.Second)
	if took, ok := newest.firstAttempt(); !ok || took > within {
		return fmt.Sprintf("a new member: got its first attempt after %v (%v), want within %v; %+v", took, ok, within, r.Status())
	}
	bound := resyncBound
	for _, p := range patterns {
		if p.pausesOthers() {
			bound += time.Duration(p.count) * resyncBoundPerBad
		}
	}
	if _, ok := r.resync(good, expeditedClients, bound); !ok {
		return fmt.Sprintf("%v after their streams ended: got %d of %d healthy members synced, %+v",
			bound, r.countSynced(good), len(good), r.Status())
	}
	return ""
}
