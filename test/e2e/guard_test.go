// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// orphanDir names the folder of a test process that is to be killed, see TestMain.
const orphanDir = "REFWATCH_E2E_ORPHAN"

// orphanPause says whether that one pauses what it starts.
const orphanPause = "REFWATCH_E2E_ORPHAN_PAUSE"

func TestGuardRemovesItsFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "with space")
	if err := os.MkdirAll(filepath.Join(dir, "deep"), 0o700); err != nil {
		t.Fatal(err)
	}
	g, err := newGuard(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); err != nil {
		t.Errorf("while it guards: got %v, want the folder in place", err)
	}
	if err := g.close(); err != nil {
		t.Fatal(err)
	}
	wantGone(t, dir)
}

func wantGone(t *testing.T, path string) {
	t.Helper()
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v for %s, want it gone", err, path)
	}
}

// A test process that is killed takes its processes with it, those they started too, and their files. The pipe that
// all of them have inherited tells when the last one has ended.
func TestGuardOutlivesItsProcess(t *testing.T) {
	// The kernel itself hangs up on a paused process whose parent dies, so a running one is what tells.
	for name, pause := range map[string]string{"running": "", "paused": "yes"} {
		t.Run(name, func(t *testing.T) { outlives(t, pause) })
	}
}

func outlives(t *testing.T, pause string) {
	dir := filepath.Join(t.TempDir(), "cluster")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	alive, inherited, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = alive.Close() }()
	orphan := exec.Command(os.Args[0])
	orphan.Env = append(os.Environ(), orphanDir+"="+dir, orphanPause+"="+pause)
	orphan.ExtraFiles = []*os.File{inherited}
	output, err := orphan.StdoutPipe()
	if err == nil {
		err = orphan.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	_ = inherited.Close()
	ready := make([]byte, 1)
	if _, err := io.ReadFull(output, ready); err != nil {
		t.Fatal(err)
	}
	_ = orphan.Process.Kill()
	_ = orphan.Wait()

	last := make(chan error, 1)
	go func() {
		_, err := io.ReadAll(alive)
		last <- err
	}()
	if err := receive(t, last); err != nil {
		t.Fatal(err)
	}
	wantGone(t, dir)
}

// beOrphaned starts a process that has a child, says so, and waits to be killed.
func beOrphaned(dir string) {
	_, err := newGuard(dir)
	p := newProcess("sleeper", dir, "/bin/sh", []string{"-c", "sleep 1000 & wait"}, always)
	if err == nil {
		err = p.Restart(context.Background())
	}
	if err == nil && os.Getenv(orphanPause) != "" {
		err = p.Pause()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Print("!")
	<-p.current().done
}

func always(context.Context) error { return nil }
