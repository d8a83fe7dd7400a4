// SPDX-License-Identifier: Apache-2.0

package reflector_test

import (
	"cmp"
	"testing"
	"testing/synctest"
	"time"

	"github.com/refwatch/refwatch/internal/reflector"
	"github.com/refwatch/refwatch/test/testmain"
)

// The tests of this file check that members that fail delay no healthy ones.

// A resource that is throttled, as kube-apiserver does while a watch cache is not
// ready, delays no other resource. Its own Retry-After is honored.
func TestThrottledResourceDelaysNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t, reflector.GateOptions{}, func(call call) answer {
			if call.resource == "configmaps" {
				return failing(throttled(30))(call)
			}
			return healthy(call)
		})
		var secrets, configMaps []int
		for range 100 {
			secrets = append(secrets, c.add(9, "secrets")...)
			configMaps = append(configMaps, c.add(1, "configmaps")...)
		}
		stop := c.retryEvery(100*time.Millisecond, every(2, 50, configMaps))
		after(time.Minute)
		c.wantSynced(secrets, soon, "secrets at the start")
		awaited, others := c.addEvery(3*time.Second, 40, "secrets")
		c.wantSynced(awaited, soonAwaited, "new secrets, a caller waits")
		c.wantSynced(others, soon, "new secrets, no caller waits")
		c.cut(secrets, nil)
		began := time.Now()
		after(10 * time.Second)
		c.wantRead(secrets, began, soon, "secrets after a cut")
		for _, id := range configMaps {
			for _, gap := range gaps(c.seenOf(id)) {
				if gap < 30*time.Second {
					t.Fatalf("a throttled one: got a request %v after the last, want its Retry-After honored", gap)
				}
			}
		}
		c.serveAll(healthy)
		began = time.Now()
		after(2 * time.Minute)
		stop()
		c.wantRead(configMaps, began, time.Minute, "configmaps when they are served")
	})
}

// Failing members, whatever they fail with, do not delay healthy ones.
func TestFailingMembersDelayNoOther(t *testing.T) {
	testmain.Long(t)
	type test struct {
		failing   int
		behaviors []behavior    // in turn
		start     time.Duration // until the healthy ones have synced; 0 is 30 s
	}
	tests := map[string]test{
		"2 unreadable":          {2, []behavior{failing(unreadable())}, 0},
		"100 unreadable":        {100, []behavior{failing(unreadable())}, 0},
		"100 hang":              {100, []behavior{hanging}, 0},
		"1 hangs, 1 unreadable": {2, []behavior{hanging, failing(unreadable())}, 0},
		"100 stall":             {100, []behavior{stalling}, 0},
		"100 forbidden":         {100, []behavior{failing(forbidden())}, 0},
		// Each 429 may pause the others for 0.1 s, or for longer: 10 s in all as a rule, and 42 s in one of 1,500 runs.
		"100 throttled":     {100, []behavior{failing(throttled(30))}, time.Minute},
		"100 no connection": {100, []behavior{failing(errDown)}, 0},
		"25 of each":        {100, []behavior{failing(unreadable()), hanging, failing(forbidden()), failing(throttled(30))}, 0},
	}
	eachCase(t, tests, func(t *testing.T, test test) {
		failingDelayNoOther(t, test.failing, test.behaviors, cmp.Or(test.start, 30*time.Second))
	})
}

// failingDelayNoOther makes n of 1,000 members of two resources fail from the start,
// and others when the first have recovered. The healthy ones sync within start.
func failingDelayNoOther(t *testing.T, n int, behaviors []behavior, start time.Duration) {
	all := numbers(1000)
	c := newCrowd(t, reflector.GateOptions{}, healthy)
	first, second := every(10, n, all), every(10, n, all[5:])
	misbehave := func(ids []int) {
		for i, id := range ids {
			c.serve([]int{id}, behaviors[i%len(behaviors)])
		}
	}
	misbehave(first)
	for range 500 {
		c.add(1, "secrets")
		c.add(1, "configmaps")
	}
	stop := c.retryEvery(100*time.Millisecond, every(2, n, first))
	after(start)
	c.wantSynced(without(all, first), start, "healthy ones at the start")
	awaited, others := c.addEvery(2*time.Second, 16, "secrets", "configmaps")
	after(5 * time.Second)
	c.wantSynced(awaited, soonAwaited, "new, a caller waits")
	c.wantSynced(others, soon, "new, no caller waits")
	stop()
	c.serve(first, nil)
	began := time.Now()
	after(100 * time.Second)
	c.wantRead(first, began, 90*time.Second, "failing ones after they recovered")

	misbehave(second)
	healthyOnes := without(all, second)
	began = time.Now()
	c.cutAll(nil) // the server was restarted
	after(20 * time.Second)
	c.wantRead(healthyOnes, began, 15*time.Second, "healthy ones after a cut that made others fail")
	awaited, others = c.addEvery(3*time.Second, 8, "configmaps", "secrets")
	after(5 * time.Second)
	c.wantSynced(awaited, soonAwaited, "new beside the second failing ones, a caller waits")
	c.wantSynced(others, soon, "new beside the second failing ones, no caller waits")
	began = time.Now()
	c.cut(healthyOnes, nil)
	after(20 * time.Second)
	c.wantRead(healthyOnes, began, soon, "healthy ones after a cut")
	if cause := c.gate.Status().Cause; cause != nil {
		t.Errorf("gate: got cause %v, want none: the server serves the others", cause)
	}
}
