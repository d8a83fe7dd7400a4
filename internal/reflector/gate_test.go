// SPDX-License-Identifier: Apache-2.0

package reflector_test

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/refwatch/refwatch/internal/reflector"
)

// A gate bounds how many streams open at a time, and all are open in the end.
func TestGateBoundsOpenings(t *testing.T) {
	type test struct{ opens, want, reflectors, window int } // window: in the end
	tests := map[string]test{
		"by default": {0, 256, 2000, 32},
		"three":      {3, 3, 50, 3},
		"negative":   {-5, 256, 2000, 32},
		"few":        {0, 4, 5, 9},
	}
	eachCase(t, tests, func(t *testing.T, test test) {
		c := newCrowd(t, reflector.GateOptions{Opens: test.opens}, taking(200*time.Millisecond, healthy))
		c.add(test.reflectors, "secrets")
		first := min(4, test.want) // more as answers arrive
		want := reflector.GateStatus{Opening: first, Queued: test.reflectors - first, Window: first}
		if got := statusNow(c.gate); got != want {
			t.Errorf("status at the start: got %+v, want %+v", got, want)
		}
		after(time.Minute)
		if got := c.mostOpening(); got != test.want {
			t.Errorf("opening at a time: got %d, want %d", got, test.want)
		}
		if got := c.synced(); got != test.reflectors {
			t.Errorf("synced: got %d, want all %d", got, test.reflectors)
		}
		if got, want := statusNow(c.gate), (reflector.GateStatus{Window: test.window}); got != want {
			t.Errorf("status when all are open: got %+v, want %+v", got, want)
		}
		if got := len(c.seen()); got != test.reflectors {
			t.Errorf("requests: got %d, want one of each", got)
		}
	})
}

// When all streams end at once, the gate bounds how many are opened again at a time.
func TestGateBoundsReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t, reflector.GateOptions{Opens: 4}, taking(time.Second, healthy))
		c.add(40, "secrets")
		after(time.Minute)
		c.forget()
		c.cutAll(nil)
		after(time.Minute)
		if got := c.mostOpening(); got != 4 {
			t.Errorf("opening at a time: got %d, want 4", got)
		}
		if got := c.synced(); got != 40 || len(c.seen()) != 40 {
			t.Errorf("got %d synced by %d requests, want all 40 by one each", got, len(c.seen()))
		}
	})
}

// openingInRounds returns how many members were opening at the start of each of n rounds of
// answers.
func (c *crowd) openingInRounds(n int, takes time.Duration) (opening []int) {
	for range n {
		opening = append(opening, c.gate.Status().Opening)
		after(takes)
	}
	return opening
}

// The number of streams that open at a time doubles with each round of answers, up to
// its bound.
func TestGateOpensMoreWithEachAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t, reflector.GateOptions{Opens: 20}, taking(200*time.Millisecond, healthy))
		c.add(200, "secrets")
		after(time.Millisecond)
		if got, want := c.openingInRounds(5, 200*time.Millisecond), []int{4, 8, 16, 20, 20}; !slices.Equal(got, want) {
			t.Errorf("opening in each round: got %v, want %v", got, want)
		}
	})
}

// After an outage the number doubles again up to half of what it was, and then grows
// by one a round.
func TestGateOpensMoreCarefullyAfterAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		usual := taking(200*time.Millisecond, healthy)
		c := newCrowd(t, reflector.GateOptions{Opens: 32}, usual)
		c.add(32, "secrets")
		after(time.Second) // 32 at a time by now
		c.add(500, "secrets")
		after(100 * time.Millisecond)
		if got := c.gate.Status().Opening; got != 32 {
			t.Fatalf("opening: got %d, want 32", got)
		}
		c.cutAll(nil)
		c.serveAll(taking(200*time.Millisecond, failing(errDown)))
		after(10 * time.Second) // the 32 fail, and some probes
		c.serveAll(usual)
		for c.gate.Status().Cause != nil {
			after(10 * time.Millisecond)
		}
		got := c.openingInRounds(9, 200*time.Millisecond)
		if want := []int{2, 4, 8, 16}; !slices.Equal(got[:4], want) {
			t.Errorf("opening in each round: got %v, want %v at first", got, want)
		}
		for i := 4; i < 9; i++ {
			if grown := got[i] - got[i-1]; grown < 0 || grown > 2 {
				t.Errorf("opening in each round: got %v, want about one more in each after 16", got)
				break
			}
		}
	})
}

