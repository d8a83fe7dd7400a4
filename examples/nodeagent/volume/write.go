// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	dataLink = "..data"     // points to the version that readers see
	tempLink = "..data_tmp" // is renamed to dataLink or to a visible name

	// versionStamp is the time format at the start of a version's name. A random number after it makes it unique.
	versionStamp = "..2006_01_02_15_04_05."

	// volumeDirMode is the mode of a volume's folders. The mode of each file protects its content.
	volumeDirMode fs.FileMode = 0o755
)

// versionName matches the names of versions. The API reserves names that start with "..", so that nobody else uses
// them.
var versionName = regexp.MustCompile(`^\.\.\d{4}(_\d\d){5}\.\d+$`)

// write makes the folder of a volume hold the payload, and reports whether anything had to change.
//
// The old version is unchanged until dataLink is renamed, also after an error. Then the new version is complete. If a
// later step fails, the next call repairs it: it compares with what is on disk.
//
// write calls record with the name of a new version before readers can see it.
//
// Calls for one folder must not overlap. Readers may read at any time.
func write(dir *os.Root, payload Payload, record func(version string) error) (changed bool, err error) {
	if err := payload.validate(); err != nil {
		return false, err
	}
	version := currentVersion(dir)
	if version == "" || !holds(dir, version, payload) {
		if version, err = writeVersion(dir, payload); err != nil {
			return false, err
		}
		err := record(version)
		if err == nil {
			err = replaceLink(dir, dataLink, version)
		}
		if err != nil {
			return false, errors.Join(err, dir.RemoveAll(version))
		}
		changed = true
	}
	// As in kubelet, visible names are created after their data, and removed after it.
	visible := payload.visible()
	linked, linkErr := linkVisible(dir, visible)
	swept, sweepErr := sweep(dir, version, visible)
	return changed || linked || swept, errors.Join(linkErr, sweepErr)
}

// currentVersion returns the target of dataLink, or "" if it is not a version.
func currentVersion(dir *os.Root) string {
	target, err := dir.Readlink(dataLink)
	if err != nil || !versionName.MatchString(target) {
		return ""
	}
	// Lstat: a version must not be a link to another folder.
	if info, err := dir.Lstat(target); err != nil || !info.IsDir() {
		return ""
	}
	return target
}

// holds reports whether a version has exactly the files of the payload: paths, modes and contents. A version that
// cannot be read counts as different.
func holds(dir *os.Root, version string, payload Payload) bool {
	return payload.tree().isAt(dir, version)
}

// isAt reports whether the folder name in parent has the same content as f. It opens each folder in its parent: with
// paths from the top, the work would grow with the square of the depth.
func (f *folder) isAt(parent *os.Root, name string) bool {
	// The whole mode, which excludes links.
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

// writeVersion writes the payload into a new folder and returns its name. After an error it removes the folder; if that
// fails too, the next write removes it.
func writeVersion(dir *os.Root, payload Payload) (string, error) {
	name := time.Now().UTC().Format(versionStamp) + strconv.FormatUint(rand.Uint64(), 10)
	if err := payload.tree().create(dir, name); err != nil {
		return "", &versionError{errors.Join(err, dir.RemoveAll(name)), name}
	}
	return name, nil
}

// versionError is an error without the name of the new version in its text, so that each attempt has the same text.
type versionError struct {
	cause error
	name  string
}

func (e *versionError) Error() string {
	return strings.NewReplacer(e.name+"/", "", e.name, "the new version").Replace(e.cause.Error())
}

func (e *versionError) Unwrap() error { return e.cause }

// create creates the folder and its content. It sets modes with Chmod because the umask applies at creation. A folder
// is closed to other users until it is complete, so that they cannot plant a link for a Chmod to follow.
func (f *folder) create(parent *os.Root, name string) error {
	if err := parent.Mkdir(name, 0o700); err != nil {
		return err
	}
	dir, err := parent.OpenRoot(name)
	if err != nil {
		return err
	}
	defer release(dir)
	// In order, so that an error, of a full disk for instance, is always at the same file.
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
	// Only the owner can read the file until Chmod.
	f, err := dir.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(file.Data)
	return errors.Join(err, f.Chmod(fs.FileMode(file.Mode)), f.Close())
}

// linkVisible makes every visible name a link to its place below dataLink. It does not change links that are right. A
// file or a folder that another program has put at such a name is an error, and the other names become links.
func linkVisible(dir *os.Root, visible map[string]bool) (changed bool, err error) {
	var inTheWay []error
	for _, name := range slices.Sorted(maps.Keys(visible)) {
		target := path.Join(dataLink, name)
		if got, err := dir.Readlink(name); err == nil && got == target {
			continue
		}
		// As kubelet. A container may have a volume mounted on it, which no other mount namespace shows.
		if info, err := dir.Lstat(name); err == nil && info.Mode().Type() != fs.ModeSymlink {
			inTheWay = append(inTheWay, fmt.Errorf("%s is in the way of a file of the volume: remove it", filepath.Join(dir.Name(), name)))
			continue
		}
		if err := replaceLink(dir, name, target); err != nil {
			return changed, errors.Join(append(inTheWay, err)...)
		}
		changed = true
	}
	return changed, errors.Join(inTheWay...)
}

// replaceLink makes name a link to target in one step. A folder with the reserved name dataLink is removed first.
func replaceLink(dir *os.Root, name, target string) error {
	// A crash can leave the temporary link behind.
	if err := removeAll(dir, tempLink); err != nil {
		return err
	}
	if err := dir.Symlink(target, tempLink); err != nil {
		return err
	}
	if info, err := dir.Lstat(name); name == dataLink && err == nil && info.IsDir() {
		if err := removeAll(dir, name); err != nil {
			return err
		}
	}
	return dir.Rename(tempLink, name)
}

// sweep removes what write has created before and does not need any more: see written. What others have put into the
// folder stays, as with kubelet.
func sweep(dir *os.Root, version string, visible map[string]bool) (changed bool, err error) {
	entries, err := fs.ReadDir(dir.FS(), ".")
	if err != nil {
		return false, err
	}
	var errs []error
	for _, entry := range entries {
		name := entry.Name()
		if name == dataLink || name == version || visible[name] || !written(dir, entry) {
			continue
		}
		// Removes a link, not its target.
		errs = append(errs, removeAll(dir, name))
		changed = true
	}
	return changed, errors.Join(errs...)
}

// written reports whether an entry of a volume's folder is one that write creates: a version, the temporary link, or a
// link to its own name below dataLink. The name and the target say it, so that it holds also after a crash.
func written(dir *os.Root, entry fs.DirEntry) bool {
	name := entry.Name()
	if name == tempLink || entry.IsDir() && versionName.MatchString(name) {
		return true
	}
	target, err := dir.Readlink(name)
	return err == nil && target == path.Join(dataLink, name)
}
