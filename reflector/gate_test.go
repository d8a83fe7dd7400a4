// SPDX-License-Identifier: Apache-2.0

package reflector_test

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/refwatch/refwatch/reflector"
)

var errDown = errors.New("connection refused")

// Whatever is to be opened, only so many streams are being opened at a time, and
// in the end all are open.
func TestGateBoundsOpenings(t *testing.T) {
	tests := map[string]struct {
		opens, want, reflectors int
	}{
		"by default": {0, 32, 1000},
		"three":      {3, 3, 50},
		"negative":   {-5, 32, 1000},
		"few":        {0, 4, 5},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(t, reflector.GateOptions{Opens: test.opens})
				f.takes(200 * time.Millisecond)
				f.start(test.reflectors, "secrets")
				first := min(4, test.want) // the rest as the first are answered
				want := reflector.GateStatus{Opening: first, Queued: test.reflectors - first}
				if got := f.gate.Status(); got != want {
					t.Errorf("status at the start: got %+v, want %+v", got, want)
				}
				after(time.Minute)
				if got := f.mostOpening(); got != test.want {
					t.Errorf("opening at a time: got %d, want %d", got, test.want)
				}
				if got := f.synced(); got != test.reflectors {
					t.Errorf("synced: got %d, want all %d", got, test.reflectors)
				}
				if got := f.gate.Status(); got != (reflector.GateStatus{}) {
					t.Errorf("status once all are open: got %+v, want nothing to do", got)
				}
				if got := len(f.requests(-1)); got != test.reflectors {
					t.Errorf("requests: got %d, want one of each", got)
				}
			})
		})
	}
}

// When all streams end at once their return goes through the gate, too.
func TestGateBoundsReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, reflector.GateOptions{Opens: 4})
		f.takes(time.Second)
		f.start(40, "secrets")
		after(time.Minute)
		f.forget()
		f.breakStreams()
		after(time.Minute)
		if got := f.mostOpening(); got != 4 {
			t.Errorf("opening at a time: got %d, want 4", got)
		}
		if got := f.synced(); got != 40 || len(f.requests(-1)) != 40 {
			t.Errorf("got %d synced by %d requests, want all 40 by one each", got, len(f.requests(-1)))
		}
	})
}

func TestGateServesInOrder(t *testing.T) {
	tests := map[string]struct {
		urge []int // in this order, while all but the first are queued
		want []int
	}{
		"as they came":       {nil, []int{0, 1, 2, 3, 4, 5, 6, 7}},
		"one waited for":     {[]int{5}, []int{0, 5, 1, 2, 3, 4, 6, 7}},
		"more of them":       {[]int{6, 3, 4}, []int{0, 6, 1, 3, 2, 4, 5, 7}},
		"asked again":        {[]int{6, 3, 6, 3}, []int{0, 6, 1, 3, 2, 4, 5, 7}},
		"the first, the one": {[]int{0, 1, 0}, []int{0, 1, 2, 3, 4, 5, 6, 7}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(t, reflector.GateOptions{Opens: 1})
				f.takes(time.Second)
				f.start(8, "secrets")
				for _, id := range test.urge {
					f.rigs[id].Retry()
				}
				after(time.Minute)
				if got := f.order(); !slices.Equal(got, test.want) {
					t.Errorf("order: got %v, want %v", got, test.want)
				}
			})
		})
	}
}

// Who is waited for before it comes to the gate goes first there, until it is
// synced: nobody waits for it then.
func TestGateKnowsWhoIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, reflector.GateOptions{Opens: 1})
		f.answers(func(id int) error {
			if id == 3 {
				return forbidden()
			}
			return nil
		})
		f.start(4, "secrets") // the last one is refused, and in a pause
		f.rigs[3].Retry()
		f.takes(time.Second)
		f.start(4, "secrets")
		f.answers(always(nil))
		f.forget()
		after(time.Minute)
		if got, want := f.order(), []int{3, 5, 6, 7}; !slices.Equal(got, want) {
			t.Errorf("order: got %v, want %v", got, want)
		}
	})
}

