// SPDX-License-Identifier: Apache-2.0

package history_test

import (
	"errors"
	"time"

	"github.com/refwatch/refwatch/test/history"
)

var changesCases = map[string]testCase{
	"Changes yields another error": {"S10", func(r *rig, wrong bool) {
		r.Follow().Yield(r.x, history.State{}, pick[error](wrong, errors.New("internal"), errAbsent))
	}, "unexpected error: internal"},
	"Changes yields an older state": {"S10", func(r *rig, wrong bool) {
		r.write()
		r.write()
		follower := r.Follow()
		follower.Yield(r.x, state(2), nil)
		r.reference()
		follower.Yield(r.x, state(pick(wrong, 1, 2)), nil)
	}, "want version 102"},
	"Changes yields a state again without a new owner": {"S10", func(r *rig, wrong bool) {
		r.write()
		follower := r.Follow()
		follower.Yield(r.x, state(1), nil)
		if !wrong {
			r.reference()
		}
		follower.Yield(r.x, state(1), nil)
	}, "again, and no owner was new"},
	"Changes yields a state again after a rollback that did not change it": {"S10", func(r *rig, wrong bool) {
		r.write()
		follower := r.Follow()
		follower.Yield(r.x, state(1), nil)
		backup := r.Snapshot()
		if !wrong {
			r.write()
		}
		backup.End()
		follower.Yield(r.x, state(1), nil)
	}, "again, and no owner was new"},
	"Changes yields a state again long after the last new owner": {"S10", func(r *rig, wrong bool) {
		r.write()
		follower := r.Follow()
		for range 10 {
			r.reference()
		}
		follower.Yield(r.x, state(1), nil)
		if !wrong {
			r.BeginReference("")
		}
		for range 2 {
			follower.Yield(r.x, state(1), nil)
		}
	}, "again, and no owner was new"},
	"Changes yields a state again that was refused meanwhile": {"S10", func(r *rig, wrong bool) {
		r.write()
		follower := r.Follow()
		follower.Yield(r.x, state(1), nil)
		if !wrong {
			r.reference()
		}
		for range 2 {
			follower.Yield(r.x, history.State{}, errNotSynced)
		}
		follower.Yield(r.x, state(1), nil)
	}, "again, and no owner was new"},
	"Changes yields again what is not kept": {"S10", func(r *rig, wrong bool) {
		r.write()
		follower := r.Follow()
		follower.Yield(r.x, state(1), nil)
		for range 100 {
			r.write()
		}
		follower.Yield(r.x, state(pick(wrong, 1, 50)), nil)
	}, "again, and no owner was new"},
	"Changes yields an absence again": {"S10", func(r *rig, wrong bool) {
		follower := r.Follow()
		follower.Yield(r.x, history.State{}, errAbsent)
		if !wrong {
			r.write()
			r.delete()
		}
		follower.Yield(r.x, history.State{}, errAbsent)
	}, "again, and no owner was new"},
	"Changes yields nothing": {"S10", func(r *rig, wrong bool) {
		r.write()
		r.reference()
		follower := r.Follow()
		if !wrong {
			follower.Yield(r.x, state(1), nil)
		}
		time.Sleep(2 * fresh)
		follower.End()
	}, "yielded no state"},
	"Changes misses the last state": {"S10", func(r *rig, wrong bool) {
		r.write()
		r.reference()
		follower := r.Follow()
		follower.Yield(r.x, state(1), nil)
		r.write()
		if !wrong {
			follower.Yield(r.x, state(2), nil)
		}
		time.Sleep(2 * fresh)
	}, "has not yielded version 102"},
	"Changes misses a new owner": {"S10", func(r *rig, wrong bool) {
		r.write()
		r.BeginReference("a").End()
		follower := r.Follow()
		follower.Yield(r.x, state(1), nil)
		time.Sleep(time.Second)
		r.BeginReference("b").End()
		if !wrong {
			follower.Yield(r.x, state(1), nil)
		}
		time.Sleep(2 * fresh)
	}, "since a new owner came"},
}
