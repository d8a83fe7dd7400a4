// SPDX-License-Identifier: Apache-2.0

package reflector_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/refwatch/refwatch/reflector"
	"github.com/refwatch/refwatch/reflector/listwatch"
)

// Stop ends Run as the end of its context does, whatever is under way.
func TestStop(t *testing.T) {
	tests := map[string]listwatch.Source{
		"opening a WatchList":    blocking{},
		"listing":                blocking{list: true},
		"before the bookmark":    &fakeSource{onWatch: streams(opens())},
		"on an open stream":      &fakeSource{onWatch: streams(opens(state(secret("5"), "7")...))},
		"in a pause of its own":  &fakeSource{onWatch: streams(fails(forbidden()))},
		"in one of the gate":     &fakeSource{onWatch: streams(fails(errDown))},
		"in a throttled pause":   &fakeSource{onWatch: streams(fails(throttled(60)))},
		"after a foreign object": &fakeSource{onWatch: streams(opens(event(watch.Added, &corev1.Pod{})))},
	}
	for name, source := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				changes := 0
				gate := reflector.NewGate(reflector.GateOptions{})
				r := start(t, source, reflector.Options{Gate: gate, OnChange: func() { changes++ }})
				after(1700 * time.Millisecond)
				before, told, began := r.Status(), changes, time.Now()
				r.Stop()
				r.Stop()
				r.wait()
				if took := time.Since(began); took != 0 {
					t.Errorf("Run took %v of virtual time to return, want none", took)
				}
				if got := r.Status(); got.Failures != before.Failures || changes != told {
					t.Errorf("status: got %+v after %+v and %d calls, want nothing told of the end", got, before, changes-told)
				}
				if got := gate.Status(); got.Opening != 0 || got.Queued != 0 {
					t.Errorf("gate: got %+v, want nobody there", got)
				}
			})
		})
	}
}

func TestStopBeforeRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := &fakeSource{onWatch: streams(opens())}
		r := reflector.New(source, nil, reflector.Options{ClientGoReflector: clientGo})
		r.Stop()
		r.Run(t.Context()) // returns, or the bubble reports a deadlock
		if got := len(source.seen()); got != 0 {
			t.Errorf("requests: got %d, want none", got)
		}
	})
}

// One that is stopped while it waits for its turn is not let through any more,
// and what fails because it is stopped is not held against the server.
func TestStopInTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, reflector.GateOptions{Opens: 1})
		f.takes(20 * time.Second)
		f.start(4, "secrets")
		for _, id := range []int{2, 0} { // queued, opening
			f.rigs[id].Stop()
			f.rigs[id].wait()
		}
		synctest.Wait()
		if got := f.gate.Status(); got.Opening != 1 || got.Queued != 1 || got.Cause != nil {
			t.Errorf("gate: got %+v, want the next one opening, one queued, and no outage", got)
		}
		after(time.Minute)
		if got := f.order(); len(got) != 3 || f.synced() != 2 {
			t.Errorf("requests: got those of %v, want all but of the one that was stopped while queued", got)
		}
	})
}

// The end of one reflector's stream by Stop is no end to others of its context.
func TestStopLeavesOthersAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := func() *fakeSource { return &fakeSource{onWatch: streams(opens(state(secret("5"), "7")...))} }
		first, second := start(t, source(), reflector.Options{}), start(t, source(), reflector.Options{})
		first.Stop()
		first.wait()
		after(time.Minute)
		if got := second.Status(); !got.Synced || len(second.source.seen()) != 1 || got.LastError != nil {
			t.Errorf("the other: got %+v, want it untouched", got)
		}
	})
}

// What fails because it is stopped says nothing of the server: neither that it
// cannot be reached, nor that it answers.
func TestStopSaysNothingOfTheServer(t *testing.T) {
	ends := map[string]func(*rig){
		"Stop":    func(r *rig) { r.Stop(); r.wait() },
		"context": func(r *rig) { r.stop() },
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(t, reflector.GateOptions{})
				f.takes(20 * time.Second)
				f.start(1, "secrets")
				end(f.rigs[0])
				if got := f.gate.Status(); got.Cause != nil {
					t.Errorf("gate: got %+v, want no outage because of a stop", got)
				}
				f.takes(0)
				f.answers(always(errDown))
				f.start(2, "secrets")
				after(10 * time.Second) // an outage, for certain
				f.takes(20 * time.Second)
				after(6 * time.Second) // a probe hangs
				all := f.requests(-1)
				end(f.rigs[all[len(all)-1].id])
				synctest.Wait()
				if got := f.gate.Status(); !errors.Is(got.Cause, errDown) {
					t.Errorf("gate: got %+v, want the outage to last", got)
				}
				after(10 * time.Second)
				if got := len(f.requests(-1)) - len(all); got != 1 {
					t.Errorf("probes after that: got %d, want the next one", got)
				}
			})
		})
	}
}
