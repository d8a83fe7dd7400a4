// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// versionVariable is the environment variable that selects the minor version of the control plane.
const versionVariable = "KUBERNETES"

// versions are the values of the variable, and the versions of Kubernetes that they stand for. "" is that of
// controlplane/go.mod. A version beside it has no go.mod of its own: see [builder.modfile].
var versions = map[string]string{"": "", "1.36": "", "1.37": "v1.37.2"}

// selectedVersion returns the version of Kubernetes that the environment selects, "" for that of controlplane/go.mod.
func selectedVersion() (string, error) {
	minor := os.Getenv(versionVariable)
	version, ok := versions[minor]
	if !ok {
		known := slices.Sorted(maps.Keys(versions))[1:] // without ""
		return "", fmt.Errorf("%s=%s: there is no such control plane; set it to one of %s, or unset it",
			versionVariable, minor, strings.Join(known, ", "))
	}
	return version, nil
}

// modfile writes a go.mod for another version of Kubernetes into a folder, with its go.sum, and returns the flags that
// build with them. It differs from the module's own in the versions of Kubernetes and of the libraries that are
// released with it: v0.37.2 belongs to v1.37.2. The go command raises the other modules as Kubernetes requires, and
// completes both files.
func (b builder) modfile(dir, from, to string) ([]string, error) {
	library := func(version string) string { return "v0" + strings.TrimPrefix(version, "v1") }
	versions := strings.NewReplacer(" "+from, " "+to, " "+library(from), " "+library(to))
	for _, name := range moduleFiles {
		content, err := b.read(name)
		if err != nil {
			return nil, err
		}
		if name == "go.mod" {
			content = []byte(versions.Replace(string(content)))
		}
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o644); err != nil {
			return nil, fmt.Errorf("writing a go.mod for Kubernetes %s: %w", to, err)
		}
	}
	return []string{"-mod=mod", "-modfile=" + filepath.Join(dir, "go.mod")}, nil
}