// The failures of one object are not those of the server.
func TestBadObjectDoesNotSlowTheGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t, reflector.GateOptions{}, atOnce(nil))
		c.serve([]int{0}, atOnce(errDown))
		c.add(1, "secrets")
		for range 50 { // successes between its failures
			c.add(1, "secrets")
			after(time.Second)
		}
		c.serveAll(taking(200*time.Millisecond, healthy))
		c.serve([]int{0}, taking(200*time.Millisecond, failing(errDown)))
		c.add(2500, "secrets")
		before := len(c.seenOf(0))
		for last := 0; c.gate.Status().Queued > 50; after(200 * time.Millisecond) {
			now := c.gate.Status().Opening
			if now < last-1 { // its own attempts come and go
				t.Fatalf("opening: got %d after %d, want it not to shrink", now, last)
			}
			if cause := c.gate.Status().Cause; cause != nil {
				t.Fatalf("cause: got %v, want none", cause)
			}
			last = now
			c.members[0].Expedite()
		}
		if got := len(c.seenOf(0)) - before; got == 0 {
			t.Error("the bad object: got no attempt meanwhile, want some")
		}
	})
}

func TestGateServesInOrder(t *testing.T) {
	type test struct {
		retry []int // in this order, while all but the first are queued
		want  []int
	}
	tests := map[string]test{
		"as they came":                 {nil, []int{0, 1, 2, 3, 4, 5, 6, 7}},
		"a caller waits for one":       {[]int{5}, []int{0, 5, 1, 2, 3, 4, 6, 7}},
		"for more":                     {[]int{6, 3, 4}, []int{0, 6, 1, 3, 2, 4, 5, 7}},
		"for more, asking again":       {[]int{6, 3, 6, 3}, []int{0, 6, 1, 3, 2, 4, 5, 7}},
		"for one that is opening, too": {[]int{0, 1, 0}, []int{0, 1, 2, 3, 4, 5, 6, 7}},
	}
	eachCase(t, tests, func(t *testing.T, test test) {
		c := newCrowd(t, reflector.GateOptions{Opens: 1}, taking(time.Second, healthy))
		c.add(8, "secrets")
		for _, id := range test.retry {
			c.members[id].Expedite()
		}
		after(time.Minute)
		if got := c.order(); !slices.Equal(got, test.want) {
			t.Errorf("order: got %v, want %v", got, test.want)
		}
	})
}

// A reflector for which Expedite was called in a pause is admitted first after it.
func TestExpediteInAPauseCountsInTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t, reflector.GateOptions{Opens: 1}, atOnce(nil))
		c.serve([]int{3}, atOnce(forbidden()))
		c.add(4, "secrets") // the last one is refused, and pauses
		c.members[3].Expedite()
		c.serveAll(taking(time.Second, healthy))
		c.serve([]int{3}, taking(time.Second, failing(forbidden())))
		c.add(4, "secrets")
		c.serve([]int{3}, nil)
		c.forget()
		after(time.Minute)
		if got, want := c.order(), []int{3, 5, 6, 7}; !slices.Equal(got, want) {
			t.Errorf("order: got %v, want %v", got, want)
		}
	})
}

// Expedite of a synced reflector does nothing: it is not preferred when its stream ends.
func TestExpediteOfASyncedReflectorDoesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 40
		c := newCrowd(t, reflector.GateOptions{Opens: 1}, atOnce(nil))
		c.add(n, "secrets")
		after(time.Minute)
		for id := range n / 2 {
			c.members[id].Expedite()
		}
		c.forget()
		c.serveAll(taking(time.Second, healthy))
		c.cutAll(nil)
		after(time.Minute)
		early := 0 // of those with an Expedite
		for _, id := range c.order()[:n/2] {
			if id < n/2 {
				early++
			}
		}
		if early >= n/2-1 {
			t.Errorf("order: got those with an Expedite first: %v", c.order())
		}
	})
}

// Without a shared gate, each reflector has a gate of its own.
func TestGateByDefault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t, reflector.GateOptions{}, taking(time.Second, healthy))
		c.gate = nil
		c.add(40, "secrets")
		if got := c.mostOpening(); got != 40 {
			t.Errorf("opening at a time: got %d, want all 40", got)
		}
	})
}

// A reflector that is stopped leaves the gate, whatever it was doing there.
func TestStopLeavesTheGate(t *testing.T) {
	type test struct {
		down bool
		stop []int
	}
	tests := map[string]test{
		"opening":                      {stop: []int{0}},
		"queued":                       {stop: []int{1, 2, 3}},
		"queued, and a caller waits":   {stop: []int{4}},
		"all but the last":             {stop: numbers(9)},
		"probing":                      {down: true, stop: []int{0}},
		"next to probe":                {down: true, stop: []int{1}},
		"probing, one after the other": {down: true, stop: numbers(9)},
	}
	parkedAndBlocking(t, func(t *testing.T) {
		eachCase(t, tests, func(t *testing.T, test test) {
			c := newCrowd(t, reflector.GateOptions{Opens: 1}, atOnce(nil))
			if test.down {
				c.serveAll(atOnce(errDown))
			}
			c.add(1, "secrets")
			c.serveAll(hanging)
			c.add(9, "secrets")
			c.members[4].Expedite()
			after(2 * time.Second)
			c.forget()
			if !test.down {
				c.cutAll(nil)
			}
			for _, id := range test.stop {
				c.members[id].stop()
				after(time.Second)
			}
			status := c.gate.Status()
			if left := 10 - len(test.stop); status.Opening+status.Queued+status.Paused != left || left > 0 && status.Opening == 0 {
				t.Errorf("status: got %+v, want the %d that are left, at least one of them opening", status, left)
			}
			c.stop()
			after(time.Hour)
			if got := c.gate.Status(); got.Opening+got.Queued+got.Paused != 0 {
				t.Errorf("status after the last one: got %+v, want it empty", got)
			}
		})
	})
}

