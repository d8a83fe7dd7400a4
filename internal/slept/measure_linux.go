// SPDX-License-Identifier: Apache-2.0

package slept

import (
	"time"

	"golang.org/x/sys/unix"
)

// measure returns for how long the machine was suspended since it was started, or less: CLOCK_BOOTTIME is read first.
func measure() time.Duration {
	var boot, monotonic unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &boot) != nil || unix.ClockGettime(unix.CLOCK_MONOTONIC, &monotonic) != nil {
		return 0
	}
	return time.Duration(boot.Nano() - monotonic.Nano())
}
