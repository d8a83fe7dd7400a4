// SPDX-License-Identifier: Apache-2.0

package admission_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/refwatch/refwatch/internal/reflector/internal/admission"
)

// A member that rested continues its pause, in its lane, and is not new. After a failure of long ago it is: its
// attempt does not wait for those of members that fail again and again.
func TestResume(t *testing.T) {
	refused := admission.Outcome{Kind: admission.Refused, Cause: errBad}
	for name, test := range map[string]struct {
		synced      bool // it has, and its stream then ended so; else its attempt ended so
		outcome     admission.Outcome
		after       time.Duration // from then on, how long it rests
		least, most time.Duration // from then on, until its attempt
	}{
		"failed":                 {false, refused, 0, 10 * time.Second, time.Hour},
		"stream refused":         {true, refused, 0, 100 * time.Millisecond, time.Hour},
		"failed an hour before":  {false, refused, time.Hour, 0, 5 * time.Second},
		"within its Retry-After": {false, admission.Outcome{Kind: admission.Throttled, RetryAfter: 40 * time.Second}, 20 * time.Second, 20 * time.Second, time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 32, func(r *rig) {
				r.join(1000, "secrets", fails(admission.Refused))
				advance(5 * time.Minute) // more of them are queued than may begin
				one := join(r.Controller, "secrets", nil)
				if err := one.Acquire(r.ctx); err != nil {
					t.Fatal(err)
				}
				if test.synced {
					one.Release(admission.Outcome{Kind: admission.Synced})
					one.Ended(0, test.outcome)
				} else {
					one.Release(test.outcome)
				}
				one.Rest()
				r.join(10, "secrets", fails(admission.Refused)) // from now on the newest member goes first
				advance(test.after)
				one.Resume()
				began := time.Now()
				if err := one.Acquire(r.ctx); err != nil {
					t.Fatal(err)
				}
				if took := time.Since(began); took < test.least || took > test.most {
					t.Errorf("attempt: got it after %v, want it after %v to %v", took, test.least, test.most)
				}
				one.Release(admission.Outcome{Kind: admission.Synced})
				one.Leave()
			})
		})
	}
}

// Members that rest are no reason to think that the server is well: an outage of all others is noticed.
func TestOutageBesideMembersThatRest(t *testing.T) {
	inBubble(t, 32, func(r *rig) {
		many := r.join(768, "secrets", healthy())
		advance(time.Minute)
		for _, m := range many {
			m.Rest()
		}
		all := r.join(8, "secrets", healthy())
		advance(time.Minute)
		r.behave(all, fails(admission.Unreachable))
		r.cutStreams(all)
		advance(10 * time.Second)
		if r.Status().Cause == nil {
			t.Error("8 members fail, and the others rest: got no outage")
		}
	})
}

// Members that have synced, and then rested, say as much about an outage as others that have
// synced: the object was there.
func TestOutageOfMembersThatRested(t *testing.T) {
	inBubble(t, 32, func(r *rig) {
		all := r.join(8, "secrets", healthy())
		advance(time.Minute)
		for _, m := range all {
			m.Rest()
			m.Resume()
		}
		r.behave(all, fails(admission.Failed))
		r.cutStreams(all)
		advance(10 * time.Second)
		if r.Status().Cause == nil {
			t.Error("8 members that rested fail: got no outage")
		}
	})
}

// An outage ends when nobody is left who could end it.
func TestOutageEndsWithTheLastActiveMember(t *testing.T) {
	for name, end := range map[string]func(*admission.Member){"all leave": (*admission.Member).Leave, "all rest": func(m *admission.Member) { m.Rest() }} {
		for _, kind := range []admission.Kind{admission.Failed, admission.Unreachable} {
			t.Run(fmt.Sprint(name, ", kind ", kind), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c := admission.New(8)
					all := []*admission.Member{join(c, "secrets", nil), join(c, "secrets", nil), join(c, "secrets", nil)}
					for _, outcome := range []admission.Outcome{{Kind: admission.Synced}, {Kind: kind, Cause: errBad}} {
						for _, m := range all {
							if err := m.Acquire(t.Context()); err != nil {
								t.Fatal(err)
							}
							m.Release(outcome)
						}
					}
					if c.Status().Cause == nil {
						t.Fatal("all fail: got no outage")
					}
					for _, m := range all {
						end(m)
					}
					if err := c.Status().Cause; err != nil {
						t.Errorf("got an outage by %v, want none", err)
					}
				})
			})
		}
	}
}

