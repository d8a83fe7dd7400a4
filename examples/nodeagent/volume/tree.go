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
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/refwatch/refwatch/examples/nodeagent/tmpfs"
)

const (
	podsDir    = "pods"
	volumesDir = "volumes"

	// podDirMode is the mode of the folders above volumes. If other users could enter them, they could read every
	// secret volume of mode 0644. kubelet's are open to the group, 0750.
	podDirMode fs.FileMode = 0o700

	// ownerFile marks a root folder of this package. Open refuses a folder that has pods and no mark: the agent would
	// remove them, and kubelet's root folder has the same layout.
	ownerFile = ".refwatch-nodeagent"
	ownerText = "This folder belongs to the refwatch node agent, which removes unknown folders from pods/.\n"
)

// podUID matches the UIDs that may name a folder. API servers use UUIDs, and kubelet uses hashes for static pods. The
// pattern allows more, but no separator, leading dot or control character. The length leaves room for removedPrefix.
var podUID = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,245}$`)

// Tree is the root folder of all volumes of a node. Its methods may be called concurrently for different volumes. Calls
// for one volume must not overlap, nor calls for a pod with its Remove.
type Tree struct {
	root string   // as given, for Path
	pods *os.Root // operations cannot leave the folder
}

// Open returns the tree at root. It creates the folder if it does not exist. It returns an error if the folder cannot
// be created or marked, or if it holds the pods of another program. The caller closes the tree.
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

// claim marks the folder, or returns an error if it belongs to another program. It writes nothing if the mark is there:
// on a full disk the agent must start, to remove the folders of deleted pods.
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

// Close closes the tree. The files stay.
func (t *Tree) Close() error { return t.pods.Close() }

// Path returns the folder of a volume, for logs and readers.
func (t *Tree) Path(uid types.UID, volume string) string {
	return filepath.Join(t.root, podsDir, string(uid), volumesDir, volume)
}

// Write makes a volume hold the payload and reports whether it changed anything on disk. After an error readers still
// see the version before. See the package comment for the layout.
func (t *Tree) Write(uid types.UID, volume string, payload Payload) (changed bool, err error) {
	return t.write(uid, volume, payload, nil)
}

// WriteInMemory is like [Tree.Write], but mounts a tmpfs on the volume's folder if there is none. A tmpfs of an earlier
// process is used as it is. When a volume moves into memory, its files are absent for a moment. Remove unmounts it.
func (t *Tree) WriteInMemory(uid types.UID, volume string, payload Payload, options tmpfs.Options) (changed bool, err error) {
	return t.write(uid, volume, payload, &options)
}

func (t *Tree) write(uid types.UID, volume string, payload Payload, memory *tmpfs.Options) (changed bool, err error) {
	if err := checkUID(uid); err != nil {
		return false, err
	}
	if problems := validation.IsDNS1123Label(volume); len(problems) > 0 {
		return false, fmt.Errorf("volume name %q is not valid: %s", volume, strings.Join(problems, "; "))
	}
	// Before the first folder: an invalid payload must not create any.
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
	if memory != nil {
		if err := mountTmpfs(volumes, volume, *memory); err != nil {
			return false, err
		}
	}
	dir, err := openDir(volumes, volume, volumeDirMode)
	if err != nil {
		return false, err
	}
	defer release(dir)
	return write(dir, payload, func(version string) error { return recordTokens(pod, dir, volume, version, payload) })
}

// Pods returns the UIDs of the pods that have a folder, in order. They include pods whose removal was interrupted.
// Other names are ignored.
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

// checkUID returns an error if a UID cannot be the name of a folder.
func checkUID(uid types.UID) error {
	if !podUID.MatchString(string(uid)) {
		return fmt.Errorf("pod UID %q cannot name a folder: it must match %s", uid, podUID)
	}
	return nil
}

// openDir opens the folder name in parent, creates it if it does not exist, and sets its mode, whatever the umask. It
// does not follow a link: os.Root follows links inside the root, so that a link could lead to another pod's volume.
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
	// The name may have been replaced by a link after Lstat: both must be the same folder.
	opened, err := dir.Stat(".")
	if err != nil || !os.SameFile(before, opened) {
		return nil, errors.Join(err, dir.Close(), fmt.Errorf("%s is not a plain folder: remove it", filepath.Join(parent.Name(), name)))
	}
	// Also for an existing folder: a process may have been killed after Mkdir.
	if opened.Mode().Perm() != mode {
		if err := dir.Chmod(".", mode); err != nil {
			return nil, errors.Join(err, dir.Close())
		}
	}
	return dir, nil
}

// release closes a folder. Its error does not matter: no data was written through it.
func release(dir *os.Root) { _ = dir.Close() }
