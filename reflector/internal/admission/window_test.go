// SPDX-License-Identifier: Apache-2.0

package admission_test

import (
	"math/rand/v2"
	"testing"
	"time"
)

// The window follows the latency. So a client far away opens many streams at a time, and one whose server is busy does
// not.
func TestWindowFollowsLatency(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // the same each time
	tests := map[string]struct {
		takes   func(opening int) time.Duration
		members int
		most    time.Duration // until all have synced
		widest  int           // the most attempts under way
	}{
		"far away": {func(int) time.Duration { return 1400 * time.Millisecond }, 5000, time.Minute, 256},
		// 2,000 a second, whatever is under way.
		"busy": {func(opening int) time.Duration { return time.Duration(opening) * time.Second / 2000 }, 5000, 3 * time.Second, 48},
		"far away, and busy": {func(opening int) time.Duration {
			return max(300*time.Millisecond, time.Duration(opening)*time.Second/200)
		}, 5000, 35 * time.Second, 160},
		"a busy etcd": {func(int) time.Duration { return time.Duration(random.Float64() * 100 * float64(time.Millisecond)) }, 5000,
			5 * time.Second, 256},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 256, func(r *rig) {
				widest := 0
				r.override = func(int) (behavior, bool) {
					opening := r.Status().Opening
					widest = max(widest, opening)
					return healthy().taking(test.takes(opening)), true
				}
				all := r.join(test.members, "secrets", healthy())
				began := time.Now()
				for r.countSynced(all) < len(all) && time.Since(began) < 2*test.most {
					advance(100 * time.Millisecond)
				}
				took := time.Since(began)
				t.Logf("%s: all synced after %v, up to %d at a time", name, took, widest)
				if took > test.most || widest > test.widest {
					t.Errorf("got all synced after %v, up to %d at a time, want at most %v and %d", took, widest, test.most, test.widest)
				}
			})
		})
	}
}

// A client whose way to the server becomes longer for good is far away from then on.
func TestWindowFollowsLatencyThatStays(t *testing.T) {
	inBubble(t, 256, func(r *rig) {
		takes, widest := 10*time.Millisecond, 0
		r.override = func(int) (behavior, bool) {
			widest = max(widest, r.Status().Opening)
			return healthy().taking(takes), true
		}
		r.join(100, "secrets", healthy())
		advance(time.Minute)
		takes = 1400 * time.Millisecond
		for range 60 {
			r.join(5, "secrets", healthy())
			advance(30 * time.Second)
		}
		widest = 0
		all := r.join(2000, "secrets", healthy())
		advance(time.Minute)
		if got := r.countSynced(all); got != len(all) || widest <= 64 {
			t.Errorf("got %d of %d synced, up to %d at a time, want all, and more than 64", got, len(all), widest)
		}
	})
}
