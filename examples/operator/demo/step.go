// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// stepTimeout bounds a step. Most take milliseconds; a busy machine must not make the demo fail.
const stepTimeout = time.Minute

// step is an action and the checks that must succeed after it.
type step struct {
	title  string
	do     func(context.Context) error
	checks []check
}

// check waits until something holds, and returns a line that says what was observed. If ctx ends first, it returns an
// error with the last observation.
type check func(context.Context) (observed string, err error)

// runSteps runs the steps in order, and ends with the first that fails: later steps depend on it.
func (d *demo) runSteps(ctx context.Context, steps []step) error {
	began := time.Now()
	for i, s := range steps {
		d.printf("\n%d. %s\n", i+1, s.title)
		if err := d.runStep(ctx, s); err != nil {
			return fmt.Errorf("step %d, %q, failed: %w", i+1, s.title, err)
		}
	}
	d.printf("\nAll %d steps succeeded, in %v.\n", len(steps), time.Since(began).Round(time.Millisecond))
	return nil
}

// runStep runs one step. Its checks run at the same time, so that each has its own time; they are printed in order.
func (d *demo) runStep(ctx context.Context, s step) error {
	ctx, cancel := context.WithTimeoutCause(ctx, stepTimeout, fmt.Errorf("not observed within %v", stepTimeout))
	defer cancel()
	began := time.Now()
	if err := s.do(ctx); err != nil {
		return err
	}
	lines := make([]string, len(s.checks))
	errs := make([]error, len(s.checks))
	var group sync.WaitGroup
	for i, check := range s.checks {
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
		d.printf("%s\n", line)
	}
	return errors.Join(errs...)
}
