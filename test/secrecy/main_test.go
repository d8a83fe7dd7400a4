// SPDX-License-Identifier: Apache-2.0

package secrecy_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/refwatch/refwatch/test/reliability"
)

func TestMain(m *testing.M) {
	if os.Getenv(asReader) != "" {
		os.Exit(readAndDump())
	}
	goleak.VerifyTestMain(m)
}

// record appends a count to the results of a run that collects them.
func record(t *testing.T, name string, count int64) {
	t.Helper()
	violations := int64(0)
	if t.Failed() {
		violations = 1
	}
	if err := reliability.Record(reliability.Result{Part: "secrets", Name: name, Count: count, Violations: violations}); err != nil {
		t.Error(err)
	}
}
