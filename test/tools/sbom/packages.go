// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
)

// goPackage and goModule have the fields of "go list -json" that a bill needs.
type goPackage struct {
	ImportPath string
	Standard   bool
	Module     *goModule
	Imports    []string
}

type goModule struct {
	Path, Version, Sum string
	Main               bool
	Replace            *goModule
}

// linkedPackages returns, by import path, the packages of the module in dir and all
// that they import, without the standard library. Packages under examples/ and test/
// are no part of what users link.
func linkedPackages(dir string) (map[string]*goPackage, error) {
	own, err := goList(dir, "./...")
	if err != nil {
		return nil, err
	}
	args := []string{"-deps"}
	for _, pkg := range own {
		rest := strings.TrimPrefix(pkg.ImportPath, pkg.Module.Path)
		if !strings.HasPrefix(rest, "/examples/") && !strings.HasPrefix(rest, "/test/") {
			args = append(args, pkg.ImportPath)
		}
	}
	linked, err := goList(dir, args...)
	if err != nil {
		return nil, err
	}
	packages := map[string]*goPackage{}
	for _, pkg := range linked {
		if !pkg.Standard {
			packages[pkg.ImportPath] = pkg
		}
	}
	return packages, nil
}

// goList lists packages as built for Linux, on every machine.
func goList(dir string, args ...string) ([]*goPackage, error) {
	list := exec.Command("go", append([]string{"list", "-json=ImportPath,Standard,Module,Imports"}, args...)...)
	list.Dir = dir
	list.Env = append(os.Environ(), "GOOS=linux", "GOARCH=amd64", "CGO_ENABLED=0", "GOWORK=off")
	output, err := list.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			return nil, fmt.Errorf("go list: %w: %s", err, exit.Stderr)
		}
		return nil, fmt.Errorf("go list: %w", err)
	}
	var packages []*goPackage
	for decoder := json.NewDecoder(strings.NewReader(string(output))); ; {
		pkg := &goPackage{}
		err := decoder.Decode(pkg)
		if errors.Is(err, io.EOF) {
			return packages, nil
		}
		if err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
		packages = append(packages, pkg)
	}
}
