// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"bytes"
	"context"
	"errors"
	"os"
	"strings"
	"sync"
	"testing"
)

// TestRunOnce runs the whole scenario.
func TestRunOnce(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	var out bytes.Buffer
	if err := Run(t.Context(), Options{Out: &out, Once: true}); err != nil {
		t.Fatalf("Run: got error %v, want none; it printed:\n%s", err, &out)
	}
	for _, want := range []string{
		`Site shop: Ready=False, reason NotFound, message "shop-db: NotFound"`,
		`Site bank: Ready=False, reason Forbidden, message "vault: Forbidden"`,
		`Site bank: Ready=True, reason SecretsRead`,
		`requests of the operator for Secrets name one of [blog-tls shop-db shop-tls vault]`,
		`All 7 steps succeeded`,
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("output: got no %q in:\n%s", want, &out)
		}
	}
	checkNothingLeft(t)
}

// TestRunUntilCanceled: without Once the demo runs until its context ends, and returns no error.
func TestRunUntilCanceled(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out := &notifyWriter{text: "ADDED shop: Ready=True", found: cancel}
	if err := Run(ctx, Options{Out: out}); err != nil {
		t.Errorf("Run: got error %v, want none; it printed:\n%s", err, out)
	}
	checkNothingLeft(t)
}

// TestRunInterrupted: Run returns an error if its context ends during the scenario.
func TestRunInterrupted(t *testing.T) {
	for _, at := range []string{"API server", "\n2. ", "\n7. "} {
		t.Setenv("TMPDIR", t.TempDir())
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		out := &notifyWriter{text: at, found: cancel}
		if err := Run(ctx, Options{Out: out, Once: true}); !errors.Is(err, context.Canceled) {
			t.Errorf("Run, interrupted at %q: got error %v, want context.Canceled; it printed:\n%s", at, err, out)
		}
		checkNothingLeft(t)
	}
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
	text  string
	found func()

	mu      sync.Mutex
	written bytes.Buffer
}

func (w *notifyWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	n, err := w.written.Write(p)
	found := strings.Contains(w.written.String(), w.text)
	w.mu.Unlock()
	if found {
		w.found()
	}
	return n, err
}

func (w *notifyWriter) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.written.String()
}
