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

// TestRunOnce tells the whole story, on a node and in a folder that the caller names. The folder stays.
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
		`worker-1: pods/[-0-9a-f]+/volumes/late is not there, for: secrets "shop/late" not found`,
		`server: open watches of secrets "tls": 1, which two pods share`,
		`server: open watches of configmaps "settings": 0, which is immutable`,
		`worker-1: pods/[-0-9a-f]+/volumes/late has 1 file `,
		`web-2: pods/[-0-9a-f]+/volumes/info has 3 files \(configmap "settings" v\d+, secret "extra" v\d+\)`,
		`worker-1: pods/[-0-9a-f]+/volumes/db keeps 2 files, reported: secrets "shop/db" not found`,
		`worker-1: pods/[-0-9a-f]+ is removed`,
		`server: no watch is open any more`,
		`web-2: pods/[-0-9a-f]+ is removed`,
		`All 9 steps were observed to be right`,
	} {
		if !regexp.MustCompile(want).Match(out.Bytes()) {
			t.Errorf("story: got no line like %s in:\n%s", want, &out)
		}
	}
	pods, err := os.ReadDir(filepath.Join(root, "pods"))
	if err != nil || len(pods) != 1 {
		t.Errorf("root folder after the story: got %d pods and error %v, want the one that stayed", len(pods), err)
	}
	checkNothingLeft(t)
}

// TestRunStays: without Once the demo ends with its context, in good order.
func TestRunStays(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out := &watcher{text: "What the agent makes of it", seen: cancel}
	if err := Run(ctx, Options{Out: out}); err != nil {
		t.Errorf("Run: got error %v, want none; it printed:\n%s", err, out.String())
	}
	checkNothingLeft(t)
}

// TestRunInterrupted: a story that does not get to its end is no success, wherever it is cut off.
func TestRunInterrupted(t *testing.T) {
	for _, at := range []string{"API server", "\n1. ", "\n3. ", "\n9. "} {
		t.Setenv("TMPDIR", t.TempDir())
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		out := &watcher{text: at, seen: cancel}
		if err := Run(ctx, Options{Out: out, Once: true}); !errors.Is(err, context.Canceled) {
			t.Errorf("Run, interrupted at %q: got error %v, want context.Canceled; it printed:\n%s", at, err, out.String())
		}
		checkNothingLeft(t)
	}
}

// TestRunBadRoot: an agent that cannot begin ends the story at once, and with its own error.
func TestRunBadRoot(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	err := Run(t.Context(), Options{Out: &out, RootDir: file, Once: true})
	if err == nil || !strings.Contains(err.Error(), "the agent has stopped") || !strings.Contains(err.Error(), "creating the root folder") {
		t.Errorf("Run: got error %v, want one about the root folder", err)
	}
	checkNothingLeft(t)
}

// TestRunBadNode: a node name that is none is refused by the agent.
func TestRunBadNode(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	err := Run(t.Context(), Options{Out: &bytes.Buffer{}, NodeName: "not a node", Once: true})
	if err == nil || !strings.Contains(err.Error(), `node name "not a node" is not valid`) {
		t.Errorf("Run: got error %v, want one about the node name", err)
	}
	checkNothingLeft(t)
}

// checkNothingLeft fails if the demo left anything in the folder for temporary files.
func checkNothingLeft(t *testing.T) {
	t.Helper()
	left, err := os.ReadDir(os.TempDir())
	if err != nil || len(left) != 0 {
		t.Errorf("temporary folder: got %v and error %v, want it empty", left, err)
	}
}

// watcher is a writer that calls seen once a text was written.
type watcher struct {
	bytes.Buffer

	text string
	seen func()
}

func (w *watcher) Write(p []byte) (int, error) {
	n, err := w.Buffer.Write(p)
	if strings.Contains(w.String(), w.text) {
		w.seen()
	}
	return n, err
}
