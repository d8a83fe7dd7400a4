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

// A server that refuses connections from the start is soon in an outage all the same.
func TestAwayFromTheStart(t *testing.T) {
	inBubble(t, 256, func(r *rig) {
		r.join(1000, "secrets", fails(admission.Unreachable))
		advance(time.Second)
		if got := r.Status(); got.Cause == nil {
			t.Errorf("status after a second: got %+v, want a cause", got)
		}
		began := time.Now()
		advance(time.Minute)
		if got := r.attemptsSince(began); got > 100 {
			t.Errorf("attempts in a minute: got %d, want at most 100", got)
		}
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
