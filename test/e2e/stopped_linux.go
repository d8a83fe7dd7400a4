// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"errors"

	"golang.org/x/sys/unix"
)

// waitStopped returns when all threads of the child have stopped, or the child has ended: kill(2) only queues the
// signal. It does not consume the state, so that os/exec can still wait for the child.
func waitStopped(pid int) {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WSTOPPED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return
		}
	}
}
