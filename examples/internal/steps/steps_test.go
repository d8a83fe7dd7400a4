// SPDX-License-Identifier: Apache-2.0

package steps_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/refwatch/refwatch/examples/internal/steps"
)

func nothing(context.Context) error { return nil }

func observed(text string) steps.Check {
	return func(context.Context) (string, error) { return text, nil }
}

func never(ctx context.Context) (string, error) {
	<-ctx.Done()
	return "", context.Cause(ctx)
}

// TestRun: steps run in order, and print one line for each check.
func TestRun(t *testing.T) {
	var out bytes.Buffer
	err := steps.Run(t.Context(), &out, []steps.Step{
		{Title: "First.", Do: nothing, Checks: []steps.Check{observed("one"), observed("two")}},
		{Title: "Second.", Do: nothing},
	})
	if err != nil {
		t.Errorf("Run: got error %v, want none", err)
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

// TestRunFails: the first step that fails ends the run with an error that names the step.
func TestRunFails(t *testing.T) {
	broken := errors.New("broken")
	for name, tc := range map[string]struct {
		step    steps.Step
		wantOut string
	}{
		"the action fails":       {steps.Step{Do: func(context.Context) error { return broken }, Checks: []steps.Check{observed("one")}}, "2. Bad."},
		"a check fails":          {steps.Step{Do: nothing, Checks: []steps.Check{observed("one"), func(context.Context) (string, error) { return "", broken }}}, "ms  FAILED: broken\n"},
		"the check before fails": {steps.Step{Do: nothing, Checks: []steps.Check{steps.After(func(context.Context) (string, error) { return "", broken }, observed("no"))}}, "FAILED: broken"},
		"the first of two":       {steps.Step{Do: steps.InOrder(nothing, func(context.Context) error { return broken }, func(context.Context) error { panic("not reached") })}, "2. Bad."},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			tc.step.Title = "Bad."
			err := steps.Run(t.Context(), &out, []steps.Step{{Title: "Good.", Do: nothing}, tc.step, {Title: "Later.", Do: func(context.Context) error {
				t.Error("a step ran after the one that failed")
				return nil
			}}})
			if !errors.Is(err, broken) || !strings.Contains(err.Error(), `step 2, "Bad."`) {
				t.Errorf("Run: got error %v, want %v with the step", err, broken)
			}
			if !strings.Contains(out.String(), tc.wantOut) || strings.Contains(out.String(), "succeeded") {
				t.Errorf("output: got %q, want %q in it and no success", &out, tc.wantOut)
			}
		})
	}
}

// TestStepTimesOut: a check that never succeeds ends the step after Timeout; other checks are printed.
func TestStepTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		began := time.Now()
		err := (steps.Step{Do: nothing, Checks: []steps.Check{never, observed("one")}}).Run(t.Context(), &out)
		if err == nil || !strings.Contains(err.Error(), "not observed within 1m0s") || time.Since(began) != steps.Timeout {
			t.Errorf("Run: got error %v after %v, want a timeout after %v", err, time.Since(began), steps.Timeout)
		}
		if want := "     0.0ms  one\n"; !strings.HasSuffix(out.String(), want) {
			t.Errorf("output: got %q, want %q at its end: each check has its own time", &out, want)
		}
	})
}
