// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(killedDir); dir != "" {
		runUntilKilled(dir) // see TestGuardOutlivesItsProcess
		return
	}
	goleak.VerifyTestMain(m)
}
