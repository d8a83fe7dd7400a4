// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"syscall"
	"time"
)

// cpuOfProcess returns the CPU time that this process has used.
func cpuOfProcess() time.Duration {
	var usage syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &usage) // cannot fail for these arguments
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// controlPlaneCPU adds the CPU time that kube-apiserver and etcd use while a function runs, in a unit. Only Linux has
// the files that say it: elsewhere the figure is missing.
func (w *worker) controlPlaneCPU(figure string, unit time.Duration, run func() error) error {
	if runtime.GOOS != "linux" {
		return run()
	}
	before, err := cpuOf(w.ControlPlane)
	if err != nil {
		return err
	}
	if err := run(); err != nil {
		return err
	}
	after, err := cpuOf(w.ControlPlane)
	w.round.Values[figure] = float64(after-before) / float64(unit)
	return err
}

// peakOfProcess returns the most memory that was resident, in bytes.
func peakOfProcess() float64 {
	var usage syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &usage) // cannot fail for these arguments
	return float64(usage.Maxrss) * 1024                // Linux has kilobytes
}

// cpuOf returns the CPU time that processes have used, as Linux counts it.
func cpuOf(pids []int) (used time.Duration, err error) {
	const (
		tick = time.Second / 100 // of all platforms that Go runs on
		// The positions of both after the name, which ends with the last ")". See proc_pid_stat(5).
		utime, stime = 11, 12
	)
	for _, pid := range pids {
		content, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			return 0, fmt.Errorf("reading the CPU time of the control plane: %w", err)
		}
		fields := bytes.Fields(content[bytes.LastIndexByte(content, ')')+1:])
		for _, field := range [][]byte{fields[utime], fields[stime]} {
			ticks, err := strconv.ParseInt(string(field), 10, 64)
			if err != nil {
				return 0, fmt.Errorf("reading the CPU time of the control plane: %w", err)
			}
			used += time.Duration(ticks) * tick
		}
	}
	return used, nil
}
