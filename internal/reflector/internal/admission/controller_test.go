// SPDX-License-Identifier: Apache-2.0

package admission_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/refwatch/refwatch/internal/reflector/internal/admission"
)

func TestAcquire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := admission.New(1)
		first, second := join(c, "secrets", nil), join(c, "secrets", nil)
		if err := first.Acquire(t.Context()); err != nil {
			t.Fatalf("first: got %v, want it admitted", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if err := second.Acquire(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("second: got %v, want DeadlineExceeded: it waits until its context ends", err)
		}
		if got := c.Status(); got.Opening != 1 || got.Queued != 0 {
			t.Errorf("status: got %+v, want one attempt under way", got)
		}
		left := make(chan error, 1)
		go func() { left <- second.Acquire(t.Context()) }()
		synctest.Wait()
		second.Leave()
		if err := <-left; !errors.Is(err, admission.ErrLeft) {
			t.Errorf("second: got %v, want ErrLeft", err)
		}
		if err := second.Acquire(t.Context()); !errors.Is(err, admission.ErrLeft) {
			t.Errorf("after it left: got %v, want ErrLeft", err)
		}
		first.Release(admission.Outcome{Kind: admission.Synced})
		first.Release(admission.Outcome{Kind: admission.Failed}) // ended already
		if got := c.Status(); got.Opening != 0 {
			t.Errorf("status: got %+v, want no member", got)
		}
		first.Leave()
		first.Leave()
	})
}

// The window grows by 1 with each success, and shrinks to 1 after a 429.
func TestWindow(t *testing.T) {
	inBubble(t, 20, func(r *rig) {
		all := r.join(100, "secrets", healthy().taking(200*time.Millisecond))
		for _, want := range []int{16, 20, 20} {
			if got := r.Status().Opening; got != want {
				t.Errorf("opening: got %d, want %d", got, want)
			}
			advance(200 * time.Millisecond)
		}
		r.behave(all[90:], throttled(time.Second))
		advance(10 * time.Second)
		r.behave(all, healthy().taking(200*time.Millisecond))
		advance(20 * time.Second)
		if got := r.countSynced(all); got != 100 {
			t.Errorf("synced: got %d, want all 100", got)
		}
	})
}

// A server that has too many requests gets one at a time, and then more with each success. The 429 of one member that
// came alone says nothing about the others.
func TestThrottleNarrowsTheWindow(t *testing.T) {
	inBubble(t, 20, func(r *rig) {
		r.join(100, "secrets", healthy())
		advance(10 * time.Second)
		r.join(1, "secrets", throttled(time.Second))
		advance(time.Second)
		wide := r.Status().Window
		r.join(20, "secrets", throttled(time.Second))
		advance(100 * time.Millisecond)
		if narrow := r.Status().Window; wide != 20 || narrow != 1 {
			t.Errorf("window: got %d before a 429 and %d after it, want 20 and 1", wide, narrow)
		}
	})
}

// Hung attempts leave the window: after 5 s while no latency is known, or after a quarter of a second if it is short.
func TestHungAttemptsLeaveTheWindow(t *testing.T) {
	inBubble(t, 4, func(r *rig) {
		r.join(4, "secrets", hangs())
		late := r.join(1, "secrets", healthy())
		advance(4990 * time.Millisecond)
		if got := r.countSynced(late); got != 0 {
			t.Error("before 5 s: the new member synced, want it to wait for the hung attempts")
		}
		advance(30 * time.Millisecond)
		if got := r.countSynced(late); got != 1 {
			t.Error("after 5 s: the new member waits for the hung attempts")
		}
		// The latency is known now: 10 ms.
		r.join(8, "secrets", hangs())
		advance(1900 * time.Millisecond)
		next := r.join(1, "secrets", healthy())
		advance(270 * time.Millisecond)
		if got := r.countSynced(next); got != 1 {
			t.Errorf("after a quarter of a second: the new member waits for the hung attempts: %+v", r.Status())
		}
	})
}

// The first success tells how long answers take. All attempts leave the window by that time then, also those that began
// before the success.
func TestHungAttemptsLeaveTheWindowAtTheFirstSuccess(t *testing.T) {
	inBubble(t, 4, func(r *rig) {
		r.join(3, "secrets", hangs())
		all := r.join(20, "secrets", healthy().taking(100*time.Millisecond))
		advance(500 * time.Millisecond)
		if got := r.countSynced(all); got < 7 {
			t.Errorf("after half a second: %d have synced beside 3 that hang, want 7 at least", got)
		}
	})
}

