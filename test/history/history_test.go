// SPDX-License-Identifier: Apache-2.0

package history_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/test/history"
)

var (
	errAbsent        = apierrors.NewNotFound(schema.GroupResource{Resource: "secrets"}, "x")
	errNotSynced     = fmt.Errorf("%w: %w", objectcache.ErrNotSynced, context.DeadlineExceeded)
	errNotRegistered = fmt.Errorf("secrets: %w", objectcache.ErrNotRegistered)
)

// object is an object with helpers that keep a case short.
type object struct{ *history.Object }

// state returns the state of a write.
func state(number int) history.State {
	return history.State{Write: number, UID: "uid", Version: fmt.Sprint(100 + number)}
}

func (o object) write()          { s := state(o.BeginWrite()); o.Acknowledge(s.Write, s.UID, s.Version) }
func (o object) delete()         { o.Acknowledge(o.BeginDelete(), "", "") }
func (o object) reference()      { o.BeginReference(); o.EndReference() }
func (o object) release()        { o.BeginRelease(); o.EndRelease() }
func (o object) get(number int)  { o.BeginGet().Return(state(number), nil) }
func (o object) fails(err error) { o.BeginGet().Return(history.State{}, err) }

// Each history has one thing wrong, and the same history without it has none.
func TestViolations(t *testing.T) {
	tests := map[string]struct {
		run  func(o object, wrong bool)
		want string
	}{
		"a write that nobody began": {func(o object, wrong bool) {
			o.write()
			o.get(pick(wrong, 2, 1))
		}, "which is none"},
		"the number of a deletion": {func(o object, wrong bool) {
			o.write()
			o.delete()
			o.write()
			o.get(pick(wrong, 2, 3))
		}, "which is none"},
		"a write that the server did not commit": {func(o object, wrong bool) {
			o.write()
			o.Abandon(o.BeginWrite())
			o.get(pick(wrong, 2, 1))
		}, "which is none"},
		"a write in flight that the server did not commit": {func(o object, wrong bool) {
			o.write()
			number := o.BeginWrite()
			o.get(pick(wrong, 2, 1))
			o.Abandon(number)
		}, "did not commit"},
		"another version than the server's": {func(o object, wrong bool) {
			o.write()
			s := state(1)
			s.Version = pick(wrong, "999", s.Version)
			o.BeginGet().Return(s, nil)
		}, "version 999"},
		"another UID than another Get": {func(o object, wrong bool) {
			s := state(o.BeginWrite())
			o.BeginGet().Return(s, nil)
			s.UID = pick[types.UID](wrong, "other", s.UID)
			o.BeginGet().Return(s, nil)
		}, "UID other"},
		"older than a Get before": {func(o object, wrong bool) {
			o.write()
			o.write()
			o.get(2)
			o.get(pick(wrong, 1, 2))
		}, "older than write 2"},
		"older than a Get before, after a new first reference": {func(o object, wrong bool) {
			o.reference()
			o.write()
			o.BeginWrite()
			o.get(2)
			o.release()
			o.reference()
			o.get(pick(wrong, 1, 2))
		}, "older than write 2"},
		"older than a write before the first reference": {func(o object, wrong bool) {
			o.write()
			if wrong {
				o.write()
				o.reference()
			} else {
				o.reference()
				o.write()
			}
			o.get(1)
		}, "older than write 2"},
		"absent, and it always existed": {func(o object, wrong bool) {
			o.write()
			if !wrong {
				o.delete()
			}
			o.write()
			o.get(pick(wrong, 2, 1))
			o.fails(errAbsent)
		}, "as absent"},
		"older than an absence": {func(o object, wrong bool) {
			o.write()
			o.delete()
			o.write()
			o.get(1)
			o.fails(errAbsent)
			o.get(pick(wrong, 1, 3))
		}, "older than write 2"},
		"not registered, with an owner": {func(o object, wrong bool) {
			o.reference()
			if !wrong {
				o.BeginRelease()
			}
			o.fails(errNotRegistered)
		}, "while an owner referenced"},
		"not synced, after a state": {func(o object, wrong bool) {
			o.write()
			o.reference()
			if wrong {
				o.get(1)
			}
			o.fails(errNotSynced)
		}, "after it had returned a state"},
		"another error": {func(o object, wrong bool) {
			o.fails(pick(wrong, errors.New("internal"), errNotSynced))
		}, "unexpected error: internal"},
		"Changes yields another error": {func(o object, wrong bool) {
			o.Yield(history.State{}, pick[error](wrong, errors.New("internal"), errAbsent))
		}, "unexpected error: internal"},
		"Changes yields an older state": {func(o object, wrong bool) {
			o.write()
			o.write()
			o.Yield(state(2), nil)
			o.reference()
			o.Yield(state(pick(wrong, 1, 2)), nil)
		}, "older than write 2"},
		"Changes yields a state again without a new owner": {func(o object, wrong bool) {
			o.write()
			o.Yield(state(1), nil)
			if !wrong {
				o.reference()
			}
			o.Yield(state(1), nil)
		}, "yielded states again 1 times"},
	}
	for name, test := range tests {
		for _, wrong := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/wrong=%v", name, wrong), func(t *testing.T) {
				h := &history.History{}
				test.run(object{h.Object("x")}, wrong)
				violations, count := h.Violations()
				if !wrong {
					if count != 0 {
						t.Errorf("right history: got %q, want no violation", violations)
					}
					return
				}
				if count != 1 || !strings.Contains(violations[0], test.want) {
					t.Errorf("wrong history: got %d violations %q, want one with %q", count, violations, test.want)
				}
			})
		}
	}
}

