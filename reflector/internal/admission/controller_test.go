// SPDX-License-Identifier: Apache-2.0

package admission_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/refwatch/refwatch/reflector/internal/admission"
)

func TestAcquire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := admission.New(1)
		first, second := c.Join("secrets", nil), c.Join("secrets", nil)
		if err := first.Acquire(t.Context()); err != nil {
			t.Fatalf("first: got %v, want it admitted", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if err := second.Acquire(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("second: got %v, want it to wait until its context ends", err)
		}
		if got := c.Status(); got.Opening != 1 || got.Queued != 0 {
			t.Errorf("status: got %+v, want the first alone", got)
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
			t.Errorf("status: got %+v, want nobody there", got)
		}
		first.Leave()
		first.Leave()
	})
}

// The window grows by one with each success, and is one again after a 429.
func TestWindow(t *testing.T) {
	inBubble(t, 20, func(c *crowd) {
		all := c.comes(100, "secrets", well().slowly(200*time.Millisecond))
		for _, want := range []int{4, 8, 16, 20} {
			if got := c.Status().Opening; got != want {
				t.Errorf("opening: got %d, want %d", got, want)
			}
			after(200 * time.Millisecond)
		}
		c.treat(all[90:], throttled(time.Second))
		after(10 * time.Second)
		c.treat(all, well().slowly(200*time.Millisecond))
		after(20 * time.Second)
		if got := c.countSynced(all); got != 100 {
			t.Errorf("synced: got %d, want all 100", got)
		}
	})
}

// What hangs leaves the window, soon where others are served soon.
func TestHungAttemptsLeaveTheWindow(t *testing.T) {
	inBubble(t, 32, func(c *crowd) {
		c.comes(4, "secrets", hangs())
		late := c.comes(1, "secrets", well())
		after(490 * time.Millisecond)
		if got := c.countSynced(late); got != 0 {
			t.Error("before half a second: it did not wait for those that hang")
		}
		after(30 * time.Millisecond)
		if got := c.countSynced(late); got != 1 {
			t.Error("after half a second: it waits for those that hang")
		}
		// Known by now: an attempt takes 10 ms.
		c.comes(8, "secrets", hangs())
		after(1900 * time.Millisecond)
		next := c.comes(1, "secrets", well())
		after(270 * time.Millisecond)
		if got := c.countSynced(next); got != 1 {
			t.Errorf("after a quarter of a second: it waits for those that hang: %+v", c.Status())
		}
	})
}

// A Retry-After binds the member, by up to half as long again and a minute at
// most, and no other one.
func TestRetryAfterBindsTheMember(t *testing.T) {
	for asked, longest := range map[time.Duration]time.Duration{20 * time.Second: 30 * time.Second, time.Hour: time.Minute} {
		inBubble(t, 32, func(c *crowd) {
			bad := c.comes(1, "secrets", throttled(asked))
			others := c.comes(50, "secrets", well())
			c.waits(bad, 100*time.Millisecond, 10*time.Minute)
			if got := c.countSynced(others); got != 50 {
				t.Errorf("others: got %d, want all 50", got)
			}
			for i, at := range bad[0].tried[1:] {
				if gap := at.Sub(bad[0].tried[i]); gap < min(asked, longest) || gap > longest+time.Second {
					t.Errorf("asked for %v: got an attempt after %v, want %v at most", asked, gap, longest)
				}
			}
		})
	}
}

// A dead token is everybody's: one probe at a time, and all follow when it is
// good. A member of whom it is alone does not hold up others.
func TestUnauthorized(t *testing.T) {
	inBubble(t, 32, func(c *crowd) {
		all := c.comes(1000, "secrets", fails(admission.Unauthorized))
		after(5 * time.Second)
		began := time.Now()
		c.waits(all, 100*time.Millisecond, time.Minute)
		if got := c.since(began); got > 60 {
			t.Errorf("attempts in a minute: got %d, want at most one a second", got)
		}
		noticed := 0
		for _, f := range all {
			if f.noticed > 0 {
				noticed++
			}
		}
		if noticed < 990 { // all but those whose attempts were under way
			t.Errorf("notified: got %d of 1,000 members that wait", noticed)
		}
		waiting, ok := all[999].Waiting()
		if !ok || waiting.Kind != admission.Unauthorized || !errors.Is(waiting.Cause, errBad) || waiting.Since.IsZero() {
			t.Errorf("waiting: got %+v, want the dead token", waiting)
		}
		c.treat(all, well())
		after(6 * time.Second)
		if got := c.countSynced(all); got != 1000 {
			t.Errorf("synced 6 s after the token is good: got %d, want all", got)
		}
	})
	inBubble(t, 32, func(c *crowd) {
		bad := c.comes(100, "configmaps", fails(admission.Unauthorized))
		good := c.comes(900, "secrets", well())
		after(10 * time.Second)
		if got := c.countSynced(good); got != 900 || c.countSynced(bad) != 0 {
			t.Errorf("synced: got %d of the other resource, want all 900", got)
		}
	})
}

