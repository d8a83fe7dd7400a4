// SPDX-License-Identifier: Apache-2.0

package admission_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/refwatch/refwatch/internal/reflector/internal/admission"
)

var errBad = errors.New("bad")

// requestTimeout is how long a request hangs before it fails.
const requestTimeout = time.Minute

// behavior is how the server handles the requests of a member.
type behavior struct {
	kind       admission.Kind // Canceled: the request hangs
	retryAfter time.Duration
	takes      time.Duration
}

func healthy() behavior                  { return fails(admission.Synced) }
func fails(kind admission.Kind) behavior { return behavior{kind: kind, takes: 10 * time.Millisecond} }
func throttled(after time.Duration) behavior {
	return behavior{admission.Throttled, after, 10 * time.Millisecond}
}
func hangs() behavior                                  { return behavior{} }
func (b behavior) taking(takes time.Duration) behavior { b.takes = takes; return b }

// rig is a controller with members and their server.
type rig struct {
	*admission.Controller

	ctx context.Context

	// override replaces the behavior for the nth attempt of all members, if it returns true; it may be nil.
	override func(n int) (behavior, bool)
	// streamEnd is how each stream ends at once. If it is nil, streams live until cutStreams.
	streamEnd *admission.Outcome

	changes atomic.Int64 // each begin and each end of an outage is one

	mu       sync.Mutex
	clients  []*client
	attempts []time.Time // of all clients, in order
}

// client is a member that keeps a stream open: it makes attempts until one syncs, and again when its stream ends.
type client struct {
	*admission.Member

	rig    *rig
	joined time.Time

	// Guarded by rig.mu.
	behavior behavior
	attempts []time.Time
	synced   bool
	cut      chan struct{} // closed when its stream ends
	notified int
	endedAt  time.Time     // when its last stream ended
	away     time.Duration // the longest time from the end of a stream until the next
}

// inBubble runs f with a rig, in virtual time.
func inBubble(t *testing.T, limit int, f func(*rig)) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		r := &rig{Controller: admission.New(limit), ctx: ctx}
		f(r)
		cancel()
		synctest.Wait()
		for _, client := range r.clients {
			client.Leave()
		}
		if got := r.Status(); got.Opening != 0 || got.Queued != 0 || got.Paused != 0 {
			t.Errorf("status in the end: got %+v, want no member", got)
		}
	})
}

// observer is the function that an outage calls.
type observer func()

func (o observer) OutageBegan() { o() }

func (observer) OutageChanged(admission.Outage) func() { return func() {} }

// join adds a member. notify may be nil.
func join(c *admission.Controller, resource string, notify func()) *admission.Member {
	m := &admission.Member{}
	if notify == nil {
		c.Join(m, resource, nil)
	} else {
		c.Join(m, resource, observer(notify))
	}
	return m
}

// join adds n members of a resource.
func (r *rig) join(n int, resource string, b behavior) (clients []*client) {
	for range n {
		c := &client{rig: r, joined: time.Now(), behavior: b, cut: make(chan struct{})}
		c.Member = &admission.Member{}
		r.Join(c.Member, resource, c)
		r.mu.Lock()
		r.clients = append(r.clients, c)
		r.mu.Unlock()
		clients = append(clients, c)
		go c.run()
	}
	synctest.Wait()
	return clients
}

func (c *client) OutageBegan() {
	c.rig.mu.Lock()
	defer c.rig.mu.Unlock()
	c.notified++
}

func (c *client) OutageChanged(admission.Outage) func() { return func() { c.rig.changes.Add(1) } }

