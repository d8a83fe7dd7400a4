// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestRun(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a control plane")
	}
	var output bytes.Buffer
	if err := run(t.Context(), &output, io.Discard); err != nil {
		t.Fatal(err)
	}
	programs := strings.Fields(output.String())
	if len(programs) != 2 {
		t.Fatalf("got %q, want two programs", programs)
	}
	for _, program := range programs {
		if info, err := os.Stat(program); err != nil || info.Mode()&0o100 == 0 {
			t.Errorf("%s: got %v and %v, want a program", program, info, err)
		}
	}
}

func TestRunFails(t *testing.T) {
	t.Chdir(t.TempDir())
	var output bytes.Buffer
	if err := run(t.Context(), &output, io.Discard); err == nil || errors.Is(err, io.EOF) || output.Len() != 0 {
		t.Errorf("outside a checkout: got error %v and output %q, want an error and no output", err, output.String())
	}
}
