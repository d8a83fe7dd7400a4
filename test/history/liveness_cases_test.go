// SPDX-License-Identifier: Apache-2.0

package history_test

import (
	"fmt"
	"time"
)

var livenessCases = map[string]testCase{
	"a stream after the last reference": {"L2", func(r *rig, wrong bool) {
		r.reference()
		r.StreamOpened()
		r.release()
		time.Sleep(pick[time.Duration](wrong, 1001, 1000) * time.Millisecond)
		r.StreamClosed()
	}, "a stream was open"},
	"a stream for ever": {"L2", func(r *rig, wrong bool) {
		r.reference()
		r.StreamOpened()
		r.release()
		if !wrong {
			r.StreamClosed()
		}
		time.Sleep(time.Minute)
	}, "a stream is open"},
	"a stream until another reference": {"L2", func(r *rig, wrong bool) {
		r.reference()
		r.StreamOpened()
		r.release()
		time.Sleep(pick[time.Duration](wrong, 1001, 1000) * time.Millisecond)
		r.reference()
		r.StreamClosed()
	}, "a stream is open"},
	"stale for ever while others write": {"L1", func(r *rig, wrong bool) {
		r.write()
		r.reference()
		r.get(1)
		for range 40 {
			r.write()
			time.Sleep(fresh / 40)
		}
		r.write()
		time.Sleep(pick[time.Duration](wrong, 1, 0))
		r.get(1)
	}, "Get returned version 101"},
	"stale for too long": {"L1", func(r *rig, wrong bool) {
		r.write()
		r.reference()
		r.write()
		time.Sleep(pick(wrong, fresh+1, fresh))
		r.get(1)
	}, "Get returned version 101"},
	"absent again, or stale for too long": {"L1", func(r *rig, wrong bool) {
		r.reference()
		r.fails(errAbsent)
		r.write()
		if !wrong {
			r.delete()
		}
		time.Sleep(2 * fresh)
		r.fails(errAbsent)
	}, "Get returned NotFound"},
	"stale for too long after a fault": {"L1", func(r *rig, wrong bool) {
		r.write()
		r.reference()
		fault := r.Fault("outage", time.Minute)
		r.write()
		time.Sleep(time.Hour)
		r.get(1)
		fault.End()
		time.Sleep(pick(wrong, time.Minute, time.Minute-1))
		r.get(1)
	}, "Get returned version 101"},
	"stale for too long while another object has a fault": {"L1", func(r *rig, wrong bool) {
		r.write()
		r.reference()
		r.Fault("forbidden", time.Minute, pick(wrong, r.named("y"), r.object).Object)
		r.write()
		time.Sleep(time.Hour)
		r.get(1)
	}, "Get returned version 101"},
	"stale for too long, immutable": {"L1", func(r *rig, wrong bool) {
		r.begin().Commit(immutable(1))
		r.BeginReference("a").End()
		r.gets(immutable(1))
		r.delete()
		time.Sleep(20*time.Minute + pick[time.Duration](wrong, 1, 0))
		r.gets(immutable(1))
	}, "Get returned immutable version 101"},
	"stale for too long after a fault, immutable": {"L1", func(r *rig, wrong bool) {
		r.begin().Commit(immutable(1))
		r.BeginReference("a").End()
		r.gets(immutable(1))
		fault := r.Fault("unreadable", time.Minute)
		r.delete()
		time.Sleep(time.Hour)
		fault.End()
		time.Sleep(21*time.Minute + pick[time.Duration](wrong, 1, 0))
		r.gets(immutable(1))
	}, "Get returned immutable version 101"},
	"stale for too long after a restore": {"L1", func(r *rig, wrong bool) {
		r.write()
		backup := r.Snapshot()
		r.write()
		r.reference()
		r.get(2)
		backup.End()
		time.Sleep(pick(wrong, fresh+1, fresh))
		r.get(2)
	}, "Get returned version 102"},
	"not synced for too long": {"L1", func(r *rig, wrong bool) {
		r.reference()
		time.Sleep(pick(wrong, fresh+1, fresh))
		r.fails(errNotSynced)
	}, "the object was referenced"},
	"a Get that waits for too long": {"L1", func(r *rig, wrong bool) {
		r.write()
		r.reference()
		get := r.beginGet()
		time.Sleep(pick(wrong, fresh+1, fresh))
		get.Return(state(1), nil)
	}, "has waited"},
	"a Get that waits for too long before a fault": {"L1", func(r *rig, wrong bool) {
		r.write()
		r.reference()
		get := r.beginGet()
		time.Sleep(pick(wrong, fresh+1, fresh))
		r.Fault("outage", fresh)
		get.Return(state(1), nil)
	}, "has waited"},
	"a Get of an immutable object that waits while new owners come": {"L1", func(r *rig, wrong bool) {
		r.begin().Commit(immutable(1))
		r.BeginReference("a").End()
		r.gets(immutable(1))
		get := r.beginGet()
		for i := range pick(wrong, 4, 3) {
			time.Sleep(fresh / 3)
			r.BeginReference(fmt.Sprint(i)).End()
		}
		get.Return(immutable(1), nil)
	}, "has waited"},
	"a Get that waits for ever": {"L1", func(r *rig, wrong bool) {
		r.reference()
		fault := r.Fault("outage", fresh)
		r.beginGet()
		time.Sleep(time.Hour)
		if wrong {
			fault.End()
		}
		time.Sleep(time.Hour)
	}, "has waited"},
	"too many requests for an object": {"L3", func(r *rig, wrong bool) {
		r.reference()
		time.Sleep(fresh)
		for range pick(wrong, 9, 8) {
			r.request("watch", 200)
		}
	}, "9 requests came in"},
	"too many failures of an object": {"L3", func(r *rig, wrong bool) {
		r.reference()
		time.Sleep(fresh)
		for range pick(wrong, 6, 5) {
			r.request("list", 500)
			time.Sleep(time.Second)
		}
	}, "6 requests failed"},
	"no attempt": {"L4", func(r *rig, wrong bool) {
		r.reference()
		time.Sleep(pick(wrong, fresh+1, fresh))
		r.request("list", 200)
	}, "no request"},
	"no attempt, and one begins": {"L4", func(r *rig, wrong bool) {
		r.reference()
		if !wrong {
			r.Request("list")
		}
		time.Sleep(fresh + 1)
		r.request("list", 200)
	}, "no request"},
	"no attempt before a fault": {"L4", func(r *rig, wrong bool) {
		r.reference()
		time.Sleep(pick(wrong, fresh+1, fresh))
		r.Fault("hanging", fresh, r.x).End()
		r.request("list", 200)
	}, "no request"},
	"no attempt after another first reference": {"L4", func(r *rig, wrong bool) {
		r.reference()
		r.request("list", 200)
		r.release()
		r.reference()
		time.Sleep(pick(wrong, fresh+1, fresh))
		r.request("list", 200)
	}, "no request"},
	"no attempt although another reference came": {"L4", func(r *rig, wrong bool) {
		r.reference()
		r.request("list", 200)
		r.release()
		time.Sleep(time.Hour)
		adding := r.BeginReference("owner")
		if !wrong {
			r.request("list", 200)
		}
		adding.End()
		time.Sleep(fresh + 1)
		r.request("list", 200)
	}, "no request"},
	"no attempt at all": {"L4", func(r *rig, wrong bool) {
		r.Fault("hanging", fresh, pick(wrong, r.named("y"), r.object).Object)
		r.reference()
		time.Sleep(time.Hour)
	}, "no request"},
	"too many failures": {"L5", func(r *rig, wrong bool) {
		for i := range pick(wrong, 21, 20) {
			o := r.named(fmt.Sprint(i))
			o.reference()
			o.request("list", 0)
		}
	}, "21 requests failed"},
	"too many failures in an outage": {"L5", func(r *rig, wrong bool) {
		r.reference()
		r.request("list", 200)
		r.Fault("refused", fresh)
		if !wrong {
			r.named("y").reference() // may fail by itself
		}
		time.Sleep(2 * fresh)
		for range 4 {
			r.request("list", 0)
		}
	}, "4 requests failed"},
	"too many dials in an outage": {"L5", func(r *rig, wrong bool) {
		r.Fault("refused", fresh)
		time.Sleep(pick(wrong, 2*fresh, time.Second))
		for range 3 {
			r.Dial()
		}
	}, "3 connections were dialed in an outage"},
	"too many failures while one server fails": {"L5", func(r *rig, wrong bool) {
		y := r.named("y")
		for _, o := range []object{r.object, y} {
			o.reference()
			o.request("list", 200)
		}
		r.PartialFault("one server", fresh)
		time.Sleep(2 * fresh)
		for range 3 {
			r.request("list", 0)
			y.request("list", 0)
		}
		if wrong {
			y.request("list", 0)
		}
	}, "7 requests failed while one server or verb fails"},
	"too many dials while one server fails": {"L5", func(r *rig, wrong bool) {
		r.PartialFault("one server", fresh)
		time.Sleep(2 * fresh)
		for range pick(wrong, 5, 4) {
			r.Dial()
		}
	}, "5 connections were dialed while one server or verb fails"},
	"too many dials in an outage while one server fails": {"L5", func(r *rig, wrong bool) {
		r.PartialFault("one server", fresh)
		outage := r.Fault("refused", fresh)
		if !wrong {
			outage.End()
		}
		time.Sleep(2 * fresh)
		for range 3 {
			r.Dial()
		}
	}, "3 connections were dialed in an outage"},
	"too many dials": {"L5", func(r *rig, wrong bool) {
		for range 6 {
			r.Dial()
			time.Sleep(pick(wrong, time.Second, 2*time.Second))
		}
	}, "6 connections were dialed"},
}
