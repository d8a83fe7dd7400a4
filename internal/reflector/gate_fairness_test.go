// SPDX-License-Identifier: Apache-2.0

package reflector_test

import (
	"cmp"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/refwatch/refwatch/internal/reflector"
)

// The tests of this file check that members that fail delay no healthy ones.

// While one reflector alone fails, others do not wait.
func TestOneFailureDelaysNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t, reflector.GateOptions{}, atOnce(nil))
		c.serve([]int{0}, atOnce(errDown))
		c.add(1, "secrets")
		if got := c.gate.Status().Cause; got != nil {
			t.Fatalf("cause: got %v, want one failure to be no outage", got)
		}
		c.add(20, "secrets")
		if got := c.synced(); got != 20 {
			t.Errorf("synced at once: got %d, want 20", got)
		}
	})
}

// Callers that wait for failing reflectors do not delay the discovery that the server
// serves others.
func TestFailuresWithCallersDelayNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t, reflector.GateOptions{}, atOnce(nil))
		c.serve([]int{0, 1}, atOnce(errDown))
		c.add(2, "secrets")
		retry := func() { c.members[0].Expedite(); c.members[1].Expedite() }
		retry()
		c.add(20, "secrets")
		for range 200 {
			after(10 * time.Millisecond)
			retry()
		}
		if got := c.synced(); got != 20 {
			t.Errorf("synced in two seconds: got %d, want 20", got)
		}
	})
}

// Openings that hang leave their place to others after half a second. Each does so
// once.
func TestHungOpeningsDelayNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t, reflector.GateOptions{Opens: 2}, atOnce(nil))
		c.serve([]int{0, 1}, hanging)
		c.add(5, "secrets")
		after(400 * time.Millisecond)
		if got := c.gate.Status(); got.Opening != 2 || got.Queued != 3 {
			t.Errorf("gate after 0.4 s: got %+v, want three to wait", got)
		}
		after(200 * time.Millisecond)
		if got := c.synced(); got != 3 {
			t.Errorf("synced after 0.6 s: got %d, want 3", got)
		}
		if got := c.gate.Status(); got.Opening != 2 || got.Queued != 0 {
			t.Errorf("gate after 0.6 s: got %+v, want only those that hang", got)
		}
	})
}

// One object that the server can never read is asked for less and less often. It is no
// outage, and the others hardly wait because of it.
func TestOneBadObjectDelaysNoOther(t *testing.T) {
	const lives = 11 * time.Second
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t, reflector.GateOptions{}, func(call) answer { return answer{lives: lives} })
		c.serve([]int{0}, atOnce(unreadable()))
		for range 31 {
			c.add(1, "secrets")
			after(300 * time.Millisecond)
		}
		after(5 * time.Minute)
		bad := gaps(c.seenOf(0))
		for _, gap := range bad[len(bad)-10:] {
			if gap < 7500*time.Millisecond || gap > 20*time.Second {
				t.Errorf("gaps of the bad one: got %v, want them to have grown to 7.5 to 15 s", bad)
				break
			}
		}
		for id := 1; id < 31; id++ {
			for _, gap := range gaps(c.seenOf(id)) {
				// A stream, a pause of its own, and two seconds.
				if gap > lives+200*time.Millisecond+2*time.Second {
					t.Errorf("reflector %d: got a gap of %v, want it not to wait for the bad one", id, gap)
				}
			}
		}
	})
}

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

// A single object that is throttled delays no other.
func TestThrottledObjectDelaysNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t, reflector.GateOptions{}, healthy)
		c.serve([]int{0}, failing(throttled(30)))
		all := c.add(1000, "secrets")
		stop := c.retryEvery(100*time.Millisecond, all[:1])
		after(time.Minute)
		c.wantSynced(all[1:], 2*time.Second, "others at the start")
		awaited, others := c.addEvery(3*time.Second, 40, "secrets", "configmaps")
		c.wantSynced(awaited, soonAwaited, "new, a caller waits")
		c.wantSynced(others, soonAwaited, "new, no caller waits")
		began := time.Now()
		c.cut(all[1:], nil)
		after(10 * time.Second)
		stop()
		c.wantRead(all[1:], began, 2*time.Second, "others after a cut")
		if gaps := gaps(c.seenOf(0)); len(gaps) < 4 {
			t.Errorf("the throttled one: got gaps of %v, want more attempts", gaps)
		}
	})
}

// Callers that ask for refused objects again and again do not delay healthy streams on
// a slow server.
func TestCallersOfRefusedObjectsDelayNoOther(t *testing.T) {
	paces := map[string]time.Duration{"every 10 ms": 10 * time.Millisecond, "every 100 ms": 100 * time.Millisecond}
	eachCase(t, paces, func(t *testing.T, pace time.Duration) {
		c := newCrowd(t, reflector.GateOptions{}, healthy)
		all := c.add(1000, "secrets")
		after(20 * time.Second)
		refused := every(3, 300, all)
		ended := every(7, 50, without(all, refused))
		c.serveAll(taking(200*time.Millisecond, healthy))
		c.serve(refused, taking(200*time.Millisecond, failing(forbidden())))
		c.cut(refused, nil)
		c.retryEvery(pace, refused)
		after(5 * time.Second)
		began := time.Now()
		c.cut(ended, nil)
		awaited, others := c.addEvery(time.Second, 6, "secrets")
		after(5 * time.Second)
		c.wantRead(ended, began, soon, "streams that ended")
		c.wantSynced(awaited, soonAwaited, "new, a caller waits")
		c.wantSynced(others, soon, "new, no caller waits")
	})
}

