// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/mod/modfile"
	modules "golang.org/x/mod/module"
	"golang.org/x/mod/sumdb/dirhash"
	"golang.org/x/mod/zip"
)

// module is a module that is released.
type module struct {
	folder string // below the root, with slashes; empty for the root
	path   string
	mod    []byte // go.mod
	sum    string // of the zip file, as in go.sum
	file   string // the zip file
}

// tag is the tag of a version, by which Go finds the module.
func (m *module) tag(version string) string { return path.Join(m.folder, version) }

// source returns a repository whose HEAD has modules that require each other in the version. In a dry run it is a
// clone, which cleanUp removes.
func (r *release) source(folders []string) (source string, cleanUp func(), err error) {
	if !r.dryRun {
		for _, folder := range folders {
			m := module{folder: path.Clean(filepath.ToSlash(folder))}
			if tag := m.tag(r.version); tagExists(r.root, tag) {
				return "", nil, fmt.Errorf("the tag %s exists: a version cannot be made twice", tag)
			}
		}
		return r.root, func() {}, nil
	}
	if source, err = os.MkdirTemp("", "refwatch-release"); err != nil {
		return "", nil, err
	}
	cleanUp = func() { _ = os.RemoveAll(source) }
	if err := r.prepare(source, folders); err != nil {
		cleanUp()
		return "", nil, err
	}
	return source, cleanUp, nil
}

func tagExists(root, tag string) bool {
	_, err := output(root, "git", "rev-parse", "-q", "--verify", "refs/tags/"+tag)
	return err == nil
}

// prepare makes a clone with a commit in which the modules require each other in the version.
func (r *release) prepare(clone string, folders []string) error {
	root, err := filepath.Abs(r.root)
	if err != nil {
		return err
	}
	if _, err := output(clone, "git", "clone", "-q", root, "."); err != nil {
		return err
	}
	var paths []string
	for _, folder := range folders {
		name, err := output(filepath.Join(clone, folder), "go", "list", "-m")
		if err != nil {
			return err
		}
		paths = append(paths, name)
	}
	for _, folder := range folders {
		file := filepath.Join(clone, folder, "go.mod")
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		parsed, err := modfile.Parse(file, text, nil)
		if err != nil {
			return err
		}
		for _, required := range parsed.Require {
			if slices.Contains(paths, required.Mod.Path) && required.Mod.Version != r.version {
				fmt.Fprintf(r.out, "to do before the release: in %s, go mod edit -require=%s@%s\n", folder, required.Mod.Path, r.version)
				if _, err := output(filepath.Dir(file), "go", "mod", "edit", "-require="+required.Mod.Path+"@"+r.version); err != nil {
					return err
				}
			}
		}
	}
	_, err = output(clone, "git", "-c", "user.name=release", "-c", "user.email=release@localhost", "-c", "commit.gpgSign=false",
		"-c", "core.hooksPath="+os.DevNull, "commit", "-q", "-a", "--allow-empty", "-m", r.version)
	return err
}

// readModules reads the go.mod of each module, and checks what it requires.
func (r *release) readModules(folders []string) func(string) error {
	return func(source string) error {
		for _, folder := range folders {
			m := &module{folder: strings.TrimPrefix(path.Clean(filepath.ToSlash(folder)), ".")}
			text, err := os.ReadFile(filepath.Join(source, folder, "go.mod"))
			if err != nil {
				return err
			}
			parsed, err := modfile.Parse(filepath.Join(folder, "go.mod"), text, nil)
			if err != nil {
				return err
			}
			m.path, m.mod = parsed.Module.Mod.Path, text
			for _, required := range parsed.Require {
				for _, other := range r.modules {
					if required.Mod.Path == other.path && required.Mod.Version != r.version {
						return fmt.Errorf("%s requires %s: run go mod edit -require=%s@%s in %s, go mod tidy, and commit",
							m.path, required.Mod, other.path, r.version, folder)
					}
				}
			}
			r.modules = append(r.modules, m)
		}
		return nil
	}
}

// writeProxy writes the files of a module proxy (https://go.dev/ref/mod#goproxy-protocol).
func (r *release) writeProxy(source string) error {
	seconds, err := output(r.root, "git", "log", "-1", "--format=%cI", r.commit)
	if err != nil {
		return err
	}
	at, err := time.Parse(time.RFC3339, seconds)
	if err != nil {
		return err
	}
	info, err := json.Marshal(map[string]any{"Version": r.version, "Time": at.UTC()})
	if err != nil {
		return err
	}
	for _, m := range r.modules {
		escaped, err := modules.EscapePath(m.path)
		if err != nil {
			return err
		}
		folder := filepath.Join(r.folder, "proxy", filepath.FromSlash(escaped), "@v")
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return err
		}
		for name, text := range map[string][]byte{"list": []byte(r.version + "\n"), r.version + ".info": info, r.version + ".mod": m.mod} {
			if err := os.WriteFile(filepath.Join(folder, name), text, 0o644); err != nil {
				return err
			}
		}
		m.file = filepath.Join(folder, r.version+".zip")
		if err := m.writeZip(source, r.version); err != nil {
			return fmt.Errorf("zip file of %s: %w", m.path, err)
		}
	}
	return nil
}

// writeZip writes the zip file of HEAD.
func (m *module) writeZip(source, version string) error {
	file, err := os.Create(m.file)
	if err != nil {
		return err
	}
	err = zip.CreateFromVCS(file, modules.Version{Path: m.path, Version: version}, source, "HEAD", m.folder)
	if err := errors.Join(err, file.Close()); err != nil {
		return err
	}
	m.sum, err = dirhash.HashZip(m.file, dirhash.Hash1)
	return err
}
