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

// killedDir in the environment is the folder of a test process that will be killed, see TestMain.
const killedDir = "REFWATCH_E2E_KILLED_DIR"

// killedPause in the environment makes that process pause its child.
const killedPause = "REFWATCH_E2E_KILLED_PAUSE"

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
		t.Errorf("folder before close: got error %v, want none", err)
	}
	if err := g.close(); err != nil {
		t.Fatal(err)
	}
	wantGone(t, dir)
}

func wantGone(t *testing.T, path string) {
	t.Helper()
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s: got error %v, want ErrNotExist", path, err)
	}
}

// When a test process is killed, the guard ends its processes, including their children, and removes their files. All
// of them inherit a pipe, which is closed when the last one has ended.
func TestGuardOutlivesItsProcess(t *testing.T) {
	// The kernel itself ends a paused process whose parent dies. The running one needs the guard.
	for name, pause := range map[string]string{"running": "", "paused": "yes"} {
		t.Run(name, func(t *testing.T) { checkOutlives(t, pause) })
	}
}

func checkOutlives(t *testing.T, pause string) {
	dir := filepath.Join(t.TempDir(), "cluster")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	alive, inherited, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = alive.Close() }()
	killed := exec.Command(os.Args[0])
	killed.Env = append(os.Environ(), killedDir+"="+dir, killedPause+"="+pause)
	killed.ExtraFiles = []*os.File{inherited}
	output, err := killed.StdoutPipe()
	if err == nil {
		err = killed.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	_ = inherited.Close()
	ready := make([]byte, 1)
	if _, err := io.ReadFull(output, ready); err != nil {
		t.Fatal(err)
	}
	_ = killed.Process.Kill()
	_ = killed.Wait()

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

// runUntilKilled starts a process that has a child, prints "!", and waits.
func runUntilKilled(dir string) {
	_, err := newGuard(dir)
	p := newProcess("sleeper", dir, "/bin/sh", []string{"-c", "sleep 1000 & wait"}, func(context.Context) error { return nil })
	if err == nil {
		err = p.Restart(context.Background())
	}
	if err == nil && os.Getenv(killedPause) != "" {
		err = p.Pause()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Print("!")
	<-p.current().done
}