// An Expedite counts for one attempt: a refused object is not preferred for ever. The
// server is slow, so that the order matters.
func TestExpediteCountsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t, reflector.GateOptions{Opens: 4}, healthy)
		all := c.add(1000, "secrets")
		after(20 * time.Second)
		refused := every(3, 300, all)
		ended := every(7, 20, without(all, refused))
		c.serveAll(taking(300*time.Millisecond, healthy))
		c.serve(refused, taking(300*time.Millisecond, failing(forbidden())))
		c.cut(refused, nil)
		for _, id := range refused {
			c.members[id].Expedite()
		}
		after(2 * time.Minute)
		began := time.Now()
		c.cut(ended, nil)
		after(20 * time.Second)
		c.wantRead(ended, began, soon, "streams that ended")
	})
}

// Failing members, whatever they fail with, do not delay healthy ones.
func TestFailingMembersDelayNoOther(t *testing.T) {
	type test struct {
		failing   int
		behaviors []behavior    // in turn
		start     time.Duration // until the healthy ones have synced; 0 is 30 s
	}
	tests := map[string]test{
		"2 unreadable":          {2, []behavior{failing(unreadable())}, 0},
		"10 unreadable":         {10, []behavior{failing(unreadable())}, 0},
		"100 unreadable":        {100, []behavior{failing(unreadable())}, 0},
		"4 hang":                {4, []behavior{hanging}, 0},
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

// The same when the failing members are the first of the gate.
func TestFirstMembersThatFailDelayNoOther(t *testing.T) {
	tests := map[string][]behavior{
		"4 hang":                      {hanging, hanging, hanging, hanging},
		"8 stall":                     {stalling, stalling, stalling, stalling, stalling, stalling, stalling, stalling},
		"1 hangs, 1 unreadable":       {hanging, failing(unreadable())},
		"2 unreadable":                {failing(unreadable()), failing(unreadable())},
		"1 unreadable, 1 hangs":       {failing(unreadable()), hanging},
		"1 has no connection, 3 hang": {failing(errDown), hanging, hanging, hanging},
	}
	eachCase(t, tests, func(t *testing.T, behaviors []behavior) {
		c := newCrowd(t, reflector.GateOptions{}, healthy)
		for id, b := range behaviors {
			c.serve([]int{id}, b)
		}
		all := c.add(1000, "secrets")
		after(10 * time.Second)
		c.wantSynced(all[len(behaviors):], 10*time.Second, "those added with them")
		awaited, others := c.addEvery(2*time.Second, 30, "secrets", "configmaps")
		after(5 * time.Second)
		c.wantSynced(awaited, soonAwaited, "new, a caller waits")
		c.wantSynced(others, soon, "new, no caller waits")
	})
}

// A few synced members that fail at once, while all other streams are silent, are no
// outage once one answer has shown it.
func TestFewThatFailAreNoOutage(t *testing.T) {
	type test struct {
		n int
		b behavior
	}
	tests := map[string]test{}
	for _, n := range []int{2, 10, 100} {
		for name, b := range map[string]behavior{"unreadable": failing(unreadable()), "without connection": failing(errDown), "hang": hanging} {
			tests[fmt.Sprintf("%d %s", n, name)] = test{n, b}
		}
	}
	eachCase(t, tests, func(t *testing.T, test test) {
		c := newCrowd(t, reflector.GateOptions{}, healthy)
		all := c.add(1000, "secrets")
		after(30 * time.Second)
		some := every(10, test.n, all)
		c.serve(some, test.b)
		c.cut(some, nil)
		after(10 * time.Second)
		awaited, others := c.addEvery(3*time.Second, 20, "secrets", "configmaps")
		after(5 * time.Second)
		if test.n > 2 {
			awaited = awaited[1:] // the first one gets that answer
		}
		c.wantSynced(awaited, soonAwaited, "new, a caller waits")
		c.wantSynced(others, soon, "new, no caller waits")
	})
}

// One bad server in three behind a load balancer is no outage. Members that meet it
// again and again have longer pauses.
func TestOneBadServerInThree(t *testing.T) {
	const most = 3*1000*usually/32 + 15*time.Second
	type test struct {
		fault     behavior
		most, all time.Duration
		inTurn    bool // each third request meets it; otherwise by chance
	}
	tests := map[string]test{}
	for name, test := range map[string]test{
		"500":           {fault: failing(unreadable()), most: most, all: 45 * time.Second},
		"503":           {fault: failing(unavailable()), most: most, all: 45 * time.Second},
		"no connection": {fault: failing(errDown), most: most, all: 45 * time.Second},
		"hangs 5 s":     {fault: taking(10*time.Second, failing(io.ErrUnexpectedEOF)), most: 45 * time.Second, all: time.Minute},
	} {
		tests[name] = test
		test.inTurn = true
		tests[name+", in turn"] = test
	}
	eachCase(t, tests, func(t *testing.T, test test) {
		random := rand.New(rand.NewPCG(3, 4)) //nolint:gosec // the same each time
		c := newCrowd(t, reflector.GateOptions{}, func(call call) answer {
			if test.inTurn && call.number%3 == 0 || !test.inTurn && random.IntN(3) == 0 {
				return test.fault(call)
			}
			return healthy(call)
		})
		all := c.add(1000, "secrets")
		after(2 * time.Minute)
		c.wantMostRead(all, time.Time{}, test.most, test.all, "start")
		began := time.Now()
		c.cutAll(nil)
		after(2 * time.Minute)
		c.wantMostRead(all, began, test.most, test.all, "return")
	})
}
