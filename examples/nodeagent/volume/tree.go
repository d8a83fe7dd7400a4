// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
)

const (
	podsDir    = "pods"
	volumesDir = "volumes"

	// Folders above volumes are closed to others, as kubelet's are. With them open, everybody on the node
	// could read every secret volume of mode 0644.
	podDirMode fs.FileMode = 0o750

	// ownerFile marks a root folder as one of ours. Open refuses a folder that has pods in it without the
	// mark, for leftovers are removed, and kubelet's own root folder has the same layout.
	ownerFile = ".refwatch-nodeagent"
	ownerText = "This folder belongs to the refwatch node agent, which removes from pods/ whatever it does not know.\n"
)

// podUID is what a pod's UID must look like to name a folder. An API server gives UUIDs and kubelet gives
// hashes to static pods; the rule is wider, yet has no separator, no leading dot and no control character. The
// length leaves room for removedPrefix.
var podUID = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,245}$`)

// Tree is the root folder under which all volumes of a node live. Different volumes may be used at the
// same time; calls that concern one volume, or a pod and its removal, must not overlap.
type Tree struct {
	root string   // as it was given, for paths that people read
	pods *os.Root // nothing that is done through it can leave the folder
}

// Open returns the tree at root. It creates the folder if need be, and fails if a new one cannot be written or
// if it holds the pods of some other program. The caller closes the tree.
func Open(root string) (*Tree, error) {
	if root == "" {
		return nil, errors.New("the root folder has no name")
	}
	if err := os.MkdirAll(root, podDirMode); err != nil {
		return nil, fmt.Errorf("creating the root folder: %w", err)
	}
	dir, err := os.OpenRoot(root)
	if err != nil {
		return nil, fmt.Errorf("opening the root folder: %w", err)
	}
	defer release(dir)
	if err := claim(dir, root); err != nil {
		return nil, err
	}
	pods, err := openDir(dir, podsDir, podDirMode)
	if err != nil {
		return nil, fmt.Errorf("opening the folder of pods in %s: %w", root, err)
	}
	return &Tree{root: root, pods: pods}, nil
}

// claim puts the owner's mark into the folder, or refuses a folder of somebody else. Where the mark is, nothing is
// written: the disk may be full, and an agent that does not start cannot remove what fills it.
func claim(dir *os.Root, root string) error {
	if _, err := dir.Lstat(ownerFile); err == nil {
		return nil
	}
	if _, err := dir.Lstat(podsDir); err == nil {
		return fmt.Errorf("the root folder %s has pods of another program in it: choose an empty folder", root)
	}
	temp := ownerFile + ".tmp"
	if err := dir.WriteFile(temp, []byte(ownerText), 0o644); err != nil {
		return fmt.Errorf("the root folder %s cannot be written: %w", root, err)
	}
	if err := dir.Rename(temp, ownerFile); err != nil {
		return fmt.Errorf("the root folder %s cannot be written: %w", root, err)
	}
	return nil
}

// Close releases the tree. Files stay.
func (t *Tree) Close() error { return t.pods.Close() }

// Path returns where a volume lives, for people and logs.
func (t *Tree) Path(uid types.UID, volume string) string {
	return filepath.Join(t.root, podsDir, string(uid), volumesDir, volume)
}

// Write makes a volume hold the payload and reports whether that changed anything on disk. On an error
// readers go on seeing the version they saw. See the package comment for how it is laid out.
func (t *Tree) Write(uid types.UID, volume string, payload Payload) (changed bool, err error) {
	if err := checkUID(uid); err != nil {
		return false, err
	}
	if problems := validation.IsDNS1123Label(volume); len(problems) > 0 {
		return false, fmt.Errorf("volume name %q is not valid: %s", volume, strings.Join(problems, "; "))
	}
	// Before the first folder: a payload that is refused leaves no trace.
	if err := payload.validate(); err != nil {
		return false, err
	}
	pod, err := openDir(t.pods, string(uid), podDirMode)
	if err != nil {
		return false, err
	}
	defer release(pod)
	volumes, err := openDir(pod, volumesDir, podDirMode)
	if err != nil {
		return false, err
	}
	defer release(volumes)
	dir, err := openDir(volumes, volume, volumeDirMode)
	if err != nil {
		return false, err
	}
	defer release(dir)
	return write(dir, payload)
}

// Has reports whether a volume has a file, by its path in a payload.
func (t *Tree) Has(uid types.UID, volume, file string) bool {
	if checkUID(uid) != nil {
		return false
	}
	_, err := t.pods.Lstat(path.Join(string(uid), volumesDir, volume, dataLink, file))
	return err == nil
}

// Pods returns the UIDs of the pods that have something on disk, in order, also those whose removal was cut short.
// What cannot be a pod's folder is left out.
func (t *Tree) Pods() ([]types.UID, error) {
	entries, err := fs.ReadDir(t.pods.FS(), ".")
	if err != nil {
		return nil, fmt.Errorf("reading the folder of pods: %w", err)
	}
	var uids []types.UID
	for _, entry := range entries {
		if uid := types.UID(strings.TrimPrefix(entry.Name(), removedPrefix)); entry.IsDir() && checkUID(uid) == nil {
			uids = append(uids, uid)
		}
	}
	slices.Sort(uids)
	return slices.Compact(uids), nil
}

// checkUID refuses a UID that could name anything but a folder directly below that of all pods.
func checkUID(uid types.UID) error {
	if !podUID.MatchString(string(uid)) {
		return fmt.Errorf("pod UID %q cannot name a folder: it must match %s", uid, podUID)
	}
	return nil
}

// openDir opens the folder name in parent, creates it if it is not there, and gives it the mode, whatever the umask.
// It does not follow a link: os.Root would, as long as the link stays inside, and a volume could then be led into
// another pod's.
func openDir(parent *os.Root, name string, mode fs.FileMode) (*os.Root, error) {
	if err := parent.Mkdir(name, mode); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	before, err := parent.Lstat(name)
	if err != nil {
		return nil, err
	}
	dir, err := parent.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	// What was opened must be the folder that stands there, not what a link put there meanwhile leads to.
	opened, err := dir.Stat(".")
	if err != nil || !os.SameFile(before, opened) {
		return nil, errors.Join(err, dir.Close(), fmt.Errorf("%s is not a plain folder: remove it", filepath.Join(parent.Name(), name)))
	}
	// Not only if it is new: a run may have been killed between making it and this.
	if opened.Mode().Perm() != mode {
		if err := dir.Chmod(".", mode); err != nil {
			return nil, errors.Join(err, dir.Close())
		}
	}
	return dir, nil
}

// release closes the handle of a folder. No data goes through it, so there is nothing that could fail.
func release(dir *os.Root) { _ = dir.Close() }
