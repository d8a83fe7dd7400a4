// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"bytes"
	"context"
	"errors"
	"os"
	"strings"
	"testing"
)

// TestRunInterrupted: Run returns an error if its context ends during the steps, and leaves nothing behind.
func TestRunInterrupted(t *testing.T) {
	for _, at := range []string{"API server", "\n1. ", "\n4. "} {
		t.Setenv("TMPDIR", t.TempDir())
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		out := &notifyWriter{text: at, found: cancel}
		if err := Run(ctx, Options{Out: out, Once: true}); !errors.Is(err, context.Canceled) {
			t.Errorf("Run, interrupted at %q: got error %v, want context.Canceled; it printed:\n%s", at, err, out.String())
		}
		checkNothingLeft(t)
	}
}

// TestRunBadAddress: an address that cannot be used is an error.
func TestRunBadAddress(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	err := Run(t.Context(), Options{Out: &bytes.Buffer{}, Address: "192.0.2.1:1", Once: true}) // an address for documents
	if err == nil || !strings.Contains(err.Error(), "--bind-address 192.0.2.1:1 cannot be used") {
		t.Errorf("Run: got error %v, want one about the address", err)
	}
	checkNothingLeft(t)
}

// checkNothingLeft fails unless the folder for temporary files is empty.
func checkNothingLeft(t *testing.T) {
	t.Helper()
	left, err := os.ReadDir(os.TempDir())
	if err != nil || len(left) != 0 {
		t.Errorf("temporary folder: got %v and error %v, want it empty", left, err)
	}
}

// notifyWriter is a buffer that calls found once text was written.
type notifyWriter struct {
	bytes.Buffer

	text  string
	found func()
}

func (w *notifyWriter) Write(p []byte) (int, error) {
	n, err := w.Buffer.Write(p)
	if strings.Contains(w.String(), w.text) {
		w.found()
	}
	return n, err
}