// An outage takes several members that synced before. It is probed by one at a
// time, and over for all with the first success.
func TestOutage(t *testing.T) {
	for _, kind := range []admission.Kind{admission.Unreachable, admission.Failed} {
		inBubble(t, 32, func(c *crowd) {
			all := c.comes(300, "secrets", well())
			after(20 * time.Second)
			c.treat(all, fails(kind))
			c.cutStreams(all)
			after(2 * time.Second)
			if got := c.Status(); !errors.Is(got.Cause, errBad) || got.CauseTime.IsZero() {
				t.Errorf("status: got %+v, want the cause", got)
			}
			after(10 * time.Second)
			began := time.Now()
			after(time.Minute)
			if got := c.since(began); got < 10 || got > 60 {
				t.Errorf("probes in a minute: got %d, want one each 1 to 5 s", got)
			}
			c.treat(all, well())
			after(6 * time.Second)
			if got := c.countSynced(all); got != 300 || c.Status().Cause != nil {
				t.Errorf("6 s after the return: got %d of 300, %+v", got, c.Status())
			}
		})
	}
}

// What one member alone fails at, or members that were never synced, is no
// outage.
func TestNoOutage(t *testing.T) {
	inBubble(t, 32, func(c *crowd) {
		good := c.comes(10, "secrets", well())
		after(time.Second)
		c.treat(good[:1], fails(admission.Unreachable))
		c.cutStreams(good[:1])
		c.comes(100, "secrets", fails(admission.Unreachable))
		after(time.Minute)
		if got := c.Status().Cause; got != nil {
			t.Errorf("cause: got %v, want none", got)
		}
		late := c.comes(1, "secrets", well())
		after(time.Second)
		if c.countSynced(late) != 1 {
			t.Error("a new member waits")
		}
	})
}

// That a caller waits counts for one attempt.
func TestExpediteIsUsedUp(t *testing.T) {
	inBubble(t, 32, func(c *crowd) {
		one := c.comes(1, "secrets", fails(admission.Refused))
		after(10 * time.Minute)
		before := len(one[0].tried)
		one[0].Expedite()
		after(1600 * time.Millisecond)
		if got := len(one[0].tried) - before; got != 1 {
			t.Errorf("attempts within 1.6 s: got %d, want one", got)
		}
		after(5 * time.Second)
		if got := len(one[0].tried) - before; got != 1 {
			t.Errorf("attempts within 6.6 s: got %d, want no other one", got)
		}
	})
}

// Failing members make few attempts, however many they are and however often
// callers ask.
func TestFailingMembersShareABudget(t *testing.T) {
	tests := map[string]struct {
		members, most int // attempts in a minute
		waited        bool
	}{
		"one, waited for":   {1, 60, true},
		"1,000":             {1000, 21 * 60, false},
		"1,000, waited for": {1000, 181 * 60, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 32, func(c *crowd) {
				all := c.comes(test.members, "secrets", fails(admission.Refused))
				after(2 * time.Minute)
				began := time.Now()
				if test.waited {
					c.waits(all, 100*time.Millisecond, time.Minute)
				} else {
					after(time.Minute)
				}
				if got := c.since(began); got > test.most || got < test.most/4 {
					t.Errorf("attempts in a minute: got %d, want some and at most %d", got, test.most)
				}
			})
		})
	}
}

// Members that fail now and then, as behind a balancer with one bad server, are
// not slowed down by the budget: a success pays for more attempts.
func TestSuccessPays(t *testing.T) {
	inBubble(t, 32, func(c *crowd) {
		all := c.comes(1000, "secrets", fails(admission.Refused))
		after(2 * time.Minute)
		c.treat(all, well())
		began := time.Now()
		for c.countSynced(all) < 990 {
			after(100 * time.Millisecond)
		}
		if took := time.Since(began); took > 20*time.Second {
			t.Errorf("all after a long refusal: got them after %v, want 20 s at most", took)
		}
	})
}

// A member may leave wherever it is.
func TestLeave(t *testing.T) {
	for _, kind := range []admission.Kind{admission.Canceled, admission.Synced, admission.Refused, admission.Throttled, admission.Unauthorized, admission.Unreachable} {
		inBubble(t, 4, func(c *crowd) {
			all := c.comes(50, "secrets", well())
			after(time.Second)
			how := fails(kind)
			if kind == admission.Canceled {
				how = hangs()
			}
			c.treat(all, how)
			c.cutStreams(all)
			for i, f := range all {
				after(time.Duration(i) * 20 * time.Millisecond)
				f.Leave()
			}
			synctest.Wait()
			if got := c.Status(); got.Opening+got.Queued+got.Paused != 0 {
				t.Errorf("%v: got %+v, want nobody there", kind, got)
			}
			late := c.comes(1, "secrets", well())
			after(6 * time.Second)
			if c.countSynced(late) != 1 {
				t.Errorf("%v: a new member is not admitted: %+v", kind, c.Status())
			}
		})
	}
}
