// SPDX-License-Identifier: Apache-2.0

package admission_test

import (
	"testing"

	"github.com/refwatch/refwatch/test/testmain"
)

func TestMain(m *testing.M) { testmain.Run(m) }

// simulation skips a test of what the rules come to: with the race detector, which thousands of members in one bubble
// do not need, it takes minutes, and with -short seconds count.
func simulation(t *testing.T) {
	t.Helper()
	if testmain.Race || testing.Short() {
		t.Skip("a simulation: not with -race or -short")
	}
}
