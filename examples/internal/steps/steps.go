// SPDX-License-Identifier: Apache-2.0

// Package steps runs the steps of an example's demo, and prints what each check observes.
package steps

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"
)

// Timeout bounds a step. Most take milliseconds; a busy machine must not make the demo fail.
const Timeout = time.Minute

// Action is what a step does.
type Action func(context.Context) error

// Check waits until something holds, and returns a line that says what was observed. If ctx ends first, it returns an
// error with the last observation.
type Check func(context.Context) (observed string, err error)

// Step is an action and the checks that must succeed after it.
type Step struct {
	Title  string
	Do     Action
	Checks []Check
}

// Run runs the steps in order, and ends with the first that fails: later steps depend on it.
func Run(ctx context.Context, out io.Writer, steps []Step) error {
	began := time.Now()
	for i, s := range steps {
		_, _ = fmt.Fprintf(out, "\n%d. %s\n", i+1, s.Title)
		if err := s.Run(ctx, out); err != nil {
			return fmt.Errorf("step %d, %q, failed: %w", i+1, s.Title, err)
		}
	}
	_, _ = fmt.Fprintf(out, "\nAll %d steps succeeded, in %v.\n", len(steps), time.Since(began).Round(time.Millisecond))
	return nil
}

// Run runs one step. Its checks run at the same time, so that each has its own time; they are printed in order.
func (s Step) Run(ctx context.Context, out io.Writer) error {
	ctx, cancel := context.WithTimeoutCause(ctx, Timeout, fmt.Errorf("not observed within %v", Timeout))
	defer cancel()
	began := time.Now()
	if err := s.Do(ctx); err != nil {
		return err
	}
	lines := make([]string, len(s.Checks))
	errs := make([]error, len(s.Checks))
	var group sync.WaitGroup
	for i, check := range s.Checks {
		group.Go(func() {
			observed, err := check(ctx)
			if err != nil {
				observed, errs[i] = "FAILED: "+err.Error(), err
			}
			lines[i] = fmt.Sprintf("%8.1fms  %s", float64(time.Since(began).Microseconds())/1000, observed)
		})
	}
	group.Wait()
	for _, line := range lines {
		_, _ = fmt.Fprintln(out, line)
	}
	return errors.Join(errs...)
}

// After returns a check that runs then once first has succeeded. Use it where then would also hold too early: a watch
// is closed before it was opened, for instance.
func After(first, then Check) Check {
	return func(ctx context.Context) (string, error) {
		if _, err := first(ctx); err != nil {
			return "", err
		}
		return then(ctx)
	}
}

// InOrder returns an action that runs several actions, and ends with the first error.
func InOrder(actions ...Action) Action {
	return func(ctx context.Context) error {
		for _, do := range actions {
			if err := do(ctx); err != nil {
				return err
			}
		}
		return nil
	}
}
