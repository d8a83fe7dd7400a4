// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"io"
	"os/exec"
	"syscall"
)

// guardScript waits for the end of its input: the pipe closes when the test's process ends, also if it is killed. Then
// it kills the process groups of all NAME.pid files in the folder, and removes the folder. It tries several times, as a
// killed process may still write for a moment.
const guardScript = `cat >/dev/null
for file in "$0"/*.pid; do
	[ ! -e "$file" ] || kill -KILL "-$(cat "$file")"
done
for attempt in 1 2 3 4 5; do
	rm -rf "$0" && break
	sleep 1
done`

// guard is a child process that kills the processes of a cluster and removes its folder, also if this process is
// killed.
type guard struct {
	cmd   *exec.Cmd
	input io.Closer
}

func newGuard(dir string) (*guard, error) {
	cmd := exec.Command("/bin/sh", "-c", guardScript, dir)
	// Its own process group: Ctrl-C at the terminal must not end the guard.
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

// close makes the guard clean up, and waits for it.
func (g *guard) close() error {
	_ = g.input.Close()
	if err := g.cmd.Wait(); err != nil {
		return fmt.Errorf("removing %s: %w", g.cmd.Args[len(g.cmd.Args)-1], err)
	}
	return nil
}
