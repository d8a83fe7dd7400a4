// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/refwatch/refwatch/examples/internal/steps"
)

// newStarted returns a demo whose first step has succeeded.
func newStarted(t *testing.T) *demo {
	t.Helper()
	d, err := newDemo(Options{Out: &bytes.Buffer{}, RootDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.close(); err != nil {
			t.Errorf("close: got error %v, want none", err)
		}
	})
	if err := d.scenario()[0].Run(t.Context(), d.out); err != nil {
		t.Fatal(err)
	}
	return d
}

// wantObserved fails unless the check succeeds with a text that contains want.
func wantObserved(t *testing.T, f steps.Check, want string) {
	t.Helper()
	if got, err := f(t.Context()); err != nil || !strings.Contains(got, want) {
		t.Errorf("check: got %q and error %v, want %q", got, err, want)
	}
}

// wantNotObserved fails unless the check fails. The agent must have stopped, so that onSync looks once and returns.
func wantNotObserved(t *testing.T, f steps.Check) {
	t.Helper()
	if got, err := f(t.Context()); err == nil {
		t.Errorf("check: got %q, want an error", got)
	}
}

// halt stops the agent but keeps it in the demo: its status no longer changes.
func (d *demo) halt() {
	d.agent.cancel()
	<-d.agent.done
}

// TestChecksNoticeDamage damages the files on disk in one way each: checks that succeeded before must then fail.
func TestChecksNoticeDamage(t *testing.T) {
	for name, damage := range map[string]func(dir string) error{
		"content": func(dir string) error {
			// The mode does not let the owner write the file.
			key := filepath.Join(dir, "..data", "tls.key")
			return errors.Join(os.Remove(key), os.WriteFile(key, []byte("other"), 0o400))
		},
		"mode":         func(dir string) error { return os.Chmod(filepath.Join(dir, "..data", "tls.key"), 0o444) },
		"file missing": func(dir string) error { return os.Remove(filepath.Join(dir, "..data", "tls.key")) },
		"extra file": func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "..data", "public", "more"), nil, 0o644)
		},
		"extra visible file": func(dir string) error { return os.WriteFile(filepath.Join(dir, "more"), nil, 0o644) },
		"link missing":       func(dir string) error { return os.Remove(filepath.Join(dir, "tls.key")) },
		"link renamed":       func(dir string) error { return os.Rename(filepath.Join(dir, "tls.key"), filepath.Join(dir, "key")) },
		"folder missing":     os.RemoveAll,
	} {
		t.Run(name, func(t *testing.T) {
			d := newStarted(t)
			d.halt()
			wantObserved(t, d.written("web-1", "tls"), "has 2 files")
			wantObserved(t, d.everything(), "all: 5 volumes of 3 pods match the server, 1 reported as not built")
			if err := damage(d.path(d.pods["web-1"], "tls")); err != nil {
				t.Fatal(err)
			}
			wantNotObserved(t, d.written("web-1", "tls"))
			wantNotObserved(t, d.everything())
		})
	}
}
