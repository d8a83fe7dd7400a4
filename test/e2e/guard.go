// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"io"
	"os/exec"
	"syscall"
)

// guardScript waits for the end of its input, which is the end of whoever holds the other end, however that came
// about. Then it kills the process groups that still have a NAME.pid in the folder, and removes the folder. A
// process that was killed may write for one moment more, so removing it may take a second attempt.
const guardScript = `cat >/dev/null
for file in "$0"/*.pid; do
	[ ! -e "$file" ] || kill -KILL "-$(cat "$file")"
done
for attempt in 1 2 3 4 5; do
	rm -rf "$0" && break
	sleep 1
done`

// guard removes a folder and ends the processes that live in it, also when this process is killed.
type guard struct {
	cmd   *exec.Cmd
	input io.Closer
}

func newGuard(dir string) (*guard, error) {
	cmd := exec.Command("/bin/sh", "-c", guardScript, dir)
	// A group of its own: what ends the test from the terminal must not end the guard.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	input, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("making the guard's input: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting the guard of %s: %w", dir, err)
	}
	return &guard{cmd: cmd, input: input}, nil
}

// close lets the guard do its work, and waits for it.
func (g *guard) close() error {
	_ = g.input.Close()
	if err := g.cmd.Wait(); err != nil {
		return fmt.Errorf("removing %s: %w", g.cmd.Args[len(g.cmd.Args)-1], err)
	}
	return nil
}
