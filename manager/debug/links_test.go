// SPDX-License-Identifier: Apache-2.0

package debug_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A program that serves the page is at most 2 MB larger than one that does not. html/template, which calls methods by
// their names, would make the linker keep all of them: 26 MB.
func TestPageIsSmall(t *testing.T) {
	if testing.Short() {
		t.Skip("builds two programs: not with -short")
	}
	size := func(tags string) int64 {
		program := filepath.Join(t.TempDir(), "program")
		if out, err := command(t, "build", "-tags", tags, "-o", program, "./testdata/program").CombinedOutput(); err != nil {
			t.Fatalf("go build: %v\n%s", err, out)
		}
		file, err := os.Stat(program)
		if err != nil {
			t.Fatal(err)
		}
		return file.Size()
	}
	const limit = 2_000_000
	without, with := size(""), size("page")
	if with-without > limit {
		t.Errorf("the page adds %d bytes to a program of %d, want at most %d", with-without, without, limit)
	}
	t.Logf("the page adds %d bytes to a program of %d", with-without, without)
}

// The page links the modules of client-go, and one that writes HTML. It links no package that serves pages of its own
// by being imported.
func TestLinksOneModuleMore(t *testing.T) {
	const own, client = "github.com/refwatch/refwatch", "k8s.io/client-go/"
	const module, standard = "{{with .Module}}{{.Path}}{{end}}", "{{if .Standard}}{{.ImportPath}}{{end}}"
	known := append(list(t, module, client+"kubernetes", client+"tools/cache"), own, "maragu.dev/gomponents")
	for _, got := range list(t, module, own+"/manager/debug") {
		if !slices.Contains(known, got) {
			t.Errorf("module %s: got linked, want only those of client-go, and maragu.dev/gomponents", got)
		}
	}
	for _, got := range list(t, standard, own+"/manager/debug") {
		if got == "net/http/pprof" || got == "expvar" {
			t.Errorf("package %s: got linked, want that importing the page serves nothing else", got)
		}
	}
}

// list returns the distinct lines that "go list" prints for packages and all that they import.
func list(t *testing.T, format string, packages ...string) []string {
	t.Helper()
	out, err := command(t, append([]string{"list", "-deps", "-f", format}, packages...)...).Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	found := strings.Fields(string(out))
	slices.Sort(found)
	return slices.Compact(found)
}

// command returns a command of the go program. It skips the test if there is none.
func command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("no go command: ", err)
	}
	return exec.CommandContext(t.Context(), "go", args...)
}
