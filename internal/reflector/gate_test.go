// SPDX-License-Identifier: Apache-2.0

package reflector_test

import (
	"cmp"
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
		"by default": {0, 4096, 6000, 32},
		"256":        {256, 256, 2000, 32},
		"three":      {3, 3, 50, 3},
		"negative":   {-5, 4096, 6000, 32},
		"few":        {0, 5, 5, 16},
	}
	eachCase(t, tests, func(t *testing.T, test test) {
		c := newCrowd(t, reflector.GateOptions{Opens: test.opens}, taking(200*time.Millisecond, healthy))
		c.add(test.reflectors, "secrets")
		first := min(16, test.want) // more as answers arrive
		want := reflector.GateStatus{Opening: first, Queued: test.reflectors - first, Window: min(16, cmp.Or(max(0, test.opens), 16))}
		if got := statusNow(c.gate); got != want {
			t.Errorf("status at the start: got %+v, want %+v", got, want)
		}
		after(time.Minute)
		if got := c.mostOpening(); got > test.want || got < min(test.want, 1000) {
			t.Errorf("opening at a time: got %d, want %d at most, and 1,000 at least if that is more", got, test.want)
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
