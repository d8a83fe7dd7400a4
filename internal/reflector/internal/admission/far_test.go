// SPDX-License-Identifier: Apache-2.0

package admission_test

import (
	"testing"
	"time"

	"github.com/refwatch/refwatch/internal/reflector/internal/admission"
)

// One dial may fail for all that wait for it. Before the server's first answer that is one failure of the server, and
// no outage.
func TestOneDialThatFailsForMany(t *testing.T) {
	inBubble(t, 256, func(r *rig) {
		r.override = func(n int) (behavior, bool) { return fails(admission.Unreachable), n < 16 }
		if got := r.untilSynced(r.join(100, "secrets", healthy()), time.Minute); got > 1 || r.changes.Load() > 0 {
			t.Errorf("all have synced after %.3g s, with %d begins and ends of outages, want 1 s at most and none", got, r.changes.Load())
		}
	})
}

// A server that refuses connections from the start is soon in an outage all the same, however many members there are.
func TestAwayFromTheStart(t *testing.T) {
	for _, members := range []int{2, 3, 10, 41, 1000} {
		inBubble(t, 256, func(r *rig) {
			r.join(members, "secrets", fails(admission.Unreachable).taking(20*time.Millisecond))
			advance(2 * time.Second)
			if got := r.Status(); got.Cause == nil {
				t.Errorf("%d members: status after 2 s: got %+v, want a cause", members, got)
			}
			began := time.Now()
			advance(time.Minute)
			if got := r.attemptsSince(began); got > 50 {
				t.Errorf("%d members: attempts in a minute: got %d, want at most 50", members, got)
			}
		})
	}
}

// That also holds where failures take long, so that the attempts of all members are always under way together.
func TestFarAwayFromTheStart(t *testing.T) {
	for range 20 {
		inBubble(t, 256, func(r *rig) {
			r.join(3, "secrets", fails(admission.Unreachable).taking(3*time.Second))
			advance(11 * time.Second) // three attempts
			if got := r.Status(); got.Cause == nil {
				t.Errorf("status: got %+v, want a cause", got)
			}
		})
	}
}

// Before the server's first answer one request is lost. Others follow it within seconds.
func TestLostRequestBeforeTheFirstAnswer(t *testing.T) {
	inBubble(t, 256, func(r *rig) {
		began, lost := time.Now(), false
		r.override = func(int) (behavior, bool) {
			if time.Since(began) < 7*time.Second {
				return fails(admission.Unreachable).taking(20 * time.Millisecond), true
			}
			first := !lost
			lost = true
			return hangs(), first
		}
		all := r.join(20, "secrets", healthy())
		advance(7 * time.Second)
		before := time.Now()
		for r.countSynced(all) < 19 && time.Since(before) < time.Minute {
			advance(50 * time.Millisecond)
		}
		if got := time.Since(before); got > 15*time.Second {
			t.Errorf("19 of 20 have synced %v after the server was there, want 15 s at most", got)
		}
	})
}

// The way to the server is the least time until an answer, also a refusal, and 8 s at most: one answer may be late for
// another reason.
func TestWay(t *testing.T) {
	inBubble(t, 256, func(r *rig) {
		one := r.join(1, "secrets", healthy().taking(25*time.Second))
		advance(time.Minute)
		want := func(roundTrip, patience time.Duration) {
			t.Helper()
			if w, _ := one[0].Waiting(); w.RoundTrip != roundTrip || one[0].Patience() != patience {
				t.Errorf("got a round trip of %v and a patience of %v, want %v and %v", w.RoundTrip, one[0].Patience(), roundTrip, patience)
			}
		}
		want(8*time.Second, 32*time.Second)
		r.join(1, "configmaps", fails(admission.Failed)) // by a proxy
		advance(50 * time.Millisecond)
		want(8*time.Second, 32*time.Second)
		one[0].Contact(100 * time.Millisecond)
		want(100*time.Millisecond, 16*time.Second)
		r.join(1, "leases", fails(admission.Refused))
		advance(time.Hour)
		want(10*time.Millisecond, 16*time.Second)
	})
}

// A server far away, whose requests hang, is probed as often as one nearby.
func TestProbesOfAFarServerThatHangs(t *testing.T) {
	inBubble(t, 256, func(r *rig) {
		all := r.join(100, "secrets", healthy().taking(8*time.Second))
		advance(5 * time.Minute)
		r.behave(all, hangs())
		r.cutStreams(all)
		advance(2 * time.Minute)
		began := time.Now()
		advance(5 * time.Minute)
		if got := r.attemptsSince(began); got < 20 {
			t.Errorf("attempts in 5 minutes: got %d, want 20 at least", got)
		}
	})
}

// The way to a server has become so long that its answers look like an outage. When they come, the window is as wide as
// before.
func TestSlowAnswersThatLookedLikeAnOutage(t *testing.T) {
	inBubble(t, 256, func(r *rig) {
		all := r.join(300, "secrets", healthy().taking(100*time.Millisecond))
		advance(time.Minute)
		r.behave(all, healthy().taking(4*time.Second))
		r.cutStreams(all)
		advance(time.Second)
		if got := r.Status(); got.Cause == nil {
			t.Errorf("status after a second: got %+v, want an outage", got)
		}
		advance(3300 * time.Millisecond)
		if got := r.Status(); got.Cause != nil || got.Window < 32 {
			t.Errorf("status when the first answers have come: got %+v, want no outage, and a window of 32 at least", got)
		}
	})
}
