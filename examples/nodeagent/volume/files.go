// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"fmt"
	"slices"
	"strings"
)

// Conflict names two sources of a volume with paths in common. The later source has the files at these paths, as with
// kubelet. It has them also if it is a token that the agent may not request: then there is no file.
type Conflict struct {
	// Earlier and Later name the sources, such as `secret "shop/tls"` or `configmap "shop/app", key "mode"`.
	Earlier, Later string
	// Paths are the paths in common, in their clean form.
	Paths []string
}

// String names the sources and the first paths.
func (c Conflict) String() string {
	const most = 3
	paths := make([]string, 0, most)
	for _, path := range c.Paths[:min(most, len(c.Paths))] {
		paths = append(paths, fmt.Sprintf("%q", path))
	}
	more := ""
	if len(c.Paths) > most {
		more = fmt.Sprintf(" and %d more", len(c.Paths)-most)
	}
	return fmt.Sprintf("two sources have the path %s%s: %s replaces %s", strings.Join(paths, ", "), more, c.Later, c.Earlier)
}

// files collects the files of a volume, and records which source each path belongs to.
type files struct {
	payload   Payload
	leftOut   []LeftOut
	conflicts []Conflict
	from      map[string]string // the name of the source by path, also for tokens that are left out
}

// built returns what was collected.
func (f *files) built() Built { return Built{f.payload, f.leftOut, f.conflicts} }

// set adds the file of a source at the clean form of name: "./a//b" is "a/b". It replaces the file of an earlier
// source.
func (f *files) set(name, source string, file File) error {
	clean, err := cleanPath(name)
	if err != nil {
		return err
	}
	f.take(clean, source)
	f.payload[clean] = file
	return nil
}

// leaveOut notes that the path belongs to a token, and has no file.
func (f *files) leaveOut(token LeftOut, source string) {
	f.take(token.Path, source)
	f.leftOut = append(f.leftOut, token)
}

// take gives a path to a source. It removes what an earlier source has there.
func (f *files) take(path, source string) {
	earlier, taken := f.from[path]
	f.from[path] = source
	if !taken {
		return
	}
	delete(f.payload, path)
	f.leftOut = slices.DeleteFunc(f.leftOut, func(l LeftOut) bool { return l.Path == path })
	for i := range f.conflicts {
		if c := &f.conflicts[i]; c.Earlier == earlier && c.Later == source {
			c.Paths = append(c.Paths, path)
			return
		}
	}
	f.conflicts = append(f.conflicts, Conflict{Earlier: earlier, Later: source, Paths: []string{path}})
}

// checkFolders returns an error if a source has a file where another one has a folder. A token that is left out counts:
// else the volume would fail once the agent may request it.
func (f *files) checkFolders() error {
	file, below, ok := fileAndFolder(f.from)
	if !ok {
		return nil
	}
	return fmt.Errorf("path %q is both a file and a folder of %q: change one of them; the file is from %s, the folder from %s",
		file, below, f.from[file], f.from[below])
}