// Members that rest do not raise the number of others that must fail.
func TestOutageOfTwoBesideMembersThatRest(t *testing.T) {
	for name, test := range map[string]struct {
		synced bool
		kind   admission.Kind
	}{
		"the server never answered": {false, admission.Unreachable},
		"unauthorized":              {false, admission.Unauthorized},
		"throttled":                 {false, admission.Throttled},
		"failed":                    {true, admission.Failed},
		"unreachable":               {true, admission.Unreachable},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := admission.New(8)
				for range 9 {
					m := join(c, "secrets", nil)
					defer m.Leave()
					m.Rest()
				}
				two := []*admission.Member{join(c, "secrets", nil), join(c, "secrets", nil)}
				try := func(outcome admission.Outcome) {
					for _, m := range two {
						if err := m.Acquire(t.Context()); err != nil {
							t.Fatal(err)
						}
						m.Release(outcome)
					}
				}
				if test.synced {
					try(admission.Outcome{Kind: admission.Synced})
				}
				try(admission.Outcome{Kind: test.kind, Cause: errBad})
				if c.Status().Cause == nil {
					t.Error("both members that do not rest fail: got no outage")
				}
				for _, m := range two {
					m.Leave()
				}
			})
		})
	}
}

// Members that rested keep an outage going when all others have left.
func TestOutageGoesOnForMembersThatRested(t *testing.T) {
	inBubble(t, 32, func(r *rig) {
		all := r.join(8, "secrets", healthy())
		other := join(r.Controller, "secrets", nil)
		advance(time.Minute)
		for _, m := range all {
			m.Rest()
			m.Resume()
		}
		r.behave(all, fails(admission.Failed))
		r.cutStreams(all)
		advance(10 * time.Second)
		other.Leave()
		if r.Status().Cause == nil {
			t.Error("8 members that rested fail, and another one has left: got no outage")
		}
	})
}

// A bad object that was never read is no outage while others rest: it is the only one that makes attempts.
func TestOneBadBesideMembersThatRestIsNoOutage(t *testing.T) {
	inBubble(t, 32, func(r *rig) {
		all := r.join(40, "secrets", healthy())
		advance(time.Minute)
		for _, m := range all {
			m.Rest()
		}
		r.join(1, "secrets", fails(admission.Failed))
		advance(10 * time.Second)
		if err := r.Status().Cause; err != nil {
			t.Errorf("one of 41 members fails, and the others rest: got an outage by %v", err)
		}
	})
}

// A few bad objects of many that are read now and then are no outage: the others are healthy.
func TestFewThatRestedAreNoOutage(t *testing.T) {
	inBubble(t, 32, func(r *rig) {
		all := r.join(40, "secrets", healthy())
		advance(time.Minute)
		for _, m := range all {
			m.Rest()
		}
		bad := all[:3]
		r.behave(bad, fails(admission.Failed))
		for _, m := range bad {
			m.Resume()
		}
		r.cutStreams(bad)
		advance(10 * time.Second)
		if err := r.Status().Cause; err != nil {
			t.Errorf("3 of 40 members fail, and the others rest: got an outage by %v", err)
		}
		r.behave(all, fails(admission.Failed))
		for _, m := range all[3:] {
			m.Resume()
		}
		r.cutStreams(all[3:])
		advance(10 * time.Second)
		if r.Status().Cause == nil {
			t.Error("40 members that rested fail: got no outage")
		}
	})
}

// A request that waits ends with the rest, and one under way does not.
func TestRestWithdrawsARequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := admission.New(1)
		first, second := join(c, "secrets", nil), join(c, "secrets", nil)
		defer first.Leave()
		defer second.Leave()
		if err := first.Acquire(t.Context()); err != nil {
			t.Fatal(err)
		}
		second.Request(func() { t.Error("the request of a member that rests is admitted") })
		synctest.Wait()
		if first.Rest() || !second.Rest() || second.Rest() {
			t.Error("got other results of Rest, want that the second member had a request that waited")
		}
		second.Expedite()
		first.Release(admission.Outcome{Kind: admission.Synced})
		synctest.Wait()
		if got := c.Status(); got.Opening+got.Queued+got.Paused > 0 {
			t.Errorf("status: got %+v, want no request", got)
		}
		second.Leave()
		second.Request(func() {})
		if second.Rest() || !second.Resume() {
			t.Error("a member that has left rests")
		}
	})
}

// A kind whose members rest keeps its window.
func TestWindowOfMembersThatRest(t *testing.T) {
	inBubble(t, 32, func(r *rig) {
		all := r.join(10, "secrets", healthy())
		advance(time.Minute)
		before := r.Status().Window
		for _, m := range all {
			m.Rest()
		}
		if got := r.Status().Window; got != before {
			t.Errorf("window while all rest: got %d, want %d as before", got, before)
		}
		for _, m := range all {
			m.Leave()
		}
		if got := r.Status().Window; got != 0 {
			t.Errorf("window after all have left: got %d, want 0", got)
		}
	})
}
