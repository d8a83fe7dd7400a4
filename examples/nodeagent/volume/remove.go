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

// removedPrefix begins the name that a pod's folder gets before it is emptied. No UID begins so.
const removedPrefix = ".removed-"

// Remove removes all that a pod has on disk, links and not what they lead to. It is not an error if there is
// nothing. A reader sees the whole folder or none: it is renamed before it is emptied.
//
// It is an error if something is mounted below, and then nothing is removed: it is not this package's to empty.
func (t *Tree) Remove(uid types.UID) error {
	if err := checkUID(uid); err != nil {
		return err
	}
	name := string(uid)
	// What a removal that was cut short has left.
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
	// Where it cannot be renamed, for a full disk may have no room for the new name, it is removed all the same.
	return removeAll(t.pods, name)
}

// removeAll removes a name and all below it, unless something is mounted there: then nothing.
func removeAll(parent *os.Root, name string) error {
	if err := checkNotMounted(parent, name); err != nil {
		return err
	}
	return parent.RemoveAll(name)
}

// checkNotMounted fails if something is mounted on the folder name or below it. On a system without Linux' list of
// mounts it finds none.
func checkNotMounted(parent *os.Root, name string) error {
	if info, err := parent.Lstat(name); err != nil || !info.IsDir() {
		return nil // nothing can be mounted below; the caller finds out what is wrong, if anything
	}
	// A bind mount of the same file system has the device number of the folder around it, so only the list knows.
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

// octal is how the list of mounts writes a space, a tab, a newline or a backslash.
var octal = regexp.MustCompile(`\\[0-7]{3}`)

func unescape(path string) string {
	return octal.ReplaceAllStringFunc(path, func(code string) string {
		char, _ := strconv.ParseUint(code[1:], 8, 8)
		return string([]byte{byte(char)})
	})
}
