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
	// Limits of Linux, which kubelet checks too: NAME_MAX and PATH_MAX, in bytes.
	maxNameLength = 255
	maxPathLength = 4096

	// maxDepth is how many folders a file may be below the volume. The API has no such bound, and thousands would
	// take as many open folders at a time.
	maxDepth = 64
)

// File is one file of a volume.
type File struct {
	// Data is the content. It is often the very memory of a shared API object: never write to it.
	Data []byte
	// Mode holds the permission bits, 0 to 0777. Other bits are refused, as the API refuses them.
	Mode int32
}

// Payload is all that a volume holds: files by their slash-separated path relative to the volume.
// The empty payload is valid, and is what an optional object that is absent gives.
type Payload map[string]File

// set adds a file under the clean form of name ("./a//b" is "a/b"), replacing one of the same path.
func (p Payload) set(name string, file File) error {
	clean, err := cleanPath(name)
	if err != nil {
		return err
	}
	p[clean] = file
	return nil
}

// validate refuses whatever must not reach the disk. It looks at paths in order, so that the same payload
// always gives the same error.
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
		for parent := path.Dir(name); parent != "."; parent = path.Dir(parent) {
			if _, ok := p[parent]; ok {
				return fmt.Errorf("path %q is to be a file, and a folder for %q as well: change one of them", parent, name)
			}
		}
	}
	return nil
}

// visible returns the names that a user of the volume sees at its top: first elements of the paths. Only these
// are links. Below them are real files and folders, for one link is enough to lead into another version.
func (p Payload) visible() map[string]bool {
	names := make(map[string]bool, len(p))
	for name := range p {
		first, _, _ := strings.Cut(name, "/")
		names[first] = true
	}
	return names
}

// folder is a payload as folders and files by their names in it.
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

// cleanPath returns the shortest form of a path that stays inside the volume, and an error for any other.
// The rules are those of the API ("path" in core/v1 KeyToPath): relative, no "..", and no name at the top
// that starts with "..", for those are this package's own.
func cleanPath(name string) (string, error) {
	err := checkPath(name)
	if err != nil {
		return "", fmt.Errorf("path %q %w", name, err)
	}
	return path.Clean(name), nil
}

// checkPath says what is wrong with a path, to be read after the path itself. The order matters where two
// things are wrong: "/.." is told to be absolute.
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
	// Before it is cleaned, which would take "a/../b" for "b". The API refuses it, so nobody may rely on it.
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
