// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"errors"
	"io/fs"
	"os"

	"k8s.io/apimachinery/pkg/types"
)

// removedPrefix is the prefix of a pod's folder that is being removed. No UID starts with it.
const removedPrefix = ".removed-"

// Remove removes the folder of a pod. It does not follow links. It returns nil if there is no folder. The folder is
// renamed before it is emptied, so that a reader sees all of it or nothing. Volumes in memory are unmounted before
// that, one after the other.
//
// If something else is mounted below, Remove returns an error and removes nothing from the disk.
func (t *Tree) Remove(uid types.UID) error {
	if err := checkUID(uid); err != nil {
		return err
	}
	name := string(uid)
	// An earlier removal may have been interrupted.
	if err := removeAll(t.pods, removedPrefix+name); err != nil {
		return err
	}
	if err := unmount(t.pods, name); err != nil {
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
