// SPDX-License-Identifier: Apache-2.0

package tmpfs

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"

	"k8s.io/klog/v2"
)

const (
	// flags: the files of a volume are data, never programs or devices.
	flags = syscall.MS_NOSUID | syscall.MS_NODEV | syscall.MS_NOEXEC

	magic          = 0x01021994 // TMPFS_MAGIC of linux/magic.h
	umountNoFollow = 0x8        // UMOUNT_NOFOLLOW of linux/fs.h

	// bytesPerInode bounds the number of files: each takes memory beside its content.
	bytesPerInode = 1024
	minInodes     = 64
)

// logSwap logs once that the files of a tmpfs may be on a disk.
var logSwap = sync.OnceFunc(func() {
	klog.Background().Info("The files of volumes in memory may be swapped to a disk: the kernel refuses the option noswap of tmpfs, which needs Linux 6.4 and no user namespace")
})

// Mount mounts a tmpfs on an open folder. dir stays the folder below the mount: open its path again to see the mount.
// As in kubelet, the files are not swapped to disk if the kernel can prevent it (noswap, since Linux 6.4).
// If it cannot, the first Mount logs it.
func Mount(dir *os.File, options Options) error {
	// The folder that is open, wherever its path leads meanwhile.
	target := fmt.Sprintf("/proc/self/fd/%d", dir.Fd())
	data := fmt.Sprintf("mode=0755,size=%d,nr_inodes=%d", options.Size, max(options.Size/bytesPerInode, minInodes))
	err := syscall.Mount(Source, target, "tmpfs", flags, data+",noswap")
	if errors.Is(err, syscall.EINVAL) {
		if err = syscall.Mount(Source, target, "tmpfs", flags, data); err == nil {
			logSwap()
		}
	}
	switch {
	case errors.Is(err, syscall.EPERM):
		return fmt.Errorf("mounting a tmpfs on %s: %w: give the agent CAP_SYS_ADMIN, or turn tmpfs off", dir.Name(), err)
	case err != nil:
		return fmt.Errorf("mounting a tmpfs on %s: %w", dir.Name(), err)
	}
	return nil
}

// Mounted reports whether dir is the top of a tmpfs. parent is the folder that holds dir.
func Mounted(parent, dir *os.File) (bool, error) {
	var system syscall.Statfs_t
	var above, below syscall.Stat_t
	if err := errors.Join(
		syscall.Fstatfs(int(dir.Fd()), &system),
		syscall.Fstat(int(parent.Fd()), &above),
		syscall.Fstat(int(dir.Fd()), &below),
	); err != nil {
		return false, fmt.Errorf("looking for a tmpfs on %s: %w", dir.Name(), err)
	}
	// The parent may be on another tmpfs, such as /run.
	return int64(system.Type) == magic && above.Dev != below.Dev, nil
}

// Unmount unmounts what is mounted on a path. It fails while a process uses it.
func Unmount(path string) error {
	if err := syscall.Unmount(path, umountNoFollow); err != nil {
		return fmt.Errorf("unmounting %s: %w", path, err)
	}
	return nil
}
