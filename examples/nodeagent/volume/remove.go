// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// removedPrefix is the prefix of a pod's folder that is being removed. No UID starts with it.
const removedPrefix = ".removed-"

// Remove removes the folder of a pod. It does not follow links. It returns nil if there is no folder. The folder is
// renamed before it is emptied, so that a reader sees all of it or nothing.
//
// If something is mounted below, Remove returns an error and removes nothing.
func (t *Tree) Remove(uid types.UID) error {
	if err := checkUID(uid); err != nil {
		return err
	}
	name := string(uid)
	// An earlier removal may have been interrupted.
	if err := removeAll(t.pods, removedPrefix+name); err != nil {
		return err
	}
	if err := checkNotMounted(t.pods, name); err != nil {
		return err
	}
	switch err := t.pods.Rename(name, removedPrefix+name); {
	case err == nil:
		name = removedPrefix + name
	case errors.Is(err, fs.ErrNotExist):
		return nil
	}
	// Remove it also if the rename failed: a full disk may have no room for the new name.
	return removeAll(t.pods, name)
}

// removeAll removes a name and everything below it. If something is mounted there, it removes nothing and returns an
// error.
func removeAll(parent *os.Root, name string) error {
	if err := checkNotMounted(parent, name); err != nil {
		return err
	}
	return parent.RemoveAll(name)
}

// checkNotMounted returns an error if something is mounted on the folder name or below it. It returns nil on a system
// without /proc/self/mountinfo.
func checkNotMounted(parent *os.Root, name string) error {
	if info, err := parent.Lstat(name); err != nil || !info.IsDir() {
		return nil // no folder, so no mount; the caller returns other errors
	}
	// A bind mount of the same file system has the device number of its parent folder: only this list shows it.
	list, err := os.ReadFile("/proc/self/mountinfo")
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("looking for mounts: %w", err)
	}
	dir, err := filepath.Abs(parent.Name())
	if err != nil {
		return err
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return err
	}
	folder := filepath.Join(dir, name)
	for line := range strings.Lines(string(list)) {
		// The fifth field, see proc_pid_mountinfo(5).
		fields := strings.Fields(line)
		if len(fields) < 5 {
			continue
		}
		if point := unescape(fields[4]); point == folder || strings.HasPrefix(point, folder+"/") {
			return fmt.Errorf("%s is mounted: unmount it, so that %s can be removed", point, folder)
		}
	}
	return nil
}

// octal matches the escape of a space, a tab, a newline or a backslash in mountinfo.
var octal = regexp.MustCompile(`\\[0-7]{3}`)

func unescape(path string) string {
	return octal.ReplaceAllStringFunc(path, func(code string) string {
		char, _ := strconv.ParseUint(code[1:], 8, 8)
		return string([]byte{byte(char)})
	})
}
