// SPDX-License-Identifier: Apache-2.0

package history_test

import (
	"context"
	"errors"
	"time"

	"github.com/refwatch/refwatch/test/history"
)

var safetyCases = map[string]testCase{
	"a state that nobody wrote": {"S1", func(r *rig, wrong bool) {
		r.write()
		r.get(pick(wrong, 2, 1))
	}, "x Get returned version 102 of UID uid with digest digest 2, and no write had this version, UID and digest"},
	"a write that the server did not commit": {"S1", func(r *rig, wrong bool) {
		r.write()
		r.begin().Fail()
		r.get(pick(wrong, 2, 1))
	}, "Get returned version 102"},
	"a write in flight that the server did not commit": {"S1", func(r *rig, wrong bool) {
		r.write()
		write := r.begin()
		r.get(pick(wrong, 2, 1))
		write.Fail()
	}, "did not commit"},
	"other content than that of a write in flight": {"S1", func(r *rig, wrong bool) {
		r.write()
		r.begin()
		s := state(2)
		s.Digest = pick(wrong, "digest 3", s.Digest)
		r.gets(s)
	}, "Get returned version 102"},
	"another version than the server's": {"S1", func(r *rig, wrong bool) {
		r.write()
		s := state(1)
		s.Version = pick(wrong, "999", s.Version)
		r.gets(s)
	}, "version 999"},
	"another UID than the server's, before the write has ended": {"S1", func(r *rig, wrong bool) {
		write := r.begin()
		s := state(1)
		s.UID = pick(wrong, "other", s.UID)
		r.gets(s)
		write.Commit(state(1))
	}, "another state of this write"},
	"another UID than another Get": {"S1", func(r *rig, wrong bool) {
		r.begin()
		s := state(1)
		r.gets(s)
		s.UID = pick(wrong, "other", s.UID)
		r.gets(s)
	}, "UID other"},
	"older than a Get before": {"S2", func(r *rig, wrong bool) {
		r.write()
		r.write()
		r.get(2)
		r.get(pick(wrong, 1, 2))
	}, "want version 102"},
	"older than a Get before, after a new first reference": {"S2", func(r *rig, wrong bool) {
		r.reference()
		r.write()
		r.begin()
		r.get(2)
		r.release()
		r.reference()
		r.get(pick(wrong, 1, 2))
	}, "want version 102"},
	"older than a write in flight that a Get has returned": {"S2", func(r *rig, wrong bool) {
		r.write()
		r.begin()
		r.gets(history.State{UID: "uid", Digest: state(2).Digest}) // without a version
		if wrong {
			r.get(1)
		}
	}, "want a write that has not ended or a later write"},
	"older than an absence": {"S2", func(r *rig, wrong bool) {
		r.write()
		r.delete()
		r.write()
		r.get(1)
		r.fails(errAbsent)
		r.get(pick(wrong, 1, 3))
	}, "want its absence"},
	"a state from before a rollback, after one from after it": {"S2", func(r *rig, wrong bool) {
		r.write()
		backup := r.Snapshot()
		r.write()
		r.get(2)
		backup.End()
		r.get(2) // not noticed yet
		r.get(1)
		r.get(pick(wrong, 2, 1))
	}, "want version 101"},
	"not synced, after a state": {"S2", func(r *rig, wrong bool) {
		r.write()
		r.reference()
		if wrong {
			r.get(1)
		}
		r.fails(errNotSynced)
	}, "after it had returned a state"},
	"a demanding Get may be refused a state": {"S2", func(r *rig, wrong bool) {
		r.write()
		r.reference()
		r.get(1)
		get := r.beginGet()
		if !wrong {
			get = r.beginDemandingGet(false)
		}
		get.Return(history.State{}, errNotSynced)
	}, "after it had returned a state"},
	"older than the newest write, which the Get demands": {"S3", func(r *rig, wrong bool) {
		r.write()
		r.reference()
		r.get(1)
		r.write()
		r.beginDemandingGet(wrong).Return(state(1), nil)
	}, "want version 102"},
	"older than the newest write, which the Get demands, and a write began later": {"S3", func(r *rig, wrong bool) {
		r.write()
		r.write()
		get := r.beginDemandingGet(true)
		r.write()
		get.Return(state(pick(wrong, 1, 2)), nil)
	}, "want version 102"},
	"older than a write before the first reference": {"S3", func(r *rig, wrong bool) {
		r.write()
		if wrong {
			r.write()
			r.reference()
		} else {
			r.reference()
			r.write()
		}
		r.get(1)
	}, "want version 102"},
	"the predecessor of an immutable object, to a new owner": {"S3", func(r *rig, wrong bool) {
		r.recreated()
		r.gets(immutable(1)) // the owner keeps it
		r.BeginReference("b").End()
		r.gets(immutable(pick(wrong, 1, 3)))
	}, "to a new owner"},
	"the predecessor of an immutable object, to a new owner whose context has ended": {"S3", func(r *rig, wrong bool) {
		r.recreated()
		r.BeginReference("b").End()
		ctx, cancel := context.WithTimeout(r.t.Context(), time.Second)
		defer cancel()
		get := r.BeginGet(ctx)
		time.Sleep(pick[time.Duration](wrong, 999, 1001) * time.Millisecond)
		get.Return(immutable(1), nil)
	}, "to a new owner after 999ms"},
	"the predecessor of an immutable object, to an owner, and a newer one is gone": {"S3", func(r *rig, wrong bool) {
		r.begin().Commit(immutable(1))
		r.BeginReference("a").End()
		r.BeginReference("b").End()
		r.delete()
		r.begin().Commit(immutable(3))
		r.BeginReference("c").End()
		get := r.beginGet()
		r.BeginRelease(pick(wrong, "b", "c")).End()
		get.Return(immutable(1), nil)
		r.gets(immutable(pick(wrong, 3, 1)))
	}, "to a new owner"},
	"the predecessor of an immutable object, to a new owner, and a newer one is gone": {"S3", func(r *rig, wrong bool) {
		r.recreated()
		r.BeginReference("b").End()
		r.BeginReference("c").End()
		r.BeginRelease("c").End()
		r.gets(immutable(pick(wrong, 1, 3)))
	}, "to a new owner"},
	"the predecessor of an immutable object, to an owner, and another one is gone before it came": {"S3", func(r *rig, wrong bool) {
		r.recreated()
		b := r.BeginReference("b")
		r.BeginRelease(pick(wrong, "a", "b")).End()
		b.End()
		r.gets(immutable(1))
	}, "to a new owner"},
	"the predecessor of an immutable object, long after an owner has come, and the context has ended": {"S3", func(r *rig, wrong bool) {
		r.recreated()
		r.BeginReference("b").End()
		time.Sleep(pick(wrong, fresh+1, fresh))
		ctx, cancel := context.WithCancel(r.t.Context())
		cancel()
		r.BeginGet(ctx).Return(immutable(1), nil)
	}, "to a new owner"},
	"the predecessor of an immutable object, by TryGet, long after an owner has come": {"S3", func(r *rig, wrong bool) {
		r.recreated()
		r.BeginReference("b").End()
		time.Sleep(pick(wrong, fresh+1, fresh))
		r.BeginTryGet().Return(immutable(1), nil)
	}, "to a new owner"},
	"not synced, to a new owner of an immutable object that others have": {"S2", func(r *rig, wrong bool) {
		r.recreated()
		r.BeginReference("b").End()
		if get := r.BeginTryGet(); wrong {
			get.Return(state(0), errNotSynced)
		} else {
			get.Return(immutable(1), nil)
		}
	}, "Get returned NotSynced"},
	"the predecessor of an immutable object, to a new owner after a fault": {"S3", func(r *rig, wrong bool) {
		r.begin().Commit(immutable(1))
		r.BeginReference("a").End()
		fault := r.Fault("outage", fresh)
		r.delete()
		r.begin().Commit(immutable(3))
		fault.End()
		time.Sleep(pick(wrong, 4*fresh, fresh))
		r.BeginReference("b").End()
		r.gets(immutable(1))
	}, "to a new owner"},
	"absent, and it always existed": {"S4", func(r *rig, wrong bool) {
		r.write()
		if !wrong {
			r.delete()
		}
		r.write()
		r.get(pick(wrong, 2, 1))
		r.fails(errAbsent)
	}, "as absent"},
	"absent, and the Get demands the newest state": {"S4", func(r *rig, wrong bool) {
		r.reference()
		r.fails(errAbsent)
		r.write()
		r.beginDemandingGet(wrong).Return(history.State{}, errAbsent)
	}, "as absent"},
	"absent, and the Get demands the newest state, which was deleted meanwhile": {"S4", func(r *rig, wrong bool) {
		r.write()
		get := r.beginDemandingGet(true)
		if !wrong {
			r.delete()
		}
		get.Return(history.State{}, errAbsent)
	}, "as absent"},
	"absent, and it was created before the backup": {"S4", func(r *rig, wrong bool) {
		if wrong {
			r.write()
		}
		backup := r.Snapshot()
		r.write()
		r.get(*r.writes)
		backup.End()
		r.fails(errAbsent)
	}, "as absent"},
	"absent, and the deletion failed": {"S4", func(r *rig, wrong bool) {
		r.write()
		r.get(1)
		deletion := r.BeginDelete()
		if wrong {
			r.fails(errAbsent)
		}
		deletion.Fail()
		r.get(1)
	}, "did not commit"},
	"absent, and it existed in all states that are not kept": {"S4", func(r *rig, wrong bool) {
		r.write()
		r.reference()
		for range 50 {
			r.write()
		}
		if !wrong {
			r.delete()
		}
		for range 50 {
			r.write()
		}
		r.fails(errAbsent)
	}, "as absent"},
	"absent, and not synced": {"S4", func(r *rig, wrong bool) {
		r.write()
		r.get(1)
		r.fails(pick(wrong, errors.Join(errNotSynced, errNotRegistered, errAbsent), errNotSynced))
	}, "as absent"},
	"another error": {"S4", func(r *rig, wrong bool) {
		r.fails(pick(wrong, errors.New("internal"), errNotSynced))
	}, "unexpected error: internal"},
	"not registered, with an owner": {"S5", func(r *rig, wrong bool) {
		r.reference()
		if !wrong {
			r.BeginRelease("")
		}
		r.fails(errNotRegistered)
	}, "while an owner referenced"},
	"not registered, and another owner released it": {"S5", func(r *rig, wrong bool) {
		r.BeginReference("a").End()
		r.BeginRelease(pick(wrong, "b", "a")).End()
		r.fails(errNotRegistered)
	}, "while an owner referenced"},
	"a state without an owner": {"S5", func(r *rig, wrong bool) {
		r.write()
		if !wrong {
			r.BeginReference("a")
		}
		r.get(1)
	}, "while no owner referenced"},
	"not synced after the last owner": {"S5", func(r *rig, wrong bool) {
		r.reference()
		released := r.BeginRelease("")
		if wrong {
			released.End()
		}
		r.fails(errNotSynced)
	}, "while no owner referenced"},
	"a Get that waits after the last reference": {"S5", func(r *rig, wrong bool) {
		r.reference()
		get := r.beginGet()
		time.Sleep(time.Hour)
		r.release()
		time.Sleep(pick[time.Duration](wrong, 1001, 1000) * time.Millisecond)
		get.Return(history.State{}, errNotRegistered)
	}, "without a reference"},
	"a Get that waits for ever after the last reference": {"S5", func(r *rig, wrong bool) {
		r.Fault("outage", fresh)
		r.reference()
		r.beginGet()
		r.release()
		time.Sleep(time.Second)
		if !wrong {
			r.reference() // it waits for the state again
		}
		time.Sleep(time.Second)
	}, "without a reference"},
	"three streams": {"S6", func(r *rig, wrong bool) {
		r.reference()
		r.StreamOpened()
		r.StreamOpened()
		if !wrong {
			r.StreamClosed()
		}
		r.StreamOpened()
	}, "3 streams are open"},
	"a foreign request": {"S7", func(r *rig, wrong bool) {
		if wrong {
			r.Foreign("list of all Secrets")
		}
	}, "list of all Secrets"},
	"a request without a reference": {"S7", func(r *rig, wrong bool) {
		if !wrong {
			r.BeginReference("")
		}
		r.Request("list")
	}, "never a reference"},
	"a request after the last reference": {"S7", func(r *rig, wrong bool) {
		r.reference()
		r.release()
		time.Sleep(pick[time.Duration](wrong, 1001, 1000) * time.Millisecond)
		r.Request("list")
		time.Sleep(time.Minute)
		r.Response("list", 200)
	}, "after the last reference"},
	"a request that a stopped server had": {"S7", func(r *rig, wrong bool) {
		r.reference()
		stopped := r.PartialFault("server stopped", fresh)
		r.release()
		time.Sleep(time.Minute)
		stopped.End()
		time.Sleep(pick[time.Duration](wrong, 1001, 1000) * time.Millisecond)
		r.Request("list")
		time.Sleep(time.Minute)
		r.Response("list", 200)
	}, "after the last reference"},
	"a request after the last reference, during a fault": {"S7", func(r *rig, wrong bool) {
		r.reference()
		r.Fault("outage", fresh)
		r.release()
		time.Sleep(time.Minute)
		if wrong {
			r.Request("list")
		}
	}, "after the last reference"},
}
