// SPDX-License-Identifier: Apache-2.0

// Package operator_test runs examples/operator as a process on a real API server, with each of its caches, and measures
// the two side by side.
package operator_test

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
