// SPDX-License-Identifier: Apache-2.0

package reflector_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/refwatch/refwatch/reflector"
)

// What is promised to a healthy member, whatever else goes on at its gate.
const (
	soonAwaited = time.Second     // somebody waits for it
	soon        = 5 * time.Second // nobody does
)

func unreadable() error { return apierrors.NewInternalError(errors.New("cannot be decrypted")) }

// every returns each n-th of some members, m of them.
func every(n, m int, ids []int) (some []int) {
	for i := 0; i < len(ids) && len(some) < m; i += n {
		some = append(some, ids[i])
	}
	return some
}

// without returns the members that are not among some.
func without(ids, some []int) (others []int) {
	out := map[int]bool{}
	for _, id := range some {
		out[id] = true
	}
	for _, id := range ids {
		if !out[id] {
			others = append(others, id)
		}
	}
	return others
}

// A kind that is throttled, as kube-apiserver does while a watch cache is not
// ready, holds up no other kind, and is asked for no more often than it wants.
func TestThrottledKindHoldsUpNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t, reflector.GateOptions{})
		c.treatAll(func(call call) reply {
			if call.kind == "configmaps" {
				return says(throttled(30))(call)
			}
			return well(call)
		})
		var secrets, configMaps []int
		for range 100 {
			secrets = append(secrets, c.comes(9, "secrets")...)
			configMaps = append(configMaps, c.comes(1, "configmaps")...)
		}
		enough := c.wants(every(2, 50, configMaps), 100*time.Millisecond)
		after(time.Minute)
		c.within(secrets, soon, "secrets at the start")
		awaited, others := c.newcomers(40, 3*time.Second, "secrets")
		c.within(awaited, soonAwaited, "secrets that are waited for")
		c.within(others, soon, "secrets that nobody waits for")
		c.cut(secrets, nil)
		began := time.Now()
		after(10 * time.Second)
		c.fresh(secrets, began, soon, "secrets after a cut")
		for _, id := range configMaps {
			for _, gap := range gapsOf(c.requests(id)) {
				if gap < 30*time.Second {
					t.Fatalf("a throttled one: got a request %v after the last, want its Retry-After honoured", gap)
				}
			}
		}
		c.treatAll(well)
		began = time.Now()
		after(2 * time.Minute)
		enough()
		c.fresh(configMaps, began, time.Minute, "configmaps when they are served")
	})
}

// A single object that is throttled is nobody else's concern.
func TestThrottledObjectHoldsUpNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t, reflector.GateOptions{})
		c.treat([]int{0}, says(throttled(30)))
		all := c.comes(1000, "secrets")
		enough := c.wants(all[:1], 100*time.Millisecond)
		after(time.Minute)
		c.within(all[1:], 2*time.Second, "others at the start")
		awaited, others := c.newcomers(40, 3*time.Second, "secrets", "configmaps")
		c.within(awaited, soonAwaited, "waited for")
		c.within(others, soonAwaited, "not waited for")
		began := time.Now()
		c.cut(all[1:], nil)
		after(10 * time.Second)
		enough()
		c.fresh(all[1:], began, 2*time.Second, "others after a cut")
		if gaps := gapsOf(c.requests(0)); len(gaps) < 4 {
			t.Errorf("the throttled one: got gaps of %v, want it asked for", gaps)
		}
	})
}

// Callers that ask for refused objects again and again do not keep healthy
// streams from being opened again. The server is loaded.
func TestCallersOfRefusedObjectsStarveNobody(t *testing.T) {
	for name, pace := range map[string]time.Duration{"every 10 ms": 10 * time.Millisecond, "every 100 ms": 100 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCrowd(t, reflector.GateOptions{})
				all := c.comes(1000, "secrets")
				after(20 * time.Second)
				refused := every(3, 300, all)
				healthy := without(all, refused)
				c.treatAll(taking(200*time.Millisecond, well))
				c.treat(refused, taking(200*time.Millisecond, says(forbidden())))
				c.cut(refused, nil)
				c.wants(refused, pace)
				after(5 * time.Second)
				began := time.Now()
				c.cut(every(7, 50, healthy), nil)
				awaited, others := c.newcomers(6, time.Second, "secrets")
				after(5 * time.Second)
				c.fresh(every(7, 50, healthy), began, soon, "streams that ended")
				c.within(awaited, soonAwaited, "waited for")
				c.within(others, soon, "not waited for")
			})
		})
	}
}

// An object that was asked for once, and is refused, is not urgent for ever. The
// server is slow, so that it matters who goes first.
func TestUrgencyIsUsedUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t, reflector.GateOptions{Opens: 4})
		all := c.comes(1000, "secrets")
		after(20 * time.Second)
		refused := every(3, 300, all)
		healthy := without(all, refused)
		c.treatAll(taking(300*time.Millisecond, well))
		c.treat(refused, taking(300*time.Millisecond, says(forbidden())))
		c.cut(refused, nil)
		for _, id := range refused {
			c.rigs[id].Retry()
		}
		after(2 * time.Minute)
		began := time.Now()
		c.cut(every(7, 20, healthy), nil)
		after(20 * time.Second)
		c.fresh(every(7, 20, healthy), began, soon, "streams that ended")
	})
}

