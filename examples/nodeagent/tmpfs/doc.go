// SPDX-License-Identifier: Apache-2.0

// Package tmpfs mounts file systems in memory on folders, so that secrets are not written to a disk.
//
// It needs Linux and CAP_SYS_ADMIN. On other systems its functions return an error.
package tmpfs

// Source marks the mounts of this package in the list of mounts, /proc/self/mountinfo.
const Source = "refwatch-nodeagent"

// Options configures a mount.
type Options struct {
	// Size is the most that all files of the mount may hold, in bytes. Required.
	Size int64
}