// A reflector that is stopped in the queue makes no request, and the failure of one
// that is stopped while it opens is not that of the server.
func TestStopInTheQueue(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := newCrowd(t, reflector.GateOptions{Opens: 1}, taking(20*time.Second, healthy))
		c.add(4, "secrets")
		for _, id := range []int{2, 0} { // queued, opening
			c.members[id].Stop()
			c.members[id].wait()
		}
		synctest.Wait()
		if got := c.gate.Status(); got.Opening != 1 || got.Queued != 1 || got.Cause != nil {
			t.Errorf("gate: got %+v, want the next one opening, one queued, and no outage", got)
		}
		after(time.Minute)
		if got, want := c.order(), []int{0, 1, 3}; !slices.Equal(got, want) || c.synced() != 2 {
			t.Errorf("requests: got those of %v, want those of %v", got, want)
		}
	})
}

// A request that fails because its reflector is stopped begins no outage and ends
// none.
func TestStopIsNoAnswerOfTheServer(t *testing.T) {
	ends := map[string]func(*rig){
		"Stop":    func(r *rig) { r.Stop(); r.wait() },
		"context": func(r *rig) { r.stop() },
	}
	parkedAndBlocking(t, func(t *testing.T) {
		eachCase(t, ends, func(t *testing.T, end func(*rig)) {
			c := newCrowd(t, reflector.GateOptions{}, taking(20*time.Second, healthy))
			c.add(1, "secrets")
			end(c.members[0].rig)
			if got := c.gate.Status(); got.Cause != nil {
				t.Errorf("gate: got %+v, want no outage because of a stop", got)
			}
			c.serveAll(atOnce(errDown))
			c.add(2, "secrets")
			after(10 * time.Second) // an outage by now
			c.serveAll(taking(20*time.Second, failing(errDown)))
			after(6 * time.Second) // a probe hangs
			all := c.order()
			end(c.members[all[len(all)-1]].rig)
			synctest.Wait()
			if got := c.gate.Status(); !errors.Is(got.Cause, errDown) {
				t.Errorf("gate: got %+v, want the outage to last", got)
			}
			after(30 * time.Second) // each takes 20 s
			if got := len(c.seen()) - len(all); got < 1 || got > 3 {
				t.Errorf("probes after that: got %d, want 1 to 3", got)
			}
		})
	})
}

// When the last reflector has left, the gate does nothing. It then admits new ones.
func TestGateEndsWithItsReflectors(t *testing.T) {
	tests := map[string]behavior{
		"healthy":   atOnce(nil),
		"down":      atOnce(errDown),
		"throttled": atOnce(throttled(20)),
		"refused":   atOnce(forbidden()),
	}
	parkedAndBlocking(t, func(t *testing.T) {
		eachCase(t, tests, func(t *testing.T, usual behavior) {
			c := newCrowd(t, reflector.GateOptions{}, usual)
			c.add(100, "secrets")
			after(time.Minute)
			began := time.Now()
			c.stop()
			if took := time.Since(began); took != 0 {
				t.Errorf("stopping took %v of virtual time, want none", took)
			}
			c.forget()
			after(24 * time.Hour)
			if got := c.seen(); len(got) != 0 {
				t.Errorf("requests afterwards: got %v, want none", got)
			}
			if got := c.gate.Status(); got.Opening != 0 || got.Queued != 0 {
				t.Errorf("status: got %+v, want it empty", got)
			}
			c.serveAll(atOnce(nil))
			c.add(1, "secrets")
			after(5 * time.Second)
			if got := c.members[100].Status(); !got.Synced {
				t.Errorf("a new one: got %+v, want it synced", got)
			}
		})
	})
}

// A consistent read may be refused as too large too, by a watch cache that lags. Such
// reflectors are failing ones, that no caller waits for.
func TestTooLargeIsNotExpeditedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t, reflector.GateOptions{}, failing(tooLarge()))
		all := c.add(1000, "secrets")
		after(2 * time.Minute)
		began := time.Now()
		c.forget()
		after(time.Minute)
		if rate, _ := c.rate(all, began); rate > 25 {
			t.Errorf("requests: got %.0f a second, want 20", rate)
		}
		c.stop()
	})
}