func pick[T any](wrong bool, bad, good T) T {
	if wrong {
		return bad
	}
	return good
}

// A Get is compared with the state when it began: what other Gets return meanwhile does not bind it.
func TestConcurrentGets(t *testing.T) {
	h := &history.History{}
	o := object{h.Object("x")}
	o.write()
	slow := o.BeginGet()
	o.write()
	o.get(2)
	if fresh := slow.Return(state(1), nil); fresh {
		t.Error("a Get that returned write 1 of 2: got fresh, want not")
	}
	if violations, count := h.Violations(); count != 0 {
		t.Errorf("got %q, want no violation", violations)
	}
	if got := h.Checked(); got != 2 {
		t.Errorf("checked: got %d, want 2", got)
	}
}

// Of writes that are too old only the order is checked.
func TestOldWrites(t *testing.T) {
	h := &history.History{}
	o := object{h.Object("x")}
	o.write()
	slow, slower := o.BeginGet(), o.BeginGet()
	for range 100 {
		o.write()
	}
	slow.Return(history.State{Write: 1, UID: "unknown"}, nil)
	slower.Return(history.State{}, errAbsent)
	if violations, count := h.Violations(); count != 0 {
		t.Errorf("got %q, want no violation", violations)
	}
	o.get(101)
	o.get(1)
	if _, count := h.Violations(); count != 1 {
		t.Errorf("violations after an old state: got %d, want 1", count)
	}
}

// Fresh is the newest acknowledged state, which may be an absence.
func TestFresh(t *testing.T) {
	h := &history.History{}
	o := object{h.Object("x")}
	check := func(what string, s history.State, err error, want bool) {
		t.Helper()
		if got := o.BeginGet().Return(s, err); got != want {
			t.Errorf("%s: fresh: got %v, want %v", what, got, want)
		}
		o.reference() // each new owner gets the state
		o.Yield(s, err)
		if got := o.YieldedNewest(); got != want {
			t.Errorf("%s: yielded the newest: got %v, want %v", what, got, want)
		}
		if got := o.Exists(); want && got != (err == nil) {
			t.Errorf("%s: exists: got %v, want %v", what, got, err == nil)
		}
	}
	check("absent before the first write", history.State{}, errAbsent, true)
	o.write()
	check("written", state(1), nil, true)
	o.write()
	check("older", state(1), nil, false)
	o.delete()
	check("deleted", history.State{}, errAbsent, true)
	o.Abandon(o.BeginWrite())
	check("deleted, and a write was abandoned", history.State{}, errAbsent, true)
	if violations, count := h.Violations(); count != 0 {
		t.Errorf("got %q, want no violation", violations)
	}
}
