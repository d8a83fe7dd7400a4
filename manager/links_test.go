// SPDX-License-Identifier: Apache-2.0

package manager_test

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// A program that imports manager links only the modules that client-go links.
func TestLinksOnlyClientGo(t *testing.T) {
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("no go command: ", err)
	}
	const own, client = "github.com/refwatch/refwatch", "k8s.io/client-go/"
	clientGo := modules(t, client+"kubernetes", client+"tools/cache")
	for _, module := range modules(t, own+"/manager") {
		if module != own && !slices.Contains(clientGo, module) {
			t.Errorf("module %s: got linked, want only what client-go links", module)
		}
	}
}

// A program that imports manager links none of the packages below it.
func TestLinksNoSubpackages(t *testing.T) {
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("no go command: ", err)
	}
	const manager, listers = "github.com/refwatch/refwatch/manager", "k8s.io/client-go/listers"
	for _, linked := range list(t, "{{.ImportPath}}", manager) {
		if strings.HasPrefix(linked, manager+"/") || strings.HasPrefix(linked, listers) {
			t.Errorf("package %s: got linked by manager, want it to be linked by its users only", linked)
		}
	}
}

// modules returns the modules of packages and of all that they import.
func modules(t *testing.T, packages ...string) []string {
	t.Helper()
	return list(t, "{{with .Module}}{{.Path}}{{end}}", packages...)
}

// list returns the distinct lines that "go list" prints for packages and all that they
// import.
func list(t *testing.T, format string, packages ...string) []string {
	t.Helper()
	args := append([]string{"list", "-deps", "-f", format}, packages...)
	out, err := exec.CommandContext(t.Context(), "go", args...).Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	found := strings.Fields(string(out))
	slices.Sort(found)
	return slices.Compact(found)
}
