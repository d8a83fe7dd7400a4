// SPDX-License-Identifier: Apache-2.0

package histogram_test

import (
	"fmt"
	"math"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/refwatch/refwatch/internal/reflector/histogram"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func Example() {
	var waits histogram.Histogram
	waits.Observe(3 * time.Millisecond)
	waits.Observe(time.Hour)
	snapshot := waits.Snapshot()
	bounds := histogram.Bounds()
	fmt.Println(snapshot.Count, "durations, of which", snapshot.Cumulative[2], "up to", bounds[2])
	// Output: 2 durations, of which 1 up to 5ms
}

func TestBuckets(t *testing.T) {
	bounds := histogram.Bounds()
	tests := map[string]struct {
		observed time.Duration
		first    int // the first bucket that counts it
	}{
		"negative":       {-time.Second, 0},
		"zero":           {0, 0},
		"a bound":        {bounds[3], 3},
		"above a bound":  {bounds[3] + 1, 4},
		"the last bound": {bounds[histogram.Buckets-1], histogram.Buckets - 1},
		"too long":       {math.MaxInt64, histogram.Buckets},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var h histogram.Histogram
			h.Observe(test.observed)
			want := histogram.Snapshot{Count: 1, Sum: max(0, test.observed)}
			for i := test.first; i < histogram.Buckets; i++ {
				want.Cumulative[i] = 1
			}
			if got := h.Snapshot(); got != want {
				t.Errorf("got %+v, want %+v", got, want)
			}
		})
	}
}

func TestBoundsGrow(t *testing.T) {
	bounds := histogram.Bounds()
	for i := 1; i < len(bounds); i++ {
		if bounds[i] <= bounds[i-1] {
			t.Errorf("bound %d: got %v, want more than %v", i, bounds[i], bounds[i-1])
		}
	}
}

// No duration is lost, and no snapshot counts a duration in a bucket and not in all.
func TestConcurrentUse(t *testing.T) {
	var h histogram.Histogram
	const goroutines, each = 4, 1000
	var group sync.WaitGroup
	for range goroutines {
		group.Go(func() {
			for i := range each {
				h.Observe(time.Duration(i) * time.Millisecond)
				if s := h.Snapshot(); s.Cumulative[histogram.Buckets-1] > s.Count {
					t.Errorf("snapshot: got %+v, want no bucket above the count", s)
				}
			}
		})
	}
	group.Wait()
	if got := h.Snapshot(); got.Count != goroutines*each || got.Cumulative[0] != 2*goroutines {
		t.Errorf("got %+v, want %d durations, %d of them up to 1ms", got, goroutines*each, 2*goroutines)
	}
}
