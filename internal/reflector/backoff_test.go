// SPDX-License-Identifier: Apache-2.0

package reflector_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/refwatch/refwatch/internal/reflector"
)

// A reflector that takes the place of others begins at once, unless they were stopped soon after their reads, and then
// pauses for up to a second. One that was there for long is well again.
func TestBackoffOfAPredecessor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := reflector.NewGate(reflector.GateOptions{})
		var backoff reflector.Backoff
		next := func(lives time.Duration) (waited time.Duration) {
			began := time.Now()
			paused := backoff.IsPause()
			r := start(t, watching(opens(state(secret("5"), "7")...)), reflector.Options{Gate: gate, Backoff: backoff})
			for !r.Status().Synced {
				after(10 * time.Millisecond)
			}
			if waited = time.Since(began); paused != (waited > 0) {
				t.Errorf("IsPause: got %t, and it has waited for %v", paused, waited)
			}
			after(lives)
			backoff = r.Backoff()
			r.stop()
			return waited
		}
		for i := range 20 {
			low, high := 100*time.Millisecond, 1010*time.Millisecond
			switch {
			case i < 4:
				low, high = 0, 0
			case i >= 8:
				low = 800 * time.Millisecond
			}
			if got := next(time.Second); got < low || got > high {
				t.Errorf("reflector %d: waited for %v, want %v to %v", i, got, low, high)
			}
		}
		next(11 * time.Second)
		if got := next(0); got > 0 || backoff == (reflector.Backoff{}) {
			t.Errorf("after a long one: waited for %v, want no pause", got)
		}
	})
}
