// SPDX-License-Identifier: Apache-2.0

// Package faults_test tests the library while a real control plane fails.
//
// Each test injects one fault: into the API server, etcd, the network, some of the objects, or the client's
// credentials. During the fault the last known state must be served with its age. After the fault every Get must agree
// with the server. After each test no stream is open on the server, and after all tests no goroutine is left.
//
// Times are logged and not asserted, as a shared machine may be slow; [timeout] bounds each wait. If FAULTS_RESULTS
// names a file, the observations are written there: docs/results/faults.md has some.
package faults_test

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// blocking runs the tests on stores that park no streams: go test ./faults -blocking.
var blocking = flag.Bool("blocking", false, "keep a goroutine for each stream of the stores")

func TestMain(m *testing.M) { goleak.VerifyTestMain(tests{m}) }

// tests runs all tests and then writes their observations.
type tests struct{ *testing.M }

func (t tests) Run() int {
	code := t.M.Run()
	if path := os.Getenv("FAULTS_RESULTS"); path != "" {
		if err := os.WriteFile(path, []byte(observations.list()), 0o600); err != nil {
			fmt.Fprintln(os.Stderr, "writing the results:", err)
			return max(code, 1)
		}
	}
	return code
}
