// SPDX-License-Identifier: Apache-2.0

package objectcache

import (
	"sync"
	"testing"
)

// Goroutines that run at one time count in different stripes, for the most part.
func TestGoroutinesUseManyStripes(t *testing.T) {
	var counters getCounters
	var running, done sync.WaitGroup
	const goroutines = 4 * stripes
	running.Add(goroutines)
	for range goroutines {
		done.Go(func() {
			running.Done()
			running.Wait() // no stack is used twice
			counters.countAnswer(true)
		})
	}
	done.Wait()
	used := 0
	for i := range counters.stripes {
		if counters.stripes[i].hits.Load() > 0 {
			used++
		}
	}
	if used < stripes/2 || counters.snapshot()[GetHit] != goroutines {
		t.Errorf("got %d hits in %d stripes, want %d in at least %d", counters.snapshot()[GetHit], used, goroutines, stripes/2)
	}
}
