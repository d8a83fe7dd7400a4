// SPDX-License-Identifier: Apache-2.0

package admission_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/refwatch/refwatch/internal/reflector/internal/admission"
	"github.com/refwatch/refwatch/test/testmain"
)

// arrivals are members that join one by one, each in the next of some kinds. One of so many is good, the others are
// bad.
type arrivals struct {
	kinds     []string
	bad, good behavior
	of        int
	gap       time.Duration
	during    time.Duration
}

// waits are the longest times from joining until the first attempt, of members that a caller waits for and of others;
// returned is the longest time until a member whose stream has ended synced again.
type waits struct{ awaited, others, returned time.Duration }

// faults are the ways in which members are bad.
var faults = map[string]behavior{
	"429":                   throttled(0),
	"429, Retry-After 1 s":  throttled(time.Second),
	"429, Retry-After 30 s": throttled(30 * time.Second),
	"401":                   fails(admission.Unauthorized),
	"403":                   fails(admission.Refused),
	"5xx":                   fails(admission.Failed),
	"5xx after 2 s":         fails(admission.Failed).taking(2 * time.Second),
	"connection refused":    fails(admission.Unreachable),
	"hang":                  hangs(),
	"slow":                  healthy().taking(10 * time.Second),
}

// run adds the members, and ends the streams of some others meanwhile, one by one. Callers wait for every second good
// member and for every second bad one, until it is synced. It returns the longest waits of the good ones.
func (a arrivals) run(r *rig) (longest waits) {
	var awaited, others, waitedFor []*client
	old := r.join(20, a.kinds[0], healthy())
	advance(5 * time.Second)
	// They are a crowd, which may have to wait if it joins among throttled members.
	old = slices.DeleteFunc(old, func(c *client) bool { return !c.isSynced() })
	for i := range int(a.during / a.gap) {
		b, isGood, isAwaited := a.bad, i%a.of == 0, i/a.of%2 == 0
		if isGood {
			b = a.good
		}
		one := r.join(1, a.kinds[i%len(a.kinds)], b)
		switch {
		case isGood && isAwaited:
			awaited = append(awaited, one...)
		case isGood:
			others = append(others, one...)
		}
		if isAwaited {
			waitedFor = append(waitedFor, one...)
			one[0].Expedite()
		}
		if i%20 == 0 {
			for _, c := range waitedFor {
				if !c.isSynced() {
					c.Expedite()
				}
			}
		}
		if i%50 == 7 && len(old) > 0 {
			r.cutStreams(old[i/50%len(old):][:1])
		}
		advance(a.gap)
	}
	r.expedite(waitedFor, 500*time.Millisecond, 6*time.Second)
	return waits{r.longestWait(awaited), r.longestWait(others), r.longestReturn(old)}
}

// longestWait returns the longest time until the first attempt of some members.
func (r *rig) longestWait(clients []*client) (longest time.Duration) {
	for _, c := range clients {
		took, ok := c.firstAttempt()
		if !ok {
			return time.Hour
		}
		longest = max(longest, took)
	}
	return longest
}

// longestReturn returns the longest time from the end of a stream until the next one.
func (r *rig) longestReturn(clients []*client) (longest time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range clients {
		if !c.synced {
			return time.Hour
		}
		longest = max(longest, c.away)
	}
	return longest
}

// exceeded returns a description if a bound does not hold, else "".
func (a arrivals) exceeded(r *rig) string {
	began := time.Now()
	got := a.run(r)
	rate := float64(r.attemptsSince(began)) / time.Since(began).Seconds()
	if got.awaited <= expeditedBound && got.others <= firstAttemptBound && got.returned <= firstAttemptBound && rate <= rateBound {
		return ""
	}
	return fmt.Sprintf("good members of %+v: got first attempts after %v if a caller waits, else %v, and streams back after %v; "+
		"%.0f attempts a second; want at most %v, %v, %v and %d",
		a, got.awaited, got.others, got.returned, rate, expeditedBound, firstAttemptBound, firstAttemptBound, rateBound)
}

// Of the members that join, 50 to 95 % are bad. The good ones do not wait for them.
func TestArrivalsBesideBadOnes(t *testing.T) {
	testmain.Long(t)
	for name, bad := range faults {
		for _, of := range []int{2, 5, 20} {
			t.Run(fmt.Sprintf("%s, 1 of %d is good", name, of), func(t *testing.T) {
				inBubble(t, 256, func(r *rig) {
					a := arrivals{[]string{"secrets"}, bad, healthy(), of, 100 * time.Millisecond, time.Minute}
					if problem := a.exceeded(r); problem != "" {
						t.Error(problem)
					}
				})
			})
		}
	}
}

// The same with several kinds, at any rate, and beside members of each kind that were there before.
func TestArrivalsOfSeveralKinds(t *testing.T) {
	testmain.Long(t)
	rapid.Check(t, func(rt *rapid.T) {
		kinds := [][]string{{"secrets"}, {"secrets", "configmaps"}, {"secrets", "configmaps", "leases"}}
		names := slices.Sorted(maps.Keys(faults))
		a := arrivals{
			kinds:  rapid.SampledFrom(kinds).Draw(rt, "kinds"),
			bad:    faults[rapid.SampledFrom(names).Draw(rt, "fault")],
			good:   healthy().taking(rapid.SampledFrom([]time.Duration{2, 20, 200}).Draw(rt, "latency") * time.Millisecond),
			of:     rapid.SampledFrom([]int{2, 3, 5, 10, 20}).Draw(rt, "one of"),
			gap:    rapid.SampledFrom([]time.Duration{60, 100, 300, 1000}).Draw(rt, "gap") * time.Millisecond,
			during: 15 * time.Second,
		}
		patterns := rapid.SliceOfN(rapid.Custom(drawPattern), 0, 2).Draw(rt, "before")
		problem := ""
		inBubble(t, 256, func(r *rig) {
			r.join(1, "pods", healthy())
			for _, p := range patterns {
				r.join(p.count, p.resource, p.behavior)
			}
			advance(20 * time.Second)
			problem = a.exceeded(r)
		})
		if problem != "" {
			rt.Fatal(problem)
		}
	})
}