// A member waits for its own Retry-After, with up to half of it as jitter, and at most a minute. Other members do not.
func TestRetryAfterIsPerMember(t *testing.T) {
	for asked, longest := range map[time.Duration]time.Duration{20 * time.Second: 30 * time.Second, time.Hour: time.Minute} {
		inBubble(t, 32, func(r *rig) {
			bad := r.join(1, "secrets", throttled(asked))
			others := r.join(50, "secrets", healthy())
			r.expedite(bad, 100*time.Millisecond, 10*time.Minute)
			if got := r.countSynced(others); got != 50 {
				t.Errorf("others: got %d, want all 50", got)
			}
			for i, at := range bad[0].attempts[1:] {
				if gap := at.Sub(bad[0].attempts[i]); gap < min(asked, longest) || gap > longest+time.Second {
					t.Errorf("Retry-After %v: got an attempt after %v, want it honored, and %v at most", asked, gap, longest)
				}
			}
		})
	}
}

// An invalid token concerns every member: one at a time probes, and all make their attempts when the token is valid.
// If the server still serves others, a 401 does not delay them.
func TestUnauthorized(t *testing.T) {
	inBubble(t, 32, func(r *rig) {
		all := r.join(1000, "secrets", fails(admission.Unauthorized))
		advance(5 * time.Second)
		began := time.Now()
		r.expedite(all, 100*time.Millisecond, time.Minute)
		if got := r.attemptsSince(began); got > 60 {
			t.Errorf("attempts in a minute: got %d, want at most one a second", got)
		}
		notified := 0
		for _, f := range all {
			if f.notified > 0 {
				notified++
			}
		}
		if notified < 980 { // all but those whose attempts were under way
			t.Errorf("notified: got %d of 1,000 members that wait", notified)
		}
		waiting, ok := all[999].Waiting()
		if !ok || waiting.Kind != admission.Unauthorized || !errors.Is(waiting.Cause, errBad) || waiting.Since.IsZero() {
			t.Errorf("waiting: got %+v, want the 401", waiting)
		}
		r.behave(all, healthy())
		advance(6 * time.Second)
		if got := r.countSynced(all); got != 1000 {
			t.Errorf("synced 6 s after the token is valid: got %d, want all", got)
		}
	})
	inBubble(t, 32, func(r *rig) {
		bad := r.join(100, "configmaps", fails(admission.Unauthorized))
		good := r.join(900, "secrets", healthy())
		advance(10 * time.Second)
		if got := r.countSynced(good); got != 900 || r.countSynced(bad) != 0 {
			t.Errorf("synced: got %d of the other resource, want all 900", got)
		}
	})
}

// The time of an outage's cause is that of its last probe, also if each member has failed before.
func TestOutageIsSeenByEachProbe(t *testing.T) {
	for _, kind := range []admission.Kind{admission.Unreachable, admission.Failed} {
		inBubble(t, 32, func(r *rig) {
			all := r.join(4, "secrets", healthy())
			advance(20 * time.Second)
			r.behave(all, fails(kind))
			r.cutStreams(all)
			advance(5 * time.Minute)
			if got := r.Status(); !errors.Is(got.Cause, errBad) || time.Since(got.CauseTime) > 10*time.Second {
				t.Errorf("status: got %+v, want the cause, seen by a probe of the last 10 s", got)
			}
		})
	}
}

// Several members that synced before confirm an outage. One at a time probes. The first success ends it for all.
func TestOutage(t *testing.T) {
	for _, kind := range []admission.Kind{admission.Unreachable, admission.Failed} {
		inBubble(t, 32, func(r *rig) {
			all := r.join(300, "secrets", healthy())
			advance(20 * time.Second)
			r.behave(all, fails(kind))
			r.cutStreams(all)
			advance(2 * time.Second)
			if got := r.Status(); !errors.Is(got.Cause, errBad) || got.CauseTime.IsZero() {
				t.Errorf("status: got %+v, want the cause", got)
			}
			advance(10 * time.Second)
			began := time.Now()
			advance(time.Minute)
			if got := r.attemptsSince(began); got < 10 || got > 60 {
				t.Errorf("probes in a minute: got %d, want one every 1 to 5 s", got)
			}
			r.behave(all, healthy())
			advance(6 * time.Second)
			if got := r.countSynced(all); got != 300 || r.Status().Cause != nil {
				t.Errorf("6 s after the outage: got %d of 300 synced, %+v", got, r.Status())
			}
		})
	}
}

