// SPDX-License-Identifier: Apache-2.0

package admission_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/refwatch/refwatch/reflector/internal/admission"
)

// A caller may hold a lock that notify takes.
func TestMembersAreNotifiedOnTheTimersGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := admission.New(1)
		var mu sync.Mutex
		noticed := 0
		first := c.Join("secrets", nil)
		second := c.Join("secrets", func() { mu.Lock(); defer mu.Unlock(); noticed++ })
		if err := first.Acquire(t.Context()); err != nil {
			t.Fatal(err)
		}
		go func() { _ = second.Acquire(t.Context()) }()
		synctest.Wait()
		mu.Lock()
		first.Release(admission.Outcome{Kind: admission.Unauthorized, Cause: errBad}) // proves a trouble
		mu.Unlock()
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		if noticed == 0 {
			t.Error("a member that waits was not notified")
		}
		second.Leave()
		first.Leave()
	})
}

// A server that is away again before many were served is known to be away.
func TestSecondOutage(t *testing.T) {
	inBubble(t, 32, func(c *crowd) {
		all := c.comes(100, "secrets", well())
		after(time.Minute)
		for range 3 {
			c.treat(all, fails(admission.Unreachable))
			c.cutStreams(all)
			after(10 * time.Minute)
			began := time.Now()
			after(time.Minute)
			if got := c.since(began); got > 40 {
				t.Fatalf("attempts in a minute of an outage: got %d, want probes alone", got)
			}
			c.treat(all, well())
			for c.countSynced(all) == 0 {
				after(10 * time.Millisecond)
			}
		}
	})
}

// The Retry-After of a member holds though others succeed.
func TestRetryAfterOutlastsForgiveness(t *testing.T) {
	for _, kind := range []admission.Kind{admission.Failed, admission.Throttled} {
		inBubble(t, 32, func(c *crowd) {
			bad := c.comes(1, "secrets", manner{kind, 30 * time.Second, 10 * time.Millisecond})
			after(time.Second)
			c.comes(20, "secrets", well())
			c.waits(bad, 100*time.Millisecond, time.Minute)
			for i, at := range bad[0].tried[1:] {
				if gap := at.Sub(bad[0].tried[i]); gap < 30*time.Second {
					t.Errorf("kind %d: got an attempt after %v, want none within 30 s", kind, gap)
				}
			}
		})
	}
}

// One bad backend in three, whatever it answers, does not keep members waiting.
func TestOneBadBackend(t *testing.T) {
	for _, kind := range []admission.Kind{admission.Failed, admission.Unauthorized, admission.Unreachable, admission.Refused} {
		inBubble(t, 32, func(c *crowd) {
			c.bad = func(n int) (manner, bool) { return fails(kind), n%3 == 0 }
			all := c.comes(1000, "secrets", well())
			after(20 * time.Second)
			if got := c.countSynced(all); got != 1000 {
				t.Errorf("kind %d: got %d of 1,000 after 20 s", kind, got)
			}
		})
	}
}

// A server that hangs from the start is away: few requests wait for it.
func TestHangsFromTheStart(t *testing.T) {
	inBubble(t, 32, func(c *crowd) {
		all := c.comes(1000, "secrets", hangs())
		most := 0
		for range 120 {
			after(5 * time.Second)
			most = max(most, c.Status().Opening)
		}
		if most > 100 || c.Status().Cause == nil {
			t.Errorf("under way: got %d at most, and %+v, want at most 100 and a cause", most, c.Status())
		}
		c.treat(all, well())
		after(80 * time.Second)
		if got := c.countSynced(all); got != 1000 {
			t.Errorf("synced: got %d of 1,000", got)
		}
	})
}

// A resource whose lists are served and whose watches are refused is not listed
// more often the more members there are.
func TestRefusedStreamsShareTheBudget(t *testing.T) {
	inBubble(t, 32, func(c *crowd) {
		c.ends = &admission.Outcome{Kind: admission.Refused, Cause: errBad}
		c.comes(1000, "secrets", well())
		after(5 * time.Minute)
		began := time.Now()
		after(time.Minute)
		if got := c.since(began); got > 21*60 || got < 5*60 {
			t.Errorf("attempts in a minute: got %d, want some, and at most 20 a second", got)
		}
	})
}
