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

// shell makes a process of a script. It is ready when it has created the file ready, and killed after the test.
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

func restart(t *testing.T, p *Process) *run {
	t.Helper()
	if err := p.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	return p.current()
}

const idle = "touch ready; while :; do sleep 0.01; done"

func TestProcessKill(t *testing.T) {
	p := shell(t, "trap 'echo asked >asked' TERM; "+idle)
	p.Kill() // it does not run
	life := restart(t, p)
	p.Kill()
	if life.state != "signal: killed" {
		t.Errorf("got its end as %q, want signal: killed", life.state)
	}
	wantGone(t, p.file("pid"))
	wantGone(t, filepath.Join(p.dir, "asked"))
	if p.current() != nil {
		t.Error("got a life, want none")
	}
}

func TestProcessKillWhilePaused(t *testing.T) {
	p := shell(t, idle)
	life := restart(t, p)
	if err := p.Pause(); err != nil {
		t.Fatal(err)
	}
	p.Kill()
	if life.state != "signal: killed" {
		t.Errorf("got its end as %q, want signal: killed", life.state)
	}
}

// A process that stands still writes no more, and goes on where it was.
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
			return errors.New("it has not begun to count")
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
			return errors.New("it does not go on")
		}
		return nil
	})
}

func TestProcessPauseWithoutAProcess(t *testing.T) {
	p := shell(t, idle)
	for name, f := range map[string]func() error{"Pause": p.Pause, "Resume": p.Resume} {
		if err := f(); !errors.Is(err, errNotRunning) || !strings.Contains(err.Error(), "script") {
			t.Errorf("%s: got %v, want %v", name, err, errNotRunning)
		}
	}
}

// A restart asks the process to end and lets it finish, even if it was paused.
func TestProcessRestart(t *testing.T) {
	for name, pause := range map[string]bool{"running": false, "paused": true} {
		t.Run(name, func(t *testing.T) {
			p := shell(t, "trap 'echo done >>asked; exit 0' TERM; "+idle)
			first := restart(t, p)
			if pause {
				if err := p.Pause(); err != nil {
					t.Fatal(err)
				}
			}
			second := restart(t, p)
			if first == second || first.pid == second.pid {
				t.Error("got the same life, want a new one")
			}
			if first.state != "exit status 0" {
				t.Errorf("got the first end as %q, want exit status 0", first.state)
			}
			if asked, err := os.ReadFile(filepath.Join(p.dir, "asked")); string(asked) != "done\n" {
				t.Errorf("got %q and %v, want that it was asked once", asked, err)
			}
			if pid, err := os.ReadFile(p.file("pid")); err != nil || len(pid) == 0 {
				t.Errorf("got %q and %v in its pid file, want the new one", pid, err)
			}
		})
	}
}

// A process that does not listen is killed when the context ends, and then nothing is started.
func TestProcessRestartEndsWithItsContext(t *testing.T) {
	p := shell(t, "trap '' TERM; "+idle)
	life := restart(t, p)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := p.Restart(ctx); !errors.Is(err, context.Canceled) || p.current() != nil {
		t.Errorf("got %v and process %v, want %v and none", err, p.current(), context.Canceled)
	}
	if life.state != "signal: killed" {
		t.Errorf("got its end as %q, want signal: killed", life.state)
	}
}

func TestProcessFailsToStart(t *testing.T) {
	for name, test := range map[string]struct {
		script string
		never  bool // ready, until the context ends
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
		"never ready, and why": {
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
				t.Error("got a process, want none left")
			}
		})
	}
}

func TestProcessWithoutAProgram(t *testing.T) {
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

// Whoever starts and stops it at the same time takes turns: there is one process at most, and none in the end.
func TestProcessTakesTurns(t *testing.T) {
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
	if life := p.current(); life != nil {
		t.Errorf("got process %d, want none", life.pid)
	}
}

func TestTail(t *testing.T) {
	file := filepath.Join(t.TempDir(), "log")
	if got := tail(file); !strings.Contains(got, file) {
		t.Errorf("no file: got %q, want why", got)
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