func (c *client) run() {
	ctx := c.rig.ctx
	for c.Acquire(ctx) == nil {
		b, cut := c.begin()
		outcome := admission.Outcome{Kind: b.kind, RetryAfter: b.retryAfter, Cause: errBad}
		if b.kind == admission.Canceled {
			b.takes, outcome.Kind = requestTimeout, admission.Unreachable
		}
		sleep(ctx, b.takes)
		if ctx.Err() != nil {
			outcome = admission.Outcome{}
		}
		c.Release(outcome)
		if outcome.Kind != admission.Synced {
			continue
		}
		if c.rig.streamEnd != nil {
			c.Ended(0, *c.rig.streamEnd)
			continue
		}
		c.setSynced(true)
		began := time.Now()
		select {
		case <-cut:
		case <-ctx.Done():
			return
		}
		c.setSynced(false)
		c.Ended(time.Since(began), admission.Outcome{Kind: admission.Unreachable, Cause: errBad})
	}
}

// sleep does not use a timer with a channel: the race detector cannot take many of them due at one moment
// (go.dev/issue/78156).
func sleep(ctx context.Context, d time.Duration) {
	over, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	<-over.Done()
}

// begin records an attempt. It returns how the server handles it, and the channel that ends the stream after it.
func (c *client) begin() (behavior, chan struct{}) {
	c.rig.mu.Lock()
	defer c.rig.mu.Unlock()
	c.attempts = append(c.attempts, time.Now())
	c.rig.attempts = append(c.rig.attempts, time.Now())
	if c.rig.override != nil {
		if b, ok := c.rig.override(len(c.rig.attempts)); ok {
			return b, c.cut
		}
	}
	return c.behavior, c.cut
}

func (c *client) setSynced(synced bool) {
	c.rig.mu.Lock()
	defer c.rig.mu.Unlock()
	c.synced = synced
	if !synced {
		c.endedAt = time.Now()
	} else if !c.endedAt.IsZero() {
		c.away = max(c.away, time.Since(c.endedAt))
	}
}

func (c *client) isSynced() bool {
	c.rig.mu.Lock()
	defer c.rig.mu.Unlock()
	return c.synced
}

// firstAttempt returns how long after the member joined its first attempt began, and false if there was none.
func (c *client) firstAttempt() (time.Duration, bool) {
	c.rig.mu.Lock()
	defer c.rig.mu.Unlock()
	if len(c.attempts) == 0 {
		return 0, false
	}
	return c.attempts[0].Sub(c.joined), true
}

// behave changes how the server handles the next requests of some members.
func (r *rig) behave(clients []*client, b behavior) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range clients {
		c.behavior = b
	}
}

// cutStreams ends the streams of some members.
func (r *rig) cutStreams(clients []*client) {
	r.mu.Lock()
	for _, c := range clients {
		close(c.cut)
		c.cut = make(chan struct{})
	}
	r.mu.Unlock()
	synctest.Wait()
}

// expedite calls Expedite for those of the members that are not synced, at an interval, for a time.
func (r *rig) expedite(clients []*client, interval, during time.Duration) {
	for end := time.Now().Add(during); time.Now().Before(end); advance(interval) {
		for _, c := range clients {
			if !c.isSynced() {
				c.Expedite()
			}
		}
	}
}

// resync ends the streams of some members, and returns how long it takes until all have synced again. It returns false
// if that takes longer than a bound. Meanwhile callers wait for the expedited members.
func (r *rig) resync(clients, expedited []*client, bound time.Duration) (took time.Duration, ok bool) {
	r.cutStreams(clients)
	began := time.Now()
	for r.countSynced(clients) < len(clients) {
		if time.Since(began) >= bound {
			return bound, false
		}
		r.expedite(expedited, 500*time.Millisecond, 500*time.Millisecond)
	}
	return time.Since(began), true
}

func (r *rig) countSynced(clients []*client) (count int) {
	for _, c := range clients {
		if c.isSynced() {
			count++
		}
	}
	return count
}

// attemptsSince returns how many attempts of all members began at a time or later.
func (r *rig) attemptsSince(at time.Time) (count int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, attempt := range r.attempts {
		if !attempt.Before(at) {
			count++
		}
	}
	return count
}

// advance advances the virtual time.
func advance(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}
