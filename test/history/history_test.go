// SPDX-License-Identifier: Apache-2.0

package history_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/refwatch/refwatch/test/history"
)

// testCase is a history with one thing wrong. The same history without it has none.
type testCase struct {
	rule string
	run  func(r *rig, wrong bool)
	want string
}

func testCases() map[string]testCase {
	all := maps.Clone(safetyCases)
	maps.Copy(all, changesCases)
	maps.Copy(all, livenessCases)
	maps.Copy(all, verbCases)
	return all
}

// Each wrong history has one violation, of the expected rule, and the right one has none.
func TestViolations(t *testing.T) {
	for name, test := range testCases() {
		for _, wrong := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/wrong=%v", name, wrong), func(t *testing.T) {
				report := inBubble(t, limitsOf(test.rule), false, func(r *rig) { test.run(r, wrong) })
				switch {
				case wrong && report.Decided[test.rule] == 0:
					t.Errorf("rule %s: got decided 0 times, want more", test.rule)
				case !wrong && report.Count != 0:
					t.Errorf("right history: got %v, want no violation", report.Violations)
				case !wrong:
				case report.Count != 1 || report.Violations[0].Rule != test.rule || !strings.Contains(report.Violations[0].String(), test.want):
					t.Errorf("wrong history: got %d violations %v, want one of %s with %q", report.Count, report.Violations, test.rule, test.want)
				}
			})
		}
	}
}

// A store that holds more than what is referenced may return a state from before the first reference, and none that is
// older than what it has returned.
func TestHoldsMore(t *testing.T) {
	for _, holdsMore := range []bool{false, true} {
		limits := limitsOf("S4")
		limits.HoldsMore = holdsMore
		report := inBubble(t, limits, false, func(r *rig) {
			r.write()
			r.reference()
			r.fails(errAbsent) // that it was before the write
			r.get(1)
			r.fails(errAbsent)
		})
		want := 1 // the second one
		if !holdsMore {
			want = 2
		}
		if report.Count != want {
			t.Errorf("HoldsMore=%v: got %d violations %v, want %d", holdsMore, report.Count, report.Violations, want)
		}
	}
}

// Each rule of the package documentation has a case.
func TestRules(t *testing.T) {
	rules := map[string]bool{}
	for _, test := range testCases() {
		rules[test.rule] = true
		if !slices.Contains(history.Rules, test.rule) {
			t.Errorf("rule %s is not in Rules", test.rule)
		}
	}
	for _, rule := range history.Rules {
		if !rules[rule] {
			t.Errorf("rule %s has no case", rule)
		}
	}
}

// A history that has not all writes is compared with itself.
func TestIncompleteWrites(t *testing.T) {
	tests := map[string]struct {
		run  func(r *rig, wrong bool)
		want string
	}{
		"an older version": {func(r *rig, wrong bool) {
			r.get(2)
			r.get(pick(wrong, 1, 3))
		}, "S2"},
		"another state of the same version": {func(r *rig, wrong bool) {
			r.get(1)
			s := state(1)
			s.UID = pick(wrong, "other", s.UID)
			r.gets(s)
		}, "S1"},
		"no version": {func(r *rig, wrong bool) {
			s := state(1)
			s.Version = pick(wrong, "one", s.Version)
			r.gets(s)
		}, "S1"},
		"yielded again": {func(r *rig, wrong bool) {
			follower := r.Follow()
			follower.Yield(r.x, state(1), nil)
			follower.Yield(r.x, history.State{}, errAbsent)
			follower.Yield(r.x, history.State{}, errAbsent)
			follower.Yield(r.x, state(pick(wrong, 1, 2)), nil)
		}, "S10"},
	}
	for name, test := range tests {
		for _, wrong := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/wrong=%v", name, wrong), func(t *testing.T) {
				report := inBubble(t, limits, true, func(r *rig) { test.run(r, wrong) })
				if report.Decided[test.want] == 0 {
					t.Errorf("rule %s: got decided 0 times, want more", test.want)
				}
				if !wrong && report.Count != 0 || wrong && (report.Count != 1 || report.Violations[0].Rule != test.want) {
					t.Errorf("got %d violations %v, want one of %s in the wrong history", report.Count, report.Violations, test.want)
				}
			})
		}
	}
}

// A Get is compared with the state when it began: what other Gets return meanwhile does not bind it.
func TestConcurrentGets(t *testing.T) {
	report := inBubble(t, limits, false, func(r *rig) {
		r.write()
		slow := r.beginGet()
		r.write()
		r.get(2)
		if newest := slow.Return(state(1), nil); newest {
			t.Error("a Get that returned write 1 of 2: got newest, want not")
		}
	})
	if report.Count != 0 || report.Checked != 2 {
		t.Errorf("got %d states checked and %v, want 2 and no violation", report.Checked, report.Violations)
	}
}

