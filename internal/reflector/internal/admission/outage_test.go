// SPDX-License-Identifier: Apache-2.0

package admission_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/refwatch/refwatch/internal/reflector/internal/admission"
)

// A caller may hold a lock that notify takes.
func TestMembersAreNotifiedOnTheTimersGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		notified := 0
		first := oneOfACrowd(t, func() { mu.Lock(); defer mu.Unlock(); notified++ })
		mu.Lock()
		first.Release(admission.Outcome{Kind: admission.Unauthorized, Cause: errBad}) // begins an outage
		mu.Unlock()
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		if notified == 0 {
			t.Error("a member that waits was not notified")
		}
	})
}

// oneOfACrowd begins the only attempt that is allowed, for the first of many members.
func oneOfACrowd(t *testing.T, notify func()) (first *admission.Member) {
	c := admission.New(1)
	first = join(c, "secrets", nil)
	t.Cleanup(first.Leave)
	if err := first.Acquire(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range 40 {
		m := join(c, "secrets", notify)
		m.Request(func() {})
		t.Cleanup(m.Leave)
	}
	synctest.Wait()
	return first
}

// An outage that begins before many members have synced again is noticed.
func TestSecondOutage(t *testing.T) {
	inBubble(t, 32, func(r *rig) {
		all := r.join(100, "secrets", healthy())
		advance(time.Minute)
		for range 3 {
			r.behave(all, fails(admission.Unreachable))
			r.cutStreams(all)
			advance(10 * time.Minute)
			began := time.Now()
			advance(time.Minute)
			if got := r.attemptsSince(began); got > 40 {
				t.Fatalf("attempts in a minute of an outage: got %d, want only probes", got)
			}
			r.behave(all, healthy())
			for r.countSynced(all) == 0 {
				advance(10 * time.Millisecond)
			}
		}
	})
}

// After 255 probes in an outage none followed, if no member had ever synced: the counter of
// probes overflowed, and the class of such members was never chosen.
func TestProbesOfALongOutageGoOn(t *testing.T) {
	for _, kind := range []admission.Kind{admission.Unauthorized, admission.Unreachable} {
		inBubble(t, 32, func(r *rig) {
			all := r.join(100, "secrets", fails(kind))
			advance(time.Hour) // some 700 probes
			r.behave(all, healthy())
			advance(20 * time.Second)
			if got := r.countSynced(all); got != len(all) {
				t.Errorf("kind %d: got %d of %d synced 20 s after the outage", kind, got, len(all))
			}
		})
	}
}

// A member waits for its Retry-After even if others succeed.
func TestSuccessOfOthersDoesNotEndRetryAfter(t *testing.T) {
	for _, kind := range []admission.Kind{admission.Failed, admission.Throttled} {
		inBubble(t, 32, func(r *rig) {
			bad := r.join(1, "secrets", behavior{kind, 30 * time.Second, 10 * time.Millisecond})
			advance(time.Second)
			r.join(20, "secrets", healthy())
			r.expedite(bad, 100*time.Millisecond, time.Minute)
			for i, at := range bad[0].attempts[1:] {
				if gap := at.Sub(bad[0].attempts[i]); gap < 30*time.Second {
					t.Errorf("kind %d: got an attempt after %v, want none within 30 s", kind, gap)
				}
			}
		})
	}
}

// One bad server of three behind a load balancer delays no member for long, whatever it answers.
func TestOneBadServerOfThree(t *testing.T) {
	for _, kind := range []admission.Kind{admission.Failed, admission.Unauthorized, admission.Unreachable, admission.Refused} {
		inBubble(t, 32, func(r *rig) {
			r.override = func(n int) (behavior, bool) { return fails(kind), n%3 == 0 }
			all := r.join(1000, "secrets", healthy())
			advance(20 * time.Second)
			if got := r.countSynced(all); got != 1000 {
				t.Errorf("kind %d: got %d of 1,000 synced after 20 s", kind, got)
			}
		})
	}
}

// Servers behind a load balancer that fail in several ways get few requests: an answer of one ends the outage of the
// others, and begins no new series of short pauses.
func TestServersThatFailInSeveralWays(t *testing.T) {
	for _, kind := range []admission.Kind{admission.Unauthorized, admission.Unreachable} {
		inBubble(t, 32, func(r *rig) {
			all := r.join(300, "secrets", healthy())
			advance(time.Minute)
			r.behave(all, fails(kind))
			r.override = func(n int) (behavior, bool) { return fails(admission.Failed), n%3 == 0 }
			r.cutStreams(all)
			advance(time.Minute)
			began := time.Now()
			advance(time.Minute)
			if got := r.attemptsSince(began); got > 60 {
				t.Errorf("kind %d: got %d attempts in a minute, want at most 60", kind, got)
			}
			r.behave(all, healthy())
			advance(20 * time.Second)
			if got := r.countSynced(all); got != len(all) {
				t.Errorf("kind %d: got %d of %d synced 20 s after the outage", kind, got, len(all))
			}
		})
	}
}

// A server that hangs from the start is in an outage: few requests are under way.
func TestHangsFromTheStart(t *testing.T) {
	inBubble(t, 32, func(r *rig) {
		all := r.join(1000, "secrets", hangs())
		most := 0
		for range 120 {
			advance(5 * time.Second)
			most = max(most, r.Status().Opening)
		}
		if most > 120 || r.Status().Cause == nil {
			t.Errorf("attempts under way: got up to %d, and %+v, want at most 120 and a cause", most, r.Status())
		}
		r.behave(all, healthy())
		advance(80 * time.Second)
		if got := r.countSynced(all); got != 1000 {
			t.Errorf("synced: got %d of 1,000", got)
		}
	})
}

// Members whose watches are refused, though their lists are served, share the budget of failing members. So it is where
// answers take long, too.
func TestRefusedStreamsShareTheBudget(t *testing.T) {
	for _, takes := range []time.Duration{10 * time.Millisecond, 8 * time.Second} {
		t.Run(takes.String(), func(t *testing.T) {
			inBubble(t, 32, func(r *rig) {
				r.streamEnd = &admission.Outcome{Kind: admission.Refused, Cause: errBad}
				r.join(1000, "secrets", healthy().taking(takes))
				advance(10 * time.Minute)
				began := time.Now()
				advance(time.Minute)
				if got := r.attemptsSince(began); got > 21*60 || got < 200 {
					t.Errorf("attempts in a minute: got %d, want 200 at least, and at most 20 a second", got)
				}
			})
		})
	}
}

// The streams of many break, and the way to the server has become long. Attempts count as hung, and are refused then:
// the outage that they confirmed ends, so that all make attempts.
func TestLateRefusalsEndAnOutage(t *testing.T) {
	for _, hang := range []int{0, 1, 100, 500} { // for good
		for _, late := range []time.Duration{2 * time.Second, 8 * time.Second} {
			t.Run(fmt.Sprintf("%v late, %d hang", late, hang), func(t *testing.T) {
				inBubble(t, 32, func(r *rig) {
					all := r.join(1000, "secrets", healthy())
					advance(time.Minute)
					r.behave(all, fails(admission.Refused).taking(late))
					r.behave(all[:hang], hangs())
					r.cutStreams(all)
					advance(time.Minute)
					began := time.Now()
					advance(time.Minute)
					if got := r.attemptsSince(began); got < 100 {
						t.Errorf("attempts in the second minute: got %d, want 100 at least", got)
					}
					if got := r.changes.Load(); got < 2 || got > 6 || r.Status().Cause != nil {
						t.Errorf("got %d begins and ends of an outage, and then the cause %v; want 2 to 6, and no cause", got, r.Status().Cause)
					}
				})
			})
		}
	}
}

// All get 5xx, but for some that are refused late: that does not end the outage.
func TestLateRefusalsEndNoOtherOutage(t *testing.T) {
	inBubble(t, 32, func(r *rig) {
		all := r.join(1000, "secrets", healthy())
		advance(time.Minute)
		r.behave(all, fails(admission.Failed))
		r.behave(all[:300], fails(admission.Refused).taking(time.Second))
		r.cutStreams(all)
		advance(time.Minute)
		advance(10 * time.Minute)
		if got := r.changes.Load(); got != 1 {
			t.Errorf("got %d begins and ends of an outage, want one begin", got)
		}
	})
}

// A member that leaves during its probe does not stop the probes.
func TestProbesGoOnWithoutAMemberThatLeaves(t *testing.T) {
	inBubble(t, 4, func(r *rig) {
		all := r.join(20, "secrets", healthy())
		advance(time.Second)
		r.behave(all, fails(admission.Unreachable))
		r.cutStreams(all)
		advance(30 * time.Second) // an outage by now
		r.behave(all, hangs())
		for i := range 5 {
			began := time.Now()
			begun := func(c *client) bool {
				r.mu.Lock()
				defer r.mu.Unlock()
				return !c.attempts[len(c.attempts)-1].Before(began)
			}
			probe := -1
			for probe < 0 && time.Since(began) < 6*time.Second {
				advance(10 * time.Millisecond)
				probe = slices.IndexFunc(all, begun)
			}
			if probe < 0 {
				t.Fatalf("after %d probes during which a member left: got no probe in 6 s", i)
			}
			all[probe].Leave()
		}
	})
}

// The probes of an outage reach the healthy members of each resource. Here the members that a caller waits for are bad,
// and so are all of another resource.
func TestProbesReachEachResource(t *testing.T) {
	patterns := []pattern{
		{count: 49, resource: "leases", behavior: fails(admission.Unreachable), synced: true},
		{count: 39, resource: "configmaps", behavior: fails(admission.Unreachable).taking(5 * time.Second), synced: true, expedited: true},
	}
	inBubble(t, 32, func(r *rig) {
		if problem := boundExceeded(r, patterns, "secrets", true); problem != "" {
			t.Error(problem)
		}
	})
}

// A success shows that the 429s before it concerned their members alone. These then do not pause the resource again,
// also if they were queued before the success. Attempts are in random order, so the mean of some runs counts.
func TestThrottledMembersPauseTheirResourceOnce(t *testing.T) {
	const runs, most = 10, 32 * time.Second
	var sum time.Duration
	for range runs {
		inBubble(t, 32, func(r *rig) {
			good := r.join(50, "secrets", healthy())
			bad := r.join(100, "secrets", healthy())
			advance(20 * time.Second)
			r.behave(bad, throttled(0))
			r.cutStreams(bad)
			advance(4 * time.Minute) // with no success
			took, ok := r.resync(good, nil, 10*time.Minute)
			if !ok {
				t.Errorf("got %d of %d healthy members synced, %+v", r.countSynced(good), len(good), r.Status())
			}
			sum += took
		})
	}
	mean := sum / runs
	t.Logf("mean of %d runs: %v", runs, mean)
	if mean > most {
		t.Errorf("healthy members beside 100 throttled ones: got all synced after %v, the mean of %d runs, want at most %v", mean, runs, most)
	}
}
