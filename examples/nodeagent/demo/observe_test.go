// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/refwatch/refwatch/examples/internal/steps"
	"github.com/refwatch/refwatch/examples/nodeagent/volume"
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

// TestChecksNoticeChanges stops the agent and then changes the server or the folder: checks must fail.
func TestChecksNoticeChanges(t *testing.T) {
	d := newStarted(t)
	d.halt()
	wantNotObserved(t, d.written("worker-1", "late"))
	wantNotObserved(t, d.written("web-1", "no-such-volume"))
	wantNotObserved(t, d.waiting("worker-1", "db", "not found"))
	wantNotObserved(t, d.waiting("worker-1", "late", "some other cause"))
	wantNotObserved(t, d.kept("worker-1", "late", "not found", volume.Payload{}))
	wantNotObserved(t, d.kept("worker-1", "db", "not found", volume.Payload{}))
	wantNotObserved(t, d.gone("web-1"))

	t.Run("a folder of no pod", func(t *testing.T) {
		extra := filepath.Join(d.root, "pods", "uid-of-no-pod")
		if err := os.Mkdir(extra, 0o755); err != nil {
			t.Fatal(err)
		}
		wantNotObserved(t, d.everything())
		if err := os.Remove(extra); err != nil {
			t.Fatal(err)
		}
		wantObserved(t, d.everything(), "all: 5 volumes")
	})
	t.Run("a waiting volume has a folder", func(t *testing.T) {
		dir := d.path(d.pods["worker-1"], "late")
		wantObserved(t, d.waiting("worker-1", "late", "not found"), "does not exist yet")
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		wantNotObserved(t, d.waiting("worker-1", "late", "not found"))
	})
	t.Run("a secret is rotated", func(t *testing.T) {
		if err := d.setSecret("tls", map[string]string{"tls.crt": "x", "tls.key": "y"})(t.Context()); err != nil {
			t.Fatal(err)
		}
		wantNotObserved(t, d.written("web-1", "tls"))
		wantNotObserved(t, d.everything())
	})
	t.Run("a volume does not keep its files", func(t *testing.T) {
		if err := os.Remove(d.path(d.pods["worker-1"], "late")); err != nil {
			t.Fatal(err)
		}
		wantNotObserved(t, d.kept("worker-1", "late", "not found", volume.Payload{"token": {Mode: 0o600}}))
	})
	t.Run("the missing secret is created", func(t *testing.T) {
		if err := d.createSecret("late", map[string]string{"a": "b"})(t.Context()); err != nil {
			t.Fatal(err)
		}
		_, err := d.checkVolume(t.Context(), d.pods["worker-1"], volumeOf(d.pods["worker-1"], "late"))
		if err == nil || !strings.Contains(err.Error(), "the agent reports") {
			t.Errorf("checkVolume: got error %v, want one that agent and server differ", err)
		}
	})
}

// TestServerChecks: a check of the server's counters fails if they differ.
func TestServerChecks(t *testing.T) {
	d := newStarted(t)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for name, f := range map[string]steps.Check{
		"one stream too few":  d.streams("secrets", "tls", 2, ""),
		"one stream too many": d.streams("secrets", "tls", 0, ""),
		"streams are open":    d.noStreams(),
	} {
		if got, err := f(ended); err == nil {
			t.Errorf("%s: got %q, want an error", name, got)
		}
	}
	wantObserved(t, d.notRequested("secrets", "elsewhere"), "no request")
	if _, err := d.client.CoreV1().Secrets(namespace).Get(t.Context(), "elsewhere", metav1.GetOptions{}); err != nil {
		t.Fatal(err)
	}
	wantNotObserved(t, d.notRequested("secrets", "elsewhere"))
	if _, err := d.client.CoreV1().ConfigMaps("").List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	wantNotObserved(t, d.notRequested("configmaps", "settings"))
}
