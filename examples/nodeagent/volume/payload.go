// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
)

const (
	// Limits of Linux, NAME_MAX and PATH_MAX, in bytes. kubelet checks them too.
	maxNameLength = 255
	maxPathLength = 4096

	// maxDepth is how many folders deep a file may be in the volume. The API has no such limit, but every level is an
	// open folder while the volume is written.
	maxDepth = 64
)

// File is one file of a volume.
type File struct {
	// Data is the content. It is often memory of a shared API object: do not change it.
	Data []byte
	// Mode holds the permission bits, 0 to 0777. Other bits are an error, as in the API.
	Mode int32
	// Token means that Data is a token of the pod's service account: see Tree.Token.
	Token bool
}

// Payload holds the files of a volume by their slash-separated path relative to the volume. It is empty for an optional
// object that is absent.
type Payload map[string]File

// validate returns an error if the payload must not be written. It checks paths in order, so that a payload always has
// the same error.
func (p Payload) validate() error {
	for _, name := range slices.Sorted(maps.Keys(p)) {
		clean, err := cleanPath(name)
		if err != nil {
			return err
		}
		if clean != name {
			return fmt.Errorf("path %q is not in its clean form %q", name, clean)
		}
		if mode := p[name].Mode; mode&^int32(fs.ModePerm) != 0 {
			return fmt.Errorf("path %q has mode %#o: use permission bits only, 0 to 0777", name, mode)
		}
	}
	if file, below, ok := fileAndFolder(p); ok {
		return fmt.Errorf("path %q is both a file and a folder of %q: change one of them", file, below)
	}
	return nil
}

// fileAndFolder returns the first path that is a folder of another one, and the first such other path.
func fileAndFolder[V any](files map[string]V) (file, below string, ok bool) {
	for _, name := range slices.Sorted(maps.Keys(files)) {
		for parent := path.Dir(name); parent != "."; parent = path.Dir(parent) {
			if _, ok := files[parent]; ok {
				return parent, name, true
			}
		}
	}
	return "", "", false
}

// visible returns the names in the volume's folder: the first elements of the paths. Only these are links. Below them
// are plain files and folders.
func (p Payload) visible() map[string]bool {
	names := make(map[string]bool, len(p))
	for name := range p {
		first, _, _ := strings.Cut(name, "/")
		names[first] = true
	}
	return names
}

// folder holds files and subfolders by name.
type folder struct {
	files   map[string]File
	folders map[string]*folder
}

func newFolder() *folder { return &folder{files: map[string]File{}, folders: map[string]*folder{}} }

// tree returns the payload as a folder.
func (p Payload) tree() *folder {
	top := newFolder()
	for name, file := range p {
		in := top
		for {
			first, rest, nested := strings.Cut(name, "/")
			if !nested {
				break
			}
			if in.folders[first] == nil {
				in.folders[first] = newFolder()
			}
			in, name = in.folders[first], rest
		}
		in.files[name] = file
	}
	return top
}

// cleanPath returns the shortest form of a path, or an error if the path leaves the volume or is reserved.
// The rules are those of the API ("path" in core/v1 KeyToPath): a path is relative and has no "..", and its first
// element does not start with "..": this package uses such names itself.
func cleanPath(name string) (string, error) {
	err := checkPath(name)
	if err != nil {
		return "", fmt.Errorf("path %q %w", name, err)
	}
	return path.Clean(name), nil
}

// checkPath returns the first error of a path, as text that follows the path. For "/.." it is "is absolute".
func checkPath(name string) error {
	switch {
	case name == "":
		return errors.New("is empty: give a file name")
	case path.IsAbs(name):
		return errors.New("is absolute: it must be relative to the volume")
	case len(name) > maxPathLength:
		return fmt.Errorf("is longer than %d bytes", maxPathLength)
	case strings.ContainsRune(name, 0):
		return errors.New("contains a zero byte")
	}
	// Before path.Clean, which makes "b" of "a/../b": the API does not allow "..".
	for element := range strings.SplitSeq(name, "/") {
		if element == ".." {
			return errors.New(`contains "..": it must stay inside the volume`)
		}
		if len(element) > maxNameLength {
			return fmt.Errorf("has a name longer than %d bytes", maxNameLength)
		}
	}
	switch clean := path.Clean(name); {
	case clean == ".":
		return errors.New("names the volume itself: give a file name")
	case strings.HasPrefix(clean, ".."):
		return errors.New(`starts with "..": such names are reserved`)
	case strings.Count(clean, "/") > maxDepth:
		return fmt.Errorf("is more than %d folders deep", maxDepth)
	}
	return nil
}
