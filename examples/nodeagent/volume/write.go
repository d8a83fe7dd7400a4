// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"bytes"
	"errors"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	dataLink = "..data"     // points to the version that readers see
	tempLink = "..data_tmp" // becomes dataLink, or a visible name, in one rename

	// versionStamp is how the name of a version starts; a random number makes it unique.
	versionStamp = "..2006_01_02_15_04_05."

	// Folders of a volume are open to everybody: what a file holds is guarded by the mode of the file.
	volumeDirMode fs.FileMode = 0o755
)

// write makes the folder of a volume hold the payload, and reports whether anything had to change.
//
// Until the rename of dataLink the old version stays as it was, and an error leaves it so. After it the
// new version is complete; should a later step fail, the next call puts that right, for it looks at what
// is on disk and not at what an earlier call meant to do.
//
// Calls for one folder must not overlap. Readers may come at any moment.
func write(dir *os.Root, payload Payload) (changed bool, err error) {
	if err := payload.validate(); err != nil {
		return false, err
	}
	version := currentVersion(dir)
	if version == "" || !holds(dir, version, payload) {
		if version, err = writeVersion(dir, payload); err != nil {
			return false, err
		}
		if err := replaceLink(dir, dataLink, version); err != nil {
			return false, errors.Join(err, dir.RemoveAll(version))
		}
		changed = true
	}
	// Visible names come after the data they lead to, and go after it, as kubelet has it.
	visible := payload.visible()
	linked, linkErr := linkVisible(dir, visible)
	swept, sweepErr := sweep(dir, version, visible)
	return changed || linked || swept, errors.Join(linkErr, sweepErr)
}

// currentVersion returns the folder that dataLink names, or "" if there is none that write can have made.
func currentVersion(dir *os.Root) string {
	target, err := dir.Readlink(dataLink)
	if err != nil || !strings.HasPrefix(target, "..") || strings.Contains(target, "/") {
		return ""
	}
	// Lstat, for a link from version to version would make readers see what is not ours.
	if info, err := dir.Lstat(target); err != nil || !info.IsDir() || target == ".." {
		return ""
	}
	return target
}

// holds reports whether a version has exactly the files of the payload: paths, modes and contents. Whatever it
// cannot read counts as different, and is written anew.
func holds(dir *os.Root, version string, payload Payload) bool {
	return payload.tree().isAt(dir, version)
}

// isAt reports whether name in parent is this folder, and holds what it holds. Each folder is opened in the one
// above it, for to look up a path from the top is work for every folder on the way.
func (f *folder) isAt(parent *os.Root, name string) bool {
	// The whole mode: a link is never what was written.
	if info, err := parent.Lstat(name); err != nil || info.Mode() != fs.ModeDir|volumeDirMode {
		return false
	}
	dir, err := parent.OpenRoot(name)
	if err != nil {
		return false
	}
	defer release(dir)
	entries, err := fs.ReadDir(dir.FS(), ".")
	if err != nil || len(entries) != len(f.files)+len(f.folders) {
		return false
	}
	for _, entry := range entries {
		if below, ok := f.folders[entry.Name()]; ok {
			if !below.isAt(dir, entry.Name()) {
				return false
			}
			continue
		}
		want, ok := f.files[entry.Name()]
		if info, err := entry.Info(); !ok || err != nil || info.Mode() != fs.FileMode(want.Mode) {
			return false
		}
		if got, err := dir.ReadFile(entry.Name()); err != nil || !bytes.Equal(got, want.Data) {
			return false
		}
	}
	return true
}

// writeVersion writes the payload into a new folder and returns its name. On an error it removes what it
// wrote; if that fails too, the next write sweeps it away.
func writeVersion(dir *os.Root, payload Payload) (string, error) {
	name := time.Now().UTC().Format(versionStamp) + strconv.FormatUint(rand.Uint64(), 10)
	if err := payload.tree().create(dir, name); err != nil {
		return "", errors.Join(err, dir.RemoveAll(name))
	}
	return name, nil
}

// create makes the folder and all that it holds. Modes are set by Chmod, because the mode given at creation is
// subject to the process' umask. A folder is closed to others until it is complete, so that nobody can put a
// link in the way of a Chmod.
func (f *folder) create(parent *os.Root, name string) error {
	if err := parent.Mkdir(name, 0o700); err != nil {
		return err
	}
	dir, err := parent.OpenRoot(name)
	if err != nil {
		return err
	}
	defer release(dir)
	// In order, so that the same failure, of a full disk say, comes at the same file.
	for _, file := range slices.Sorted(maps.Keys(f.files)) {
		if err := writeFile(dir, file, f.files[file]); err != nil {
			return err
		}
	}
	for _, below := range slices.Sorted(maps.Keys(f.folders)) {
		if err := f.folders[below].create(dir, below); err != nil {
			return err
		}
	}
	return dir.Chmod(".", volumeDirMode)
}

// writeFile creates one file of a new version.
func writeFile(dir *os.Root, name string, file File) error {
	// Readable by the owner alone until it has the mode it is to have.
	f, err := dir.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(file.Data)
	return errors.Join(err, f.Chmod(fs.FileMode(file.Mode)), f.Close())
}

// linkVisible makes every visible name a link to its place below dataLink. Links that are right are left alone:
// an update that brings no new names touches dataLink only.
func linkVisible(dir *os.Root, visible map[string]bool) (changed bool, err error) {
	for _, name := range slices.Sorted(maps.Keys(visible)) {
		target := path.Join(dataLink, name)
		if got, err := dir.Readlink(name); err == nil && got == target {
			continue
		}
		if err := replaceLink(dir, name, target); err != nil {
			return changed, err
		}
		changed = true
	}
	return changed, nil
}

// replaceLink makes name a link to target in one step, whatever it was before. Only where a real folder
// stands in the way, which write never makes, there is a moment without either.
func replaceLink(dir *os.Root, name, target string) error {
	// A crash can leave the temporary link behind.
	if err := removeAll(dir, tempLink); err != nil {
		return err
	}
	if err := dir.Symlink(target, tempLink); err != nil {
		return err
	}
	if info, err := dir.Lstat(name); err == nil && info.IsDir() {
		if err := removeAll(dir, name); err != nil {
			return err
		}
	}
	return dir.Rename(tempLink, name)
}

// sweep removes all that is neither a visible name nor the current version: the version before, names that
// went with it, and what a crash or a stranger left.
func sweep(dir *os.Root, version string, visible map[string]bool) (changed bool, err error) {
	entries, err := fs.ReadDir(dir.FS(), ".")
	if err != nil {
		return false, err
	}
	var errs []error
	for _, entry := range entries {
		name := entry.Name()
		if name == dataLink || name == version || visible[name] {
			continue
		}
		// Of a link, this removes the link and not what it points to.
		errs = append(errs, removeAll(dir, name))
		changed = true
	}
	return changed, errors.Join(errs...)
}
