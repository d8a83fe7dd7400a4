// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	modules "golang.org/x/mod/module"
)

// try builds a program that imports the packages of the released modules from the proxy, as a user's program does. What
// go keeps of the modules is removed: another commit may become the version.
func (r *release) try(source string) (err error) {
	folder, err := os.MkdirTemp("", "refwatch-user")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder), r.forget()) }()
	if err := r.forget(); err != nil { // of a run that was killed
		return err
	}
	mod, program := strings.Builder{}, strings.Builder{}
	mod.WriteString("module example.com/user\n\ngo 1.26.0\n\n")
	program.WriteString("package main\n\nimport (\n")
	for _, m := range r.modules {
		fmt.Fprintf(&mod, "require %s %s\n", m.path, r.version)
		packages, err := output(filepath.Join(source, m.folder), "go", "list", "-e", "./...")
		if err != nil {
			return err
		}
		for name := range strings.FieldsSeq(packages) {
			if r.isPublic(m, name) {
				fmt.Fprintf(&program, "\t_ %q\n", name)
			}
		}
	}
	program.WriteString(")\n\nfunc main() {}\n")
	for name, text := range map[string]string{"go.mod": mod.String(), "main.go": program.String()} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	fmt.Fprintf(r.out, "building a program with the modules of %s\n", filepath.Join(r.folder, "proxy"))
	return r.goUser(folder, "build", "-mod=mod", "-o", os.DevNull, ".")
}

// isPublic reports whether programs can import a package, and are meant to.
func (r *release) isPublic(m *module, name string) bool {
	below := strings.TrimPrefix(strings.TrimPrefix(name, m.path), "/") + "/"
	return !strings.HasPrefix(below, "test/") && !strings.HasPrefix(below, "examples/") && !strings.Contains("/"+below, "/internal/")
}

// goUser runs go as a user does when the version has been published.
func (r *release) goUser(folder string, args ...string) error {
	proxies, err := output(folder, "go", "env", "GOPROXY")
	if err != nil {
		return err
	}
	command := exec.Command("go", args...)
	command.Dir = folder
	var paths []string
	for _, m := range r.modules {
		paths = append(paths, m.path)
	}
	command.Env = append(os.Environ(), "GOWORK=off", "GONOSUMDB="+strings.Join(paths, ","), "GONOPROXY=none", "GOPRIVATE=",
		"GOPROXY=file://"+filepath.ToSlash(filepath.Join(r.folder, "proxy"))+","+proxies)
	// Without the go command's index of the module cache, which it keeps for ever, also after forget: it would have the
	// imports of another commit.
	command.Env = append(command.Env, "GODEBUG="+strings.TrimPrefix(os.Getenv("GODEBUG")+",goindex=0", ","))
	var all bytes.Buffer
	command.Stdout, command.Stderr = &all, &all
	if err := command.Run(); err != nil {
		return fmt.Errorf("a program that requires %s: go %s: %w\n%s", r.version, strings.Join(args, " "), err, &all)
	}
	return nil
}

// forget removes the version of the modules from the module cache.
func (r *release) forget() error {
	cache, err := output(r.root, "go", "env", "GOMODCACHE")
	if err != nil {
		return err
	}
	var errs []error
	for _, m := range r.modules {
		escaped, err := modules.EscapePath(m.path)
		if err != nil {
			return err
		}
		extracted := filepath.Join(cache, filepath.FromSlash(escaped)+"@"+r.version)
		errs = append(errs, makeWritable(extracted), os.RemoveAll(extracted))
		files, err := filepath.Glob(filepath.Join(cache, "cache", "download", filepath.FromSlash(escaped), "@v", r.version+".*"))
		if err != nil {
			return err
		}
		for _, file := range files {
			errs = append(errs, os.Remove(file))
		}
	}
	return errors.Join(errs...)
}

// makeWritable lets a module that go has extracted be removed.
func makeWritable(folder string) error {
	err := filepath.WalkDir(folder, func(name string, entry os.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return err
		}
		return os.Chmod(name, 0o755)
	})
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}
