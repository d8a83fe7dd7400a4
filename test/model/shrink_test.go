// SPDX-License-Identifier: Apache-2.0

package model_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/refwatch/refwatch/test/history"
	"github.com/refwatch/refwatch/test/model"
)

// shrinkTime is how long a schedule is made shorter.
const shrinkTime = 30 * time.Second

// report fails the test with a schedule that has failed, and then with a shorter one that breaks the same rule.
func report(t *testing.T, name string, s model.Schedule, result model.Result) {
	t.Helper()
	t.Errorf("%s:\n%s\n%s", name, result.Failure(), s)
	end := time.Now().Add(shrinkTime)
	short, again := shrink(s, func(s model.Schedule) bool {
		if time.Now().After(end) {
			return false
		}
		shorter := s.Run(t, model.Options{})
		if !breaksSame(shorter, result) {
			return false
		}
		result = shorter
		return true
	})
	if !again {
		t.Error("The schedule did not fail again: replay it several times.")
		return
	}
	t.Errorf("shrunk to %d of %d steps:\n%s\n%s", len(short), len(s), result.Failure(), short)
}

// breaksSame reports whether a result has a violation of the first rule that another one breaks. The texts of
// violations differ from run to run.
func breaksSame(result, other model.Result) bool {
	if other.Err != nil || len(other.Violations) == 0 {
		return result.Err != nil
	}
	rule := other.Violations[0].Rule
	return slices.ContainsFunc(result.Violations, func(v history.Violation) bool { return v.Rule == rule })
}

// shrink removes steps, and then arguments, from a schedule that fails, as long as it fails. It returns false if the
// schedule itself does not fail.
func shrink(s model.Schedule, fails func(model.Schedule) bool) (short model.Schedule, ok bool) {
	if !fails(s) {
		return s, false
	}
	size, removed := max(len(s)/2, 1), false
	for {
		for i := 0; i < len(s); {
			if shorter := slices.Delete(slices.Clone(s), i, min(i+size, len(s))); fails(shorter) {
				s, removed = shorter, true
			} else {
				i += size
			}
		}
		if size == 1 && !removed {
			break
		}
		size, removed = max(size/2, 1), false
	}
	for i, step := range s {
		for len(step.Args) > 0 { // an argument that is missing is 0
			step.Args = step.Args[:len(step.Args)-1]
			shorter := slices.Clone(s)
			if shorter[i] = step; !fails(shorter) {
				break
			}
			s = shorter
		}
	}
	return s, true
}

// A schedule is shrunk to the steps and arguments without which it does not fail, wherever they are.
func TestShrink(t *testing.T) {
	s, err := model.Parse(strings.Repeat("get 1 1000\ndelete 2\n", 7) + "put 3 1\ncheck\n" + strings.Repeat("probe 0\n", 5) + "sleep 300\nfollow\n")
	if err != nil {
		t.Fatal(err)
	}
	position := func(s model.Schedule, op string) int {
		return slices.IndexFunc(s, func(s model.Step) bool { return s.Op == op })
	}
	short, ok := shrink(s, func(s model.Schedule) bool {
		put := position(s, "put")
		return put >= 0 && len(s[put].Args) > 0 && position(s, "sleep") > put
	})
	if want := "put 3\nsleep\n"; !ok || short.String() != want {
		t.Errorf("shrink: got %v and\n%s\nwant\n%s", ok, short, want)
	}
	if short, ok := shrink(s, func(model.Schedule) bool { return false }); ok || short.String() != s.String() {
		t.Errorf("shrink what does not fail: got %v and\n%s\nwant the same schedule", ok, short)
	}
}
