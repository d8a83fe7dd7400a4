// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"time"
)

// progress tells how far the run has got.
type progress struct {
	b *bench
	// expected is how long all steps take, and expectedSoFar those that are done, both by their own estimate.
	expected, expectedSoFar time.Duration
	took                    time.Duration // by those that are done
}

func newProgress(b *bench) *progress {
	p := &progress{b: b}
	for _, scenario := range b.scenarios {
		for _, step := range scenario.steps(b) {
			p.expected += step.expect
		}
	}
	b.say("about %v, on two CPUs", p.expected.Round(time.Minute))
	return p
}

func (p *progress) run(ctx context.Context, step step) error {
	began := time.Now()
	if err := step.run(ctx); err != nil {
		return err
	}
	took := time.Since(began)
	p.took += took
	p.expectedSoFar += step.expect
	p.b.say("%s: %v, about %v left", step.text, took.Round(100*time.Millisecond), p.left().Round(10*time.Second))
	return nil
}

// left corrects the estimates by how wrong they were so far.
func (p *progress) left() time.Duration {
	if p.expectedSoFar == 0 {
		return p.expected
	}
	return time.Duration(float64(p.expected-p.expectedSoFar) * float64(p.took) / float64(p.expectedSoFar))
}