// Failures of one member, or of members that have never synced, confirm no outage.
func TestNoOutage(t *testing.T) {
	inBubble(t, 32, func(r *rig) {
		good := r.join(10, "secrets", healthy())
		advance(time.Second)
		r.behave(good[:1], fails(admission.Unreachable))
		r.cutStreams(good[:1])
		r.join(100, "secrets", fails(admission.Unreachable))
		advance(time.Minute)
		if got := r.Status().Cause; got != nil {
			t.Errorf("cause: got %v, want none", got)
		}
		late := r.join(1, "secrets", healthy())
		advance(time.Second)
		if r.countSynced(late) != 1 {
			t.Error("a new member is not admitted within a second")
		}
	})
}

// The server throttles the requests for one of two objects: that is no outage of the resource.
func TestThrottledMemberIsNoOutage(t *testing.T) {
	inBubble(t, 32, func(r *rig) {
		r.join(1, "secrets", healthy())
		advance(time.Second)
		r.join(1, "secrets", fails(admission.Throttled))
		for range 200 {
			advance(50 * time.Millisecond)
			if got := r.Status().Cause; got != nil {
				t.Fatalf("cause: got %v, want none", got)
			}
		}
	})
}

// Expedite counts for one attempt.
func TestExpediteHoldsForOneAttempt(t *testing.T) {
	inBubble(t, 32, func(r *rig) {
		one := r.join(1, "secrets", fails(admission.Refused))
		advance(10 * time.Minute)
		before := len(one[0].attempts)
		one[0].Expedite()
		advance(1600 * time.Millisecond)
		if got := len(one[0].attempts) - before; got != 1 {
			t.Errorf("attempts within 1.6 s: got %d, want one", got)
		}
		advance(5 * time.Second)
		if got := len(one[0].attempts) - before; got != 1 {
			t.Errorf("attempts within 6.6 s: got %d, want no second one", got)
		}
	})
}

// The attempts of failing members are bounded, whatever their number and however often callers ask.
func TestFailingMembersShareABudget(t *testing.T) {
	tests := map[string]struct {
		members, most int // attempts in a minute
		waited        bool
	}{
		"one, expedited":   {1, 60, true},
		"1,000":            {1000, 21 * 60, false},
		"1,000, expedited": {1000, 181 * 60, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 32, func(r *rig) {
				all := r.join(test.members, "secrets", fails(admission.Refused))
				advance(2 * time.Minute)
				began := time.Now()
				if test.waited {
					r.expedite(all, 100*time.Millisecond, time.Minute)
				} else {
					advance(time.Minute)
				}
				if got := r.attemptsSince(began); got > test.most || got < test.most/4 {
					t.Errorf("attempts in a minute: got %d, want some and at most %d", got, test.most)
				}
			})
		})
	}
}

// The budget does not slow members down that succeed: a success adds to it.
func TestSuccessAddsToTheBudget(t *testing.T) {
	inBubble(t, 32, func(r *rig) {
		all := r.join(1000, "secrets", fails(admission.Refused))
		advance(2 * time.Minute)
		r.behave(all, healthy())
		began := time.Now()
		for r.countSynced(all) < 990 {
			advance(100 * time.Millisecond)
		}
		if took := time.Since(began); took > 20*time.Second {
			t.Errorf("all synced after a long refusal: got %v, want 20 s at most", took)
		}
	})
}

// A member may leave in any state.
func TestLeave(t *testing.T) {
	for _, kind := range []admission.Kind{admission.Canceled, admission.Synced, admission.Refused, admission.Throttled, admission.Unauthorized, admission.Unreachable} {
		inBubble(t, 4, func(r *rig) {
			all := r.join(50, "secrets", healthy())
			advance(time.Second)
			b := fails(kind)
			if kind == admission.Canceled {
				b = hangs()
			}
			r.behave(all, b)
			r.cutStreams(all)
			for i, f := range all {
				advance(time.Duration(i) * 20 * time.Millisecond)
				f.Leave()
			}
			synctest.Wait()
			if got := r.Status(); got.Opening+got.Queued+got.Paused != 0 {
				t.Errorf("%v: got %+v, want no member", kind, got)
			}
			late := r.join(1, "secrets", healthy())
			advance(6 * time.Second)
			if r.countSynced(late) != 1 {
				t.Errorf("%v: a new member is not admitted: %+v", kind, r.Status())
			}
		})
	}
}
