// SPDX-License-Identifier: Apache-2.0

package reflector_test

import (
	"testing"
	"time"

	"github.com/refwatch/refwatch/internal/reflector"
	"github.com/refwatch/refwatch/internal/reflector/histogram"
)

// The wait of an attempt is the time that it was queued. The pause before does not count.
func TestGateCountsWaits(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := newCrowd(t, reflector.GateOptions{Opens: 1}, taking(200*time.Millisecond, healthy))
		c.add(3, "secrets") // they wait for 0, 0.2 and 0.4 s
		after(time.Minute)
		want := histogram.Snapshot{Count: 3, Sum: 600 * time.Millisecond}
		got := c.gate.Status().Waits
		if got.Count != want.Count || got.Sum.Round(100*time.Millisecond) != want.Sum {
			t.Errorf("waits: got %d in %v, want %d in %v", got.Count, got.Sum, want.Count, want.Sum)
		}
		c.cutAll(nil) // each pauses for a moment before it is queued again
		after(time.Minute)
		if got := c.gate.Status().Waits; got.Count != 2*want.Count || got.Sum > 2*want.Sum {
			t.Errorf("waits: got %d in %v, want %d in at most %v", got.Count, got.Sum, 2*want.Count, 2*want.Sum)
		}
	})
}

// In an outage the window is that of the probe.
func TestGateWindowInAnOutage(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		c := newCrowd(t, reflector.GateOptions{}, healthy)
		c.add(40, "secrets")
		after(time.Minute)
		if got := c.gate.Status(); got.Window != 32 {
			t.Errorf("healthy: got %+v, want a window of 32", got)
		}
		c.serveAll(failing(errDown))
		c.cutAll(errDown)
		after(time.Minute)
		if got := c.gate.Status(); got.Window != 1 || got.Cause == nil {
			t.Errorf("in an outage: got %+v, want a window of 1, and a cause", got)
		}
	})
}
