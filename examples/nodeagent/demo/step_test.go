// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func nothing(context.Context) error { return nil }

func observed(text string) check {
	return func(context.Context) (string, error) { return text, nil }
}

func never(ctx context.Context) (string, error) {
	<-ctx.Done()
	return "", context.Cause(ctx)
}

// TestRunSteps: steps run in order, and print one line for each check.
func TestRunSteps(t *testing.T) {
	var out bytes.Buffer
	d := &demo{out: &out}
	err := d.runSteps(t.Context(), []step{
		{title: "First.", do: nothing, checks: []check{observed("one"), observed("two")}},
		{title: "Second.", do: nothing},
	})
	if err != nil {
		t.Errorf("runSteps: got error %v, want none", err)
	}
	rest := out.String()
	for _, want := range []string{"1. First.", "ms  one\n", "ms  two\n", "2. Second.", "All 2 steps succeeded"} {
		_, after, found := strings.Cut(rest, want)
		if !found {
			t.Errorf("output: got no %q, or not in order, in:\n%s", want, &out)
		}
		rest = after
	}
}

// TestRunStepsFails: the first step that fails ends the run with an error that names the step.
func TestRunStepsFails(t *testing.T) {
	broken := errors.New("broken")
	for name, tc := range map[string]struct {
		step    step
		wantOut string
	}{
		"the action fails":       {step{do: func(context.Context) error { return broken }, checks: []check{observed("one")}}, "2. Bad."},
		"a check fails":          {step{do: nothing, checks: []check{observed("one"), func(context.Context) (string, error) { return "", broken }}}, "ms  FAILED: broken\n"},
		"the check before fails": {step{do: nothing, checks: []check{after(func(context.Context) (string, error) { return "", broken }, observed("no"))}}, "FAILED: broken"},
		"the first of two":       {step{do: inOrder(nothing, func(context.Context) error { return broken }, func(context.Context) error { panic("not reached") })}, "2. Bad."},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			d := &demo{out: &out}
			tc.step.title = "Bad."
			err := d.runSteps(t.Context(), []step{{title: "Good.", do: nothing}, tc.step, {title: "Later.", do: func(context.Context) error {
				t.Error("a step ran after the one that failed")
				return nil
			}}})
			if !errors.Is(err, broken) || !strings.Contains(err.Error(), `step 2, "Bad."`) {
				t.Errorf("runSteps: got error %v, want %v with the step", err, broken)
			}
			if !strings.Contains(out.String(), tc.wantOut) || strings.Contains(out.String(), "succeeded") {
				t.Errorf("output: got %q, want %q in it and no success", &out, tc.wantOut)
			}
		})
	}
}

// TestRunStepTimesOut: a check that never succeeds ends the step after stepTimeout; other checks are printed.
func TestRunStepTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		d := &demo{out: &out}
		began := time.Now()
		err := d.runStep(t.Context(), step{do: nothing, checks: []check{never, observed("one")}})
		if err == nil || !strings.Contains(err.Error(), "not observed within 30s") || time.Since(began) != stepTimeout {
			t.Errorf("runStep: got error %v after %v, want a timeout after %v", err, time.Since(began), stepTimeout)
		}
		if want := "     0.0ms  one\n"; !strings.HasSuffix(out.String(), want) {
			t.Errorf("output: got %q, want %q at its end: each check has its own time", &out, want)
		}
	})
}
