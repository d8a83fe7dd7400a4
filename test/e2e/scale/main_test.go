// SPDX-License-Identifier: Apache-2.0

// Package scale_test runs the scenario of kubelet's integration test of its watch-based manager on a real control
// plane: 1,000 secrets are created, referenced and fetched in parallel (test/integration/kubelet/watch_manager_test.go
// in kubernetes/kubernetes). It also runs with 10,000 secrets.
package scale_test

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
