// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestRunOnce runs the whole scenario with a node name and a root folder. The folder is kept.
func TestRunOnce(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	root := filepath.Join(t.TempDir(), "root")
	var out bytes.Buffer
	if err := Run(t.Context(), Options{Out: &out, NodeName: "worker-7", RootDir: root, Once: true}); err != nil {
		t.Fatalf("Run: got error %v, want none; it printed:\n%s", err, &out)
	}
	for _, want := range []string{
		`node        worker-7`,
		`web-1: pods/[-0-9a-f]+/volumes/tls has 2 files \(secret "tls" v\d+\)`,
		`worker-1: pods/[-0-9a-f]+/volumes/late does not exist yet; reported: secrets "shop/late" not found`,
		`server: open watches of secrets "tls": 1, which two pods share`,
		`server: open watches of configmaps "settings": 0, which is immutable`,
		`worker-1: pods/[-0-9a-f]+/volumes/late has 1 file `,
		`web-2: pods/[-0-9a-f]+/volumes/info has 3 files \(configmap "settings" v\d+, secret "extra" v\d+\)`,
		`worker-1: pods/[-0-9a-f]+/volumes/db keeps 2 files; reported: secrets "shop/db" not found`,
		`worker-1: pods/[-0-9a-f]+ is removed`,
		`server: no watch is open`,
		`web-2: pods/[-0-9a-f]+ is removed`,
		`All 9 steps succeeded`,
	} {
		if !regexp.MustCompile(want).Match(out.Bytes()) {
			t.Errorf("output: got no line like %s in:\n%s", want, &out)
		}
	}
	pods, err := os.ReadDir(filepath.Join(root, "pods"))
	if err != nil || len(pods) != 1 {
		t.Errorf("root folder at the end: got %d pods and error %v, want the one that was not deleted", len(pods), err)
	}
	checkNothingLeft(t)
}

// TestRunInterrupted: Run returns an error if its context ends during the scenario.
func TestRunInterrupted(t *testing.T) {
	for _, at := range []string{"API server", "\n1. ", "\n3. ", "\n9. "} {
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
