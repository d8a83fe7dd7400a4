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

func seen(text string) fact {
	return func(context.Context) (string, error) { return text, nil }
}

func never(ctx context.Context) (string, error) {
	<-ctx.Done()
	return "", context.Cause(ctx)
}

// TestTell: a story is told in order, one line for each fact.
func TestTell(t *testing.T) {
	var out bytes.Buffer
	d := &demo{out: &out}
	err := d.tell(t.Context(), []step{
		{what: "First.", do: nothing, facts: []fact{seen("one"), seen("two")}},
		{what: "Second.", do: nothing},
	})
	if err != nil {
		t.Errorf("tell: got error %v, want none", err)
	}
	rest := out.String()
	for _, want := range []string{"1. First.", "ms  one\n", "ms  two\n", "2. Second.", "All 2 steps were observed"} {
		_, after, found := strings.Cut(rest, want)
		if !found {
			t.Errorf("story: got no %q, or not in order, in:\n%s", want, &out)
		}
		rest = after
	}
}

// TestTellFails: whatever a step lacks ends the story with an error that names the step, and later steps are
// not done.
func TestTellFails(t *testing.T) {
	broken := errors.New("broken")
	for name, tc := range map[string]struct {
		step    step
		wantOut string
	}{
		"it cannot be done":     {step{do: func(context.Context) error { return broken }, facts: []fact{seen("one")}}, "2. Bad."},
		"a fact is not seen":    {step{do: nothing, facts: []fact{seen("one"), func(context.Context) (string, error) { return "", broken }}}, "ms  FAILED: broken\n"},
		"the fact before fails": {step{do: nothing, facts: []fact{after(func(context.Context) (string, error) { return "", broken }, seen("no"))}}, "FAILED: broken"},
		"the first of two":      {step{do: all(nothing, func(context.Context) error { return broken }, func(context.Context) error { panic("not reached") })}, "2. Bad."},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			d := &demo{out: &out}
			tc.step.what = "Bad."
			err := d.tell(t.Context(), []step{{what: "Good.", do: nothing}, tc.step, {what: "Later.", do: func(context.Context) error {
				t.Error("the step after the one that failed was done")
				return nil
			}}})
			if !errors.Is(err, broken) || !strings.Contains(err.Error(), `step 2, "Bad."`) {
				t.Errorf("tell: got error %v, want %v with the step", err, broken)
			}
			if !strings.Contains(out.String(), tc.wantOut) || strings.Contains(out.String(), "were observed") {
				t.Errorf("story: got %q, want %q in it and no good end", &out, tc.wantOut)
			}
		})
	}
}

// TestTakeGivesUp: a fact that is never observed ends the step after a while, and facts beside it are told.
func TestTakeGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		d := &demo{out: &out}
		began := time.Now()
		err := d.take(t.Context(), step{do: nothing, facts: []fact{never, seen("one")}})
		if err == nil || !strings.Contains(err.Error(), "not seen for 30s") || time.Since(began) != stepTimeout {
			t.Errorf("take: got error %v after %v, want one that says so after %v", err, time.Since(began), stepTimeout)
		}
		if want := "     0.0ms  one\n"; !strings.HasSuffix(out.String(), want) {
			t.Errorf("story: got %q, want %q at its end: the time of a fact is its own", &out, want)
		}
	})
}
