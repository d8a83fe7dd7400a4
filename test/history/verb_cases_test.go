// SPDX-License-Identifier: Apache-2.0

package history_test

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/refwatch/refwatch/test/history"
)

// While a fault of a verb lasts, a state is fresh within readable, and a Get is answered within answered.
const readable, answered = time.Minute, 10 * time.Second

// works returns what is promised while some verb works, and nil if none does.
func works(some bool) *history.Works {
	if !some {
		return nil
	}
	return &history.Works{
		Fresh: metav1.Duration{Duration: readable}, Answered: metav1.Duration{Duration: answered}, After: metav1.Duration{Duration: time.Hour},
	}
}

// verbFails begins a fault beside which some verb works, or none.
func (r *rig) verbFails(some bool, objects ...history.Object) history.Call {
	return r.VerbFault("list fails", fresh, works(some), objects...)
}

var verbCases = map[string]testCase{
	"stale for too long while some verb works": {"L6", func(r *rig, wrong bool) {
		r.write()
		r.reference()
		r.get(1)
		r.verbFails(true)
		time.Sleep(time.Hour)
		r.write()
		time.Sleep(pick(wrong, readable+1, readable))
		r.get(1)
	}, "Get returned version 101"},
	"stale for too long while no verb works": {"L6", func(r *rig, wrong bool) {
		r.write()
		r.reference()
		r.get(1)
		r.verbFails(wrong, r.x)
		r.write()
		time.Sleep(time.Hour)
		r.get(1)
	}, "Get returned version 101"},
	"stale since before a verb failed": {"L6", func(r *rig, wrong bool) {
		r.write()
		r.reference()
		r.write()
		time.Sleep(time.Second)
		r.verbFails(true, r.x)
		time.Sleep(pick(wrong, readable, readable-1))
		r.get(1)
	}, "Get returned version 101"},
	"absent for too long while some verb works": {"L6", func(r *rig, wrong bool) {
		r.reference()
		r.fails(errAbsent)
		r.verbFails(true)
		r.write()
		if !wrong {
			r.delete()
		}
		time.Sleep(time.Hour)
		r.fails(errAbsent)
	}, "Get returned NotFound"},
	"stale for too long while some verb works, immutable": {"L6", func(r *rig, wrong bool) {
		r.begin().Commit(immutable(1))
		r.BeginReference("a").End()
		r.gets(immutable(1))
		r.verbFails(true)
		time.Sleep(time.Hour)
		r.delete()
		time.Sleep(20*time.Minute + readable + pick[time.Duration](wrong, 1, 0))
		r.gets(immutable(1))
	}, "Get returned immutable version 101"},
	"not synced for too long while some verb works": {"L6", func(r *rig, wrong bool) {
		r.verbFails(true)
		time.Sleep(time.Hour)
		r.reference()
		time.Sleep(pick(wrong, readable+1, readable))
		r.fails(errNotSynced)
	}, "the object was referenced"},
	"not synced since before a verb failed": {"L6", func(r *rig, wrong bool) {
		r.reference()
		time.Sleep(time.Second)
		r.verbFails(true)
		time.Sleep(pick(wrong, readable, readable-1))
		r.fails(errNotSynced)
	}, "the object was referenced"},
	"a Get that waits for too long while some verb works": {"L6", func(r *rig, wrong bool) {
		r.write()
		r.reference()
		r.verbFails(true)
		get := r.beginGet()
		time.Sleep(pick(wrong, answered+1, answered))
		get.Return(state(1), nil)
	}, "has waited"},
	"a live Get that waits for too long while some verb works": {"L6", func(r *rig, wrong bool) {
		r.write()
		r.reference()
		r.verbFails(true, r.x)
		get := r.beginDemandingGet(true)
		time.Sleep(pick(wrong, answered+1, answered))
		get.Return(state(1), nil)
	}, "has waited"},
	"a Get that waits for too long until the fault ends": {"L6", func(r *rig, wrong bool) {
		r.write()
		r.reference()
		fault := r.verbFails(true, r.x)
		get := r.beginGet()
		time.Sleep(pick(wrong, answered+1, answered))
		fault.End()
		get.Return(state(1), nil)
	}, "has waited"},
	"a Get that waits for ever while some verb works": {"L6", func(r *rig, wrong bool) {
		r.reference()
		r.verbFails(wrong)
		r.beginGet()
		time.Sleep(time.Hour)
	}, "has waited"},
	"a live Get that fails while some verb works": {"L6", func(r *rig, wrong bool) {
		r.write()
		r.reference()
		r.verbFails(true)
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		get := r.BeginDemandingGet(ctx, true)
		time.Sleep(pick(wrong, time.Second-1, time.Second+1))
		get.Return(history.State{}, errNotSynced)
	}, "failed before its context ended"},
	"stale beside two faults": {"L6", func(r *rig, wrong bool) {
		r.write()
		r.reference()
		r.verbFails(true)
		time.Sleep(time.Hour)
		r.verbFails(true, pick(wrong, r.named("y"), r.object).Object)
		r.write()
		time.Sleep(time.Hour)
		r.get(1)
	}, "Get returned version 101"},
	"stale after another fault": {"L6", func(r *rig, wrong bool) {
		r.write()
		r.reference()
		r.verbFails(true)
		time.Sleep(time.Hour)
		other := r.Fault("outage", fresh, r.x)
		time.Sleep(time.Second)
		other.End()
		r.write()
		time.Sleep(time.Hour + pick(wrong, readable, readable-1))
		r.get(1)
	}, "Get returned version 101"},
	"stale after a fault that was over at once": {"L6", func(r *rig, wrong bool) {
		r.write()
		r.reference()
		r.verbFails(true)
		time.Sleep(time.Hour)
		r.Fault("streams closed", fresh).End()
		r.write()
		time.Sleep(fresh + pick(wrong, readable, readable-1))
		r.get(1)
	}, "Get returned version 101"},
	"changes that are not yielded while some verb works": {"S10", func(r *rig, wrong bool) {
		r.write()
		r.reference()
		follower := r.Follow()
		follower.Yield(r.x, state(1), nil)
		r.verbFails(true)
		time.Sleep(time.Hour)
		r.write()
		time.Sleep(pick(wrong, readable+1, readable))
		follower.End()
	}, "has not yielded"},
	"too many failures while a verb fails": {"L5", func(r *rig, wrong bool) {
		y := r.named("y")
		for _, o := range []object{r.object, y} {
			o.reference()
			o.request("list", 200)
		}
		r.verbFails(true)
		time.Sleep(2 * fresh)
		for i := range pick(wrong, 7, 6) {
			[]object{r.object, y}[i%2].request("list", 500)
		}
	}, "7 requests failed while one server or verb fails"},
}
