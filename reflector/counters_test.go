// SPDX-License-Identifier: Apache-2.0

package reflector_test

import (
	"testing"
	"time"

	"github.com/refwatch/refwatch/reflector"
)

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