// Members that fail, whatever at and from whenever on, do not delay healthy ones.
func TestBadMembersStarveNobody(t *testing.T) {
	tests := map[string]struct {
		bad    int
		manner []treatment // in turn
	}{
		"2 unreadable":          {2, []treatment{says(unreadable())}},
		"10 unreadable":         {10, []treatment{says(unreadable())}},
		"100 unreadable":        {100, []treatment{says(unreadable())}},
		"4 hang":                {4, []treatment{hangs}},
		"100 hang":              {100, []treatment{hangs}},
		"1 hangs, 1 unreadable": {2, []treatment{hangs, says(unreadable())}},
		"100 hang half-way":     {100, []treatment{mute}},
		"100 forbidden":         {100, []treatment{says(forbidden())}},
		"100 throttled":         {100, []treatment{says(throttled(30))}},
		"100 refuse":            {100, []treatment{says(errDown)}},
		"25 of each":            {100, []treatment{says(unreadable()), hangs, says(forbidden()), says(throttled(30))}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { starveNobody(t, test.bad, test.manner) })
		})
	}
}

// starveNobody has some of 1,000 members of two kinds be bad at first, and, once
// they have been mended, others.
func starveNobody(t *testing.T, bad int, manners []treatment) {
	c := newCrowd(t, reflector.GateOptions{})
	var all []int
	for i := range 1000 {
		all = append(all, i)
	}
	first, second := every(10, bad, all), every(10, bad, all[5:])
	misbehave := func(ids []int) {
		for i, id := range ids {
			c.treat([]int{id}, manners[i%len(manners)])
		}
	}
	misbehave(first)
	for range 500 {
		c.comes(1, "secrets")
		c.comes(1, "configmaps")
	}
	enough := c.wants(every(2, bad, first), 100*time.Millisecond)
	after(30 * time.Second)
	c.within(without(all, first), 30*time.Second, "healthy ones at the start")
	awaited, others := c.newcomers(16, 2*time.Second, "secrets", "configmaps")
	after(5 * time.Second)
	c.within(awaited, soonAwaited, "waited for")
	c.within(others, soon, "not waited for")
	enough()
	c.treat(first, nil)
	began := time.Now()
	after(100 * time.Second)
	c.fresh(first, began, 90*time.Second, "bad ones after they were mended")

	misbehave(second)
	healthy := without(all, second)
	began = time.Now()
	c.cut(nil, nil) // the server was restarted
	after(20 * time.Second)
	c.fresh(healthy, began, 15*time.Second, "healthy ones after a cut that made others bad")
	awaited, others = c.newcomers(8, 3*time.Second, "configmaps", "secrets")
	after(5 * time.Second)
	c.within(awaited, soonAwaited, "waited for beside those that went bad")
	c.within(others, soon, "not waited for beside those that went bad")
	began = time.Now()
	c.cut(healthy, nil)
	after(20 * time.Second)
	c.fresh(healthy, began, soon, "healthy ones after a cut")
	if cause := c.gate.Status().Cause; cause != nil {
		t.Errorf("gate: got cause %v, want none: it is not the server", cause)
	}
}

// The same when the bad ones are the first that ask, and nothing is known yet.
func TestFirstOnesThatAreBadStarveNobody(t *testing.T) {
	tests := map[string][]treatment{
		"4 hang":                {hangs, hangs, hangs, hangs},
		"8 hang half-way":       {mute, mute, mute, mute, mute, mute, mute, mute},
		"1 hangs, 1 unreadable": {hangs, says(unreadable())},
		"2 unreadable":          {says(unreadable()), says(unreadable())},
		"1 unreadable, 1 hangs": {says(unreadable()), hangs},
		"1 refuses, 3 hang":     {says(errDown), hangs, hangs, hangs},
	}
	for name, manners := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCrowd(t, reflector.GateOptions{})
				for id, how := range manners {
					c.treat([]int{id}, how)
				}
				all := c.comes(1000, "secrets")
				after(10 * time.Second)
				c.within(all[len(manners):], 10*time.Second, "those that came with them")
				awaited, others := c.newcomers(30, 2*time.Second, "secrets", "configmaps")
				after(5 * time.Second)
				c.within(awaited, soonAwaited, "waited for")
				c.within(others, soon, "not waited for")
			})
		})
	}
}

// A few that synced before and fail all at once, while all other streams are
// silent, are no outage once a single answer has shown it.
func TestFewThatGoBadAreNoOutage(t *testing.T) {
	for _, n := range []int{2, 10, 100} {
		for name, how := range map[string]treatment{"unreadable": says(unreadable()), "refuse": says(errDown), "hang": hangs} {
			t.Run(fmt.Sprintf("%d %s", n, name), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c := newCrowd(t, reflector.GateOptions{})
					all := c.comes(1000, "secrets")
					after(30 * time.Second)
					bad := every(10, n, all)
					c.treat(bad, how)
					c.cut(bad, nil)
					after(10 * time.Second)
					awaited, others := c.newcomers(20, 3*time.Second, "secrets", "configmaps")
					after(5 * time.Second)
					if n > 2 {
						awaited = awaited[1:] // the first one shows it
					}
					c.within(awaited, soonAwaited, "waited for")
					c.within(others, soon, "not waited for")
				})
			})
		}
	}
}
