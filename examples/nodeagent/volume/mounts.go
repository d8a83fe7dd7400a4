// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/refwatch/refwatch/examples/nodeagent/tmpfs"
)

// mount is a line of /proc/self/mountinfo.
type mount struct {
	point  string // where it is mounted
	source string // what is mounted; of a tmpfs, any text
}

// mountsBelow returns what is mounted on the folder name and below it, in the order of mounting, and the folder's path.
// It returns nothing on a system without /proc/self/mountinfo.
func mountsBelow(parent *os.Root, name string) (mounts []mount, folder string, err error) {
	if info, err := parent.Lstat(name); err != nil || !info.IsDir() {
		return nil, "", nil // no folder, so no mount; the caller returns other errors
	}
	// A bind mount of the same file system has the device number of its parent folder: only this list shows it.
	list, err := os.ReadFile("/proc/self/mountinfo")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, "", nil
	}
	if err != nil {
		return nil, "", fmt.Errorf("looking for mounts: %w", err)
	}
	dir, err := filepath.Abs(parent.Name())
	if err != nil {
		return nil, "", err
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return nil, "", err
	}
	folder = filepath.Join(dir, name)
	for line := range strings.Lines(string(list)) {
		m, ok := parseMount(line)
		if ok && (m.point == folder || strings.HasPrefix(m.point, folder+"/")) {
			mounts = append(mounts, m)
		}
	}
	return mounts, folder, nil
}

// parseMount returns the fifth field of a line, and the second after the separator: see proc_pid_mountinfo(5).
func parseMount(line string) (mount, bool) {
	before, after, _ := strings.Cut(line, " - ")
	fields, system := strings.Fields(before), strings.Fields(after)
	if len(fields) < 5 || len(system) < 2 {
		return mount{}, false
	}
	return mount{point: unescape(fields[4]), source: unescape(system[1])}, true
}

// octal matches the escape of a space, a tab, a newline or a backslash in mountinfo.
var octal = regexp.MustCompile(`\\[0-7]{3}`)

func unescape(path string) string {
	return octal.ReplaceAllStringFunc(path, func(code string) string {
		char, _ := strconv.ParseUint(code[1:], 8, 8)
		return string([]byte{byte(char)})
	})
}

// checkNotMounted returns an error if something is mounted on the folder name or below it.
func checkNotMounted(parent *os.Root, name string) error {
	mounts, folder, err := mountsBelow(parent, name)
	if err != nil || len(mounts) == 0 {
		return err
	}
	return fmt.Errorf("%s is mounted: unmount it, so that %s can be removed", mounts[0].point, folder)
}

// unmount unmounts each tmpfs of this agent on the folder name and below it, also those of an earlier process. It
// leaves other mounts alone.
func unmount(parent *os.Root, name string) error {
	mounts, _, err := mountsBelow(parent, name)
	if err != nil {
		return err
	}
	var errs []error
	for _, m := range slices.Backward(mounts) { // the last one may be on top of another
		if m.source == tmpfs.Source {
			errs = append(errs, tmpfs.Unmount(m.point))
		}
	}
	return errors.Join(errs...)
}

// mountTmpfs mounts a tmpfs on the folder name, unless one is mounted. It first removes the files that Write has put
// there: they are secret, and the mount would only hide them. What others have put there is hidden, and not removed.
func mountTmpfs(parent *os.Root, name string, options tmpfs.Options) error {
	dir, err := openDir(parent, name, volumeDirMode)
	if err != nil {
		return err
	}
	defer release(dir)
	above, err := parent.Open(".")
	if err != nil {
		return err
	}
	defer above.Close() //nolint:errcheck // no data was written through it
	folder, err := dir.Open(".")
	if err != nil {
		return err
	}
	defer folder.Close() //nolint:errcheck // no data was written through it
	if mounted, err := tmpfs.Mounted(above, folder); err != nil || mounted {
		return err
	}
	if err := removeAll(dir, dataLink); err != nil {
		return err
	}
	if _, err := sweep(dir, "", nil); err != nil {
		return err
	}
	return tmpfs.Mount(folder, options)
}
