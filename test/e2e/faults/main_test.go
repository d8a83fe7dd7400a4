// SPDX-License-Identifier: Apache-2.0

// Package faults_test holds the library to what it promises while a real control plane fails.
//
// Each test breaks one thing: the API server, etcd, the network in between, some of the objects, or the caller's
// credentials. Meanwhile the last known state must be served with its age; once the fault is over every Get must agree
// with the server again. After each test no stream is left on the server, and after all of them no goroutine here.
//
// How long something took is logged, and never asserted: a shared machine is as slow as it likes. All a test sets is
// [patience], after which it gives up. With FAULTS_RESULTS set to a file, the observations are written there as
// a Markdown table.
package faults_test

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(tests{m}) }

// tests runs all tests and then writes down what they observed.
type tests struct{ *testing.M }

func (t tests) Run() int {
	code := t.M.Run()
	if path := os.Getenv("FAULTS_RESULTS"); path != "" {
		if err := os.WriteFile(path, []byte(observations.table()), 0o600); err != nil {
			fmt.Fprintln(os.Stderr, "writing the results:", err)
			return max(code, 1)
		}
	}
	return code
}
