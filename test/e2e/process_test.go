// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// shell returns a process that runs a script. It is ready when the file "ready" exists, and killed after the test.
func shell(t *testing.T, script string) *Process {
	t.Helper()
	dir := t.TempDir()
	ready := filepath.Join(dir, "ready")
	p := newProcess("script", dir, "/bin/sh", []string{"-c", "cd '" + dir + "'; " + script}, func(context.Context) error {
		_, err := os.Stat(ready)
		return err
	})
	t.Cleanup(p.Kill)
	return p
}

func restart(t *testing.T, p *Process) *instance {
	t.Helper()
	if err := p.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	return p.current()
}

const idle = "touch ready; while :; do sleep 0.01; done"

func TestProcessKill(t *testing.T) {
	p := shell(t, "trap 'echo >terminated' TERM; "+idle)
	p.Kill() // does nothing
	i := restart(t, p)
	if got := p.PID(); got != i.pid {
		t.Errorf("got process ID %d, want %d", got, i.pid)
	}
	p.Kill()
	if i.state != "signal: killed" {
		t.Errorf("got exit state %q, want signal: killed", i.state)
	}
	if got := p.PID(); got != 0 {
		t.Errorf("got process ID %d of a process that has ended, want 0", got)
	}
	wantGone(t, p.file("pid"))
	wantGone(t, filepath.Join(p.dir, "terminated"))
	if p.current() != nil {
		t.Error("got an instance, want none")
	}
}

func TestProcessKillWhilePaused(t *testing.T) {
	p := shell(t, idle)
	i := restart(t, p)
	if err := p.Pause(); err != nil {
		t.Fatal(err)
	}
	p.Kill()
	if i.state != "signal: killed" {
		t.Errorf("got exit state %q, want signal: killed", i.state)
	}
}

// A paused process does not write, and continues after Resume.
func TestProcessPause(t *testing.T) {
	p := shell(t, "touch ready; n=0; while :; do n=$((n+1)); echo $n >count; done")
	restart(t, p)
	count := func() string {
		info, err := os.Stat(filepath.Join(p.dir, "count"))
		if err != nil {
			return ""
		}
		return info.ModTime().String()
	}
	eventually(t, func(context.Context) error {
		if count() == "" {
			return errors.New("the process has not started to count")
		}
		return nil
	})
	if err := p.Pause(); err != nil {
		t.Fatal(err)
	}
	before := count()
	for range 1000 {
		if now := count(); now != before {
			t.Fatalf("got %s while it is paused, want %s", now, before)
		}
	}
	if err := p.Resume(); err != nil {
		t.Fatal(err)
	}
	eventually(t, func(context.Context) error {
		if count() == before {
			return errors.New("the process does not continue")
		}
		return nil
	})
}

func TestProcessPauseNotRunning(t *testing.T) {
	p := shell(t, idle)
	for name, f := range map[string]func() error{"Pause": p.Pause, "Resume": p.Resume} {
		if err := f(); !errors.Is(err, errNotRunning) || !strings.Contains(err.Error(), "script") {
			t.Errorf("%s: got %v, want %v", name, err, errNotRunning)
		}
	}
}

// Restart sends SIGTERM and waits until the process ends, even if it was paused.
func TestProcessRestart(t *testing.T) {
	for name, pause := range map[string]bool{"running": false, "paused": true} {
		t.Run(name, func(t *testing.T) {
			p := shell(t, "trap 'echo done >>terminated; exit 0' TERM; "+idle)
			first := restart(t, p)
			if pause {
				if err := p.Pause(); err != nil {
					t.Fatal(err)
				}
			}
			second := restart(t, p)
			if first == second || first.pid == second.pid {
				t.Error("got the same instance, want a new one")
			}
			if first.state != "exit status 0" {
				t.Errorf("first instance: got exit state %q, want exit status 0", first.state)
			}
			if signals, err := os.ReadFile(filepath.Join(p.dir, "terminated")); string(signals) != "done\n" {
				t.Errorf("signals: got %q and error %v, want one SIGTERM", signals, err)
			}
			if pid, err := os.ReadFile(p.file("pid")); err != nil || len(pid) == 0 {
				t.Errorf("pid file: got %q and error %v, want the new pid", pid, err)
			}
		})
	}
}

// A process that ignores SIGTERM is killed when the context ends, and not started again.
func TestProcessRestartEndsWithItsContext(t *testing.T) {
	p := shell(t, "trap '' TERM; "+idle)
	i := restart(t, p)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := p.Restart(ctx); !errors.Is(err, context.Canceled) || p.current() != nil {
		t.Errorf("got %v and process %v, want %v and none", err, p.current(), context.Canceled)
	}
	if i.state != "signal: killed" {
		t.Errorf("got exit state %q, want signal: killed", i.state)
	}
}

func TestProcessFailsToStart(t *testing.T) {
	for name, test := range map[string]struct {
		script string
		never  bool // never ready
		want   []string
		is     error
	}{
		"ends before it is ready": {
			script: "echo some reason; exit 3",
			want:   []string{"starting script", "it ended before it was ready: exit status 3", "some reason"},
		},
		"never ready": {
			script: "echo some reason; exec sleep 1000",
			never:  true,
			want:   []string{"starting script", "not ready"},
			is:     context.Canceled,
		},
		"never ready, with a cause": {
			script: "exec sleep 1000",
			never:  true,
			is:     os.ErrDeadlineExceeded,
		},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			p := shell(t, test.script)
			if test.never {
				p.ready = func(context.Context) error { cancel(); return os.ErrDeadlineExceeded }
			}
			err := p.Restart(ctx)
			if err == nil || test.is != nil && !errors.Is(err, test.is) {
				t.Fatalf("got %v, want %v", err, test.is)
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("got %q, want it to contain %q", err, want)
				}
			}
			if p.current() != nil {
				t.Error("got an instance, want none")
			}
		})
	}
}

func TestProcessNoProgram(t *testing.T) {
	p := shell(t, idle)
	p.path = filepath.Join(p.dir, "nothing")
	if err := p.Restart(t.Context()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no program: got %v, want %v", err, os.ErrNotExist)
	}
	p.dir = filepath.Join(p.dir, "nowhere")
	if err := p.Restart(t.Context()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no folder: got %v, want %v", err, os.ErrNotExist)
	}
}

// Concurrent calls of Restart wait for each other: at most one process runs.
func TestProcessConcurrentRestarts(t *testing.T) {
	p := shell(t, "mkdir only || echo two >two; trap 'rmdir only; exit' TERM; "+idle)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			if err := p.Restart(t.Context()); err != nil {
				t.Error(err)
			}
		})
		all.Go(func() {
			_ = p.Pause()
			_ = p.Resume()
		})
	}
	all.Wait()
	p.Kill()
	wantGone(t, filepath.Join(p.dir, "two"))
	if i := p.current(); i != nil {
		t.Errorf("got process %d, want none", i.pid)
	}
}

func TestTail(t *testing.T) {
	file := filepath.Join(t.TempDir(), "log")
	if got := tail(file); !strings.Contains(got, file) {
		t.Errorf("no file: got %q, want the error", got)
	}
	for name, test := range map[string]struct{ text, want string }{
		"nothing": {"", ""},
		"short":   {"a\nb\n", "a\nb"},
		"long":    {strings.Repeat("x\n", 100) + "end", strings.Repeat("x\n", tailLines-1) + "end"},
	} {
		if err := os.WriteFile(file, []byte(test.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := tail(file); got != test.want {
			t.Errorf("%s: got %q, want %q", name, got, test.want)
		}
	}
}
