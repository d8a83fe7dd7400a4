// SPDX-License-Identifier: Apache-2.0

package admission_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/refwatch/refwatch/reflector/internal/admission"
)

var errBad = errors.New("bad")

// manner is how the server treats a member.
type manner struct {
	kind       admission.Kind // Canceled: the request hangs
	retryAfter time.Duration
	takes      time.Duration
}

func well() manner                             { return manner{kind: admission.Synced, takes: 10 * time.Millisecond} }
func fails(kind admission.Kind) manner         { return manner{kind: kind, takes: 10 * time.Millisecond} }
func hangs() manner                            { return manner{} }
func throttled(d time.Duration) manner         { return manner{admission.Throttled, d, 10 * time.Millisecond} }
func (m manner) hanging() bool                 { return m.kind == admission.Canceled }
func (m manner) slowly(d time.Duration) manner { m.takes = d; return m }

// hangsFor is when a request that hangs is given up.
const hangsFor = time.Minute

// crowd is the members of a controller and their server.
type crowd struct {
	*admission.Controller

	t   *testing.T
	ctx context.Context

	// bad treats the nth attempt of all in its own manner, if it likes. ends is how
	// each stream ends at once; nil if it lives until it is cut.
	bad  func(n int) (manner, bool)
	ends *admission.Outcome

	mu       sync.Mutex
	all      []*follower
	attempts []time.Time // of all, in order
}

// follower is a member that follows an object until its stream is cut.
type follower struct {
	*admission.Member

	crowd   *crowd
	came    time.Time
	manner  manner
	tried   []time.Time
	synced  time.Time // zero while it is not
	cut     chan struct{}
	noticed int
}

// inBubble runs f with a crowd, in virtual time.
func inBubble(t *testing.T, most int, f func(*crowd)) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		c := &crowd{Controller: admission.New(most), t: t, ctx: ctx}
		f(c)
		cancel()
		synctest.Wait()
		for _, member := range c.all {
			member.Leave()
		}
		if got := c.Status(); got.Opening != 0 || got.Queued != 0 || got.Paused != 0 {
			t.Errorf("status in the end: got %+v, want nobody there", got)
		}
	})
}

// comes adds n members of a resource.
func (c *crowd) comes(n int, resource string, how manner) (some []*follower) {
	for range n {
		f := &follower{crowd: c, came: time.Now(), manner: how, cut: make(chan struct{})}
		f.Member = c.Join(resource, func() { c.mu.Lock(); defer c.mu.Unlock(); f.noticed++ })
		c.mu.Lock()
		c.all = append(c.all, f)
		c.mu.Unlock()
		some = append(some, f)
		go f.follow()
	}
	synctest.Wait()
	return some
}

func (f *follower) follow() {
	for f.Acquire(f.crowd.ctx) == nil {
		how, cut := f.begin()
		outcome := admission.Outcome{Kind: how.kind, RetryAfter: how.retryAfter, Cause: errBad}
		if how.hanging() {
			how.takes, outcome.Kind = hangsFor, admission.Unreachable
		}
		sleep(f.crowd.ctx, how.takes)
		if f.crowd.ctx.Err() != nil {
			outcome = admission.Outcome{}
		}
		f.Release(outcome)
		if outcome.Kind != admission.Synced {
			continue
		}
		if f.crowd.ends != nil {
			f.Ended(0, *f.crowd.ends)
			continue
		}
		f.setSynced(time.Now())
		synced := time.Now()
		select {
		case <-cut:
		case <-f.crowd.ctx.Done():
			return
		}
		f.setSynced(time.Time{})
		f.Ended(time.Since(synced), admission.Outcome{Kind: admission.Unreachable, Cause: errBad})
	}
}

// sleep needs no timer with a channel: many of them due at one moment are more
// than the race detector can take (go.dev/issue/78156).
func sleep(ctx context.Context, d time.Duration) {
	over, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	<-over.Done()
}

func (f *follower) begin() (manner, chan struct{}) {
	f.crowd.mu.Lock()
	defer f.crowd.mu.Unlock()
	f.tried = append(f.tried, time.Now())
	f.crowd.attempts = append(f.crowd.attempts, time.Now())
	if f.crowd.bad != nil {
		if how, bad := f.crowd.bad(len(f.crowd.attempts)); bad {
			return how, f.cut
		}
	}
	return f.manner, f.cut
}

func (f *follower) setSynced(at time.Time) {
	f.crowd.mu.Lock()
	defer f.crowd.mu.Unlock()
	f.synced = at
}

// treat changes how the server treats some members from now on.
func (c *crowd) treat(some []*follower, how manner) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, f := range some {
		f.manner = how
	}
}

// cutStreams ends the streams of some members, and lets them notice.
func (c *crowd) cutStreams(some []*follower) {
	c.mu.Lock()
	for _, f := range some {
		close(f.cut)
		f.cut = make(chan struct{})
	}
	c.mu.Unlock()
	synctest.Wait()
}

// waits has callers wait for some members, again and again, for a time.
func (c *crowd) waits(some []*follower, every, during time.Duration) {
	for end := time.Now().Add(during); time.Now().Before(end); after(every) {
		for _, f := range some {
			if !f.isSynced() {
				f.Expedite()
			}
		}
	}
}

func (f *follower) isSynced() bool {
	f.crowd.mu.Lock()
	defer f.crowd.mu.Unlock()
	return !f.synced.IsZero()
}

// firstTry is how long after a member came its first attempt was; false if there
// was none.
func (f *follower) firstTry() (time.Duration, bool) {
	f.crowd.mu.Lock()
	defer f.crowd.mu.Unlock()
	if len(f.tried) == 0 {
		return 0, false
	}
	return f.tried[0].Sub(f.came), true
}

func (c *crowd) countSynced(some []*follower) (count int) {
	for _, f := range some {
		if f.isSynced() {
			count++
		}
	}
	return count
}

// since returns how many attempts there were since a moment, of all.
func (c *crowd) since(at time.Time) (count int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, attempt := range c.attempts {
		if !attempt.Before(at) {
			count++
		}
	}
	return count
}

// after lets virtual time pass.
func after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}
