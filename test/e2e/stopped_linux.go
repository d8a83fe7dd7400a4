// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"errors"

	"golang.org/x/sys/unix"
)

// waitStopped returns when no thread of the child runs any more, or the child has ended: kill(2) only queues the
// signal. It takes notice of stops alone and consumes nothing, so os/exec still learns how the child ends.
func waitStopped(pid int) {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WSTOPPED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return
		}
	}
}