// Nobody waits for what is synced already; its return is as urgent as any.
func TestRetryOfTheSyncedIsNotUrgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 40
		f := newFleet(t, reflector.GateOptions{Opens: 1})
		f.start(n, "secrets")
		after(time.Minute)
		for id := range n / 2 {
			f.rigs[id].Retry()
		}
		f.forget()
		f.takes(time.Second)
		f.breakStreams()
		after(time.Minute)
		early := 0 // of those that were asked for again
		for _, id := range f.order()[:n/2] {
			if id < n/2 {
				early++
			}
		}
		if early >= n/2-1 {
			t.Errorf("returns: got those that were asked for first of all: %v", f.order())
		}
	})
}

// Where nobody shares a gate, each reflector has its own.
func TestGateOfOnesOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, reflector.GateOptions{})
		f.takes(time.Second)
		for id := range 40 {
			f.rigs = append(f.rigs, start(t, &member{f, id}, reflector.Options{}))
		}
		if got := f.mostOpening(); got != 40 {
			t.Errorf("opening at a time: got %d, want all 40", got)
		}
	})
}

// A reflector that is stopped makes room, wherever it was.
func TestGateForgetsWhoIsStopped(t *testing.T) {
	tests := map[string]struct {
		down bool
		stop []int
	}{
		"opening":                     {stop: []int{0}},
		"queued":                      {stop: []int{1, 2, 3}},
		"queued and urgent":           {stop: []int{4}},
		"probing":                     {down: true, stop: []int{0}},
		"next to probe":               {down: true, stop: []int{1}},
		"all but the last":            {stop: []int{0, 1, 2, 3, 4, 5, 6, 7, 8}},
		"probes, one after the other": {down: true, stop: []int{0, 1, 2, 3, 4, 5, 6, 7, 8}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(t, reflector.GateOptions{Opens: 1})
				if test.down {
					f.answers(always(errDown))
				}
				f.start(1, "secrets")
				f.takes(24 * time.Hour) // nobody gets an answer
				f.answers(always(nil))
				f.start(9, "secrets")
				f.rigs[4].Retry()
				after(2 * time.Second)
				f.forget()
				if !test.down {
					f.breakStreams()
				}
				for _, id := range test.stop {
					f.rigs[id].stop()
					after(time.Second)
				}
				status := f.gate.Status()
				if left := 10 - len(test.stop); status.Opening+status.Queued+status.Paused != left || left > 0 && status.Opening == 0 {
					t.Errorf("status: got %+v, want the %d that are left, at least one of them opening", status, left)
				}
				f.stop()
				after(time.Hour)
				if got := f.gate.Status(); got.Opening+got.Queued+got.Paused != 0 {
					t.Errorf("status after the last one: got %+v, want nobody there", got)
				}
			})
		})
	}
}

// When the last reflector has gone nothing goes on.
func TestGateEndsWithItsReflectors(t *testing.T) {
	tests := map[string]func(id int) error{
		"well":      always(nil),
		"down":      always(errDown),
		"throttled": always(throttled(20)),
		"refused":   always(forbidden()),
	}
	for name, answer := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(t, reflector.GateOptions{})
				f.answers(answer)
				f.start(100, "secrets")
				after(time.Minute)
				began := time.Now()
				f.stop()
				if took := time.Since(began); took != 0 {
					t.Errorf("stopping took %v of virtual time, want none", took)
				}
				f.forget()
				after(24 * time.Hour)
				if got := f.requests(-1); len(got) != 0 {
					t.Errorf("requests afterwards: got %v, want none", got)
				}
				if got := f.gate.Status(); got.Opening != 0 || got.Queued != 0 {
					t.Errorf("status: got %+v, want nobody there", got)
				}
				f.answers(always(nil))
				f.start(1, "secrets")
				after(5 * time.Second)
				if got := f.rigs[100].Status(); !got.Synced {
					t.Errorf("the next one: got %+v, want it let through", got)
				}
			})
		})
	}
}
