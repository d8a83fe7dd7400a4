// SPDX-License-Identifier: Apache-2.0

// Package scale_test runs the scenario of kubelet's own integration test of its watch-based manager (1,000 secrets,
// created, referenced and fetched in parallel; test/integration/kubelet/watch_manager_test.go in
// kubernetes/kubernetes) at its size and at ten times that, on a real control plane.
package scale_test

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
