// SPDX-License-Identifier: Apache-2.0

package patterns_test

import (
	"slices"
	"testing"
	"time"

	"github.com/refwatch/refwatch/test/model"
)

// shrinkTime is how long a schedule is made shorter.
const shrinkTime = 30 * time.Second

// report fails the test with a schedule that has failed, and then with a shorter one that fails too.
func report(t *testing.T, p *pattern, seed int, s model.Schedule, result model.Result) {
	t.Helper()
	t.Errorf("the schedule of seed %d:\n%s\n%s", seed, result.Failure(), s)
	end := time.Now().Add(shrinkTime)
	short := s
	for i := 0; i < len(short) && time.Now().Before(end); {
		shorter := slices.Delete(slices.Clone(short), i, i+1)
		if again, _ := p.run(t, shorter); again.Failure() != "" {
			short, result = shorter, again
		} else {
			i++
		}
	}
	t.Errorf("shrunk to %d of %d steps:\n%s\n%s", len(short), len(s), result.Failure(), short)
}
