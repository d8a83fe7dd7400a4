// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// stepTimeout is how long it may take to observe a step. Most take milliseconds. The bound is generous because
// a machine that builds something else besides must not make the demo fail.
const stepTimeout = 30 * time.Second

// step is one thing that happens, and what must be seen of it.
type step struct {
	what  string
	do    func(context.Context) error
	facts []fact
	// behind is set where no agent runs: then the disk is behind the server, and that is no fault.
	behind bool
}

// fact is something that must be observed. It waits until it is, and returns what was seen for people to
// read; or an error that tells what was seen instead when ctx ended.
type fact func(context.Context) (seen string, err error)

// tell does the steps in order. It ends with the first that is not observed to be right, for those that follow
// build on it.
func (d *demo) tell(ctx context.Context, story []step) error {
	began := time.Now()
	for i, s := range story {
		d.say("\n%d. %s\n", i+1, s.what)
		if err := d.take(ctx, s); err != nil {
			return fmt.Errorf("step %d, %q, was not observed to be right: %w", i+1, s.what, err)
		}
	}
	d.say("\nAll %d steps were observed to be right, in %v.\n", len(story), time.Since(began).Round(time.Millisecond))
	return nil
}

// take does one step, waits for all its facts, and tells them in the order in which the story names them. It
// waits for all at once, so that the time of each is its own.
func (d *demo) take(ctx context.Context, s step) error {
	ctx, cancel := context.WithTimeoutCause(ctx, stepTimeout, fmt.Errorf("not seen for %v", stepTimeout))
	defer cancel()
	began := time.Now()
	if err := s.do(ctx); err != nil {
		return err
	}
	lines := make([]string, len(s.facts))
	errs := make([]error, len(s.facts))
	var group sync.WaitGroup
	for i, fact := range s.facts {
		group.Go(func() {
			seen, err := fact(ctx)
			if err != nil {
				seen, errs[i] = "FAILED: "+err.Error(), err
			}
			lines[i] = fmt.Sprintf("%8.1fms  %s", float64(time.Since(began).Microseconds())/1000, seen)
		})
	}
	group.Wait()
	for _, line := range lines {
		d.say("%s\n", line)
	}
	return errors.Join(errs...)
}

// after is a fact that means something only once another was observed: that a watch is closed, say, once it
// must have been open.
func after(first, then fact) fact {
	return func(ctx context.Context) (string, error) {
		if _, err := first(ctx); err != nil {
			return "", err
		}
		return then(ctx)
	}
}

// all does one thing after the other, and ends with the first error.
func all(things ...func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		for _, do := range things {
			if err := do(ctx); err != nil {
				return err
			}
		}
		return nil
	}
}