// Of writes that are too old only the order is checked.
func TestOldWrites(t *testing.T) {
	report := inBubble(t, limits, false, func(r *rig) {
		r.write()
		slow, slower := r.beginGet(), r.beginGet()
		for range 100 {
			r.write()
		}
		slow.Return(history.State{UID: "unknown", Version: "101"}, nil)
		slower.Return(history.State{}, errAbsent)
		r.get(101)
		r.get(1)
	})
	if report.Count != 1 || report.Violations[0].Rule != "S2" {
		t.Errorf("got %v, want one violation of S2", report.Violations)
	}
}

// A file with two histories, as of a program that was restarted, has a violation.
func TestTwoHistories(t *testing.T) {
	run := `{"time":"2026-01-01T00:00:00Z","op":"run"}` + "\n"
	get := `{"op":"beginGet","call":1,"object":"x"}{"op":"endGet","call":1,"object":"x","version":"101"}` + "\n"
	report, err := history.Check(strings.NewReader(run+get+strings.Replace(run, "}", `,"writes":true}`, 1)+get), limits)
	if err != nil || report.Count != 1 || !strings.Contains(report.Violations[0].Text, "two histories") {
		t.Errorf("got %v and %v, want one violation that names two histories", report.Violations, err)
	}
}

// What is not kept leads to no violation: the newest committed state is kept, and the others are remembered by their
// version.
func TestManyWrites(t *testing.T) {
	tests := map[string]func(r *rig){
		"failed": func(r *rig) {
			r.write()
			for range 100 {
				r.begin().Fail()
			}
			r.get(1)
		},
		"under way": func(r *rig) {
			r.write()
			for range 100 {
				r.begin()
			}
			r.get(1)
		},
		"deletions": func(r *rig) {
			r.begin().Commit(immutable(1))
			r.reference()
			for range 10 {
				r.delete()
				r.begin().Commit(immutable(*r.writes))
			}
			r.gets(immutable(1))
		},
		"an absence that is not kept, and a write before one that is": func(r *rig) {
			r.delete()
			for range 14 {
				r.write()
			}
			before := state(*r.writes)
			r.delete()
			r.write()
			follower := r.Follow()
			follower.Yield(r.x, history.State{}, errAbsent)
			follower.Yield(r.x, before, nil)
			follower.Yield(r.x, state(*r.writes), nil)
		},
		"an absence that is not kept, and one that is the newest": func(r *rig) {
			r.write()
			r.delete()
			for range 20 {
				r.write()
			}
			r.reference()
			follower := r.Follow()
			r.delete()
			follower.Yield(r.x, history.State{}, errAbsent)
			time.Sleep(2 * fresh)
			r.fails(errAbsent)
		},
	}
	for name, run := range tests {
		t.Run(name, func(t *testing.T) {
			if report := inBubble(t, limits, false, run); report.Count != 0 {
				t.Errorf("got %v, want no violation", report.Violations)
			}
		})
	}
}

// Get.Return, Yield and HasNewest report what is the newest committed state, which may be an absence.
func TestNewest(t *testing.T) {
	report := inBubble(t, limits, false, func(r *rig) {
		follower := r.Follow()
		check := func(what string, s history.State, err error, want bool) {
			t.Helper()
			if got := r.beginGet().Return(s, err); got != want {
				t.Errorf("%s: Get: got newest %v, want %v", what, got, want)
			}
			r.reference() // each new owner gets the state
			if got := follower.Yield(r.x, s, err); got != want {
				t.Errorf("%s: Yield: got newest %v, want %v", what, got, want)
			}
			if got := follower.HasNewest(r.x); got != want {
				t.Errorf("%s: HasNewest: got %v, want %v", what, got, want)
			}
		}
		check("absent before the first write", history.State{}, errAbsent, true)
		r.write()
		check("written", state(1), nil, true)
		r.write()
		check("older", state(1), nil, false)
		r.delete()
		check("deleted", history.State{}, errAbsent, true)
		r.begin().Fail()
		check("deleted, and a write has failed", history.State{}, errAbsent, true)
	})
	if report.Count != 0 {
		t.Errorf("got %v, want no violation", report.Violations)
	}
}

// The newest state is also the one that a rollback has brought back, or a second absence, although nobody has read what
// was between them.
func TestNewestAgain(t *testing.T) {
	inBubble(t, limits, false, func(r *rig) {
		r.begin().Commit(state(1))
		r.reference()
		follower := r.Follow()
		follower.Yield(r.x, state(1), nil)
		backup := r.Snapshot()
		r.begin().Commit(state(2))
		if r.beginGet().Return(state(1), nil) {
			t.Error("got the replaced state as the newest one")
		}
		backup.End()
		if !r.beginGet().Return(state(1), nil) || !follower.HasNewest(r.x) {
			t.Error("rolled back: got the state as an old one, want the newest one")
		}
		follower.End()
	})
}
