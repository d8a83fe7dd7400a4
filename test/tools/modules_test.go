// SPDX-License-Identifier: Apache-2.0

package tools_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/semver"
)

const root = "../.."

// modules returns the go.mod of each module of the repository, by path.
func modules(t *testing.T) map[string]*modfile.File {
	t.Helper()
	list := exec.CommandContext(t.Context(), "git", "ls-files", "-co", "--exclude-standard", "--", "*go.mod")
	list.Dir = root
	output, err := list.Output()
	if err != nil {
		t.Fatalf("git ls-files: %v", err)
	}
	files := map[string]*modfile.File{}
	for _, path := range strings.Fields(string(output)) {
		text, err := os.ReadFile(filepath.Join(root, path))
		if err != nil {
			t.Fatal(err)
		}
		file, err := modfile.Parse(path, text, nil)
		if err != nil {
			t.Fatal(err)
		}
		files[path] = file
	}
	if files["go.mod"] == nil || len(files) < 2 {
		t.Fatalf("modules of the repository: got %d, want that at the root and others", len(files))
	}
	return files
}

// All modules support the same versions of Go. The file .go-version alone pins the
// one that CI uses.
func TestModulesAgreeOnGo(t *testing.T) {
	files := modules(t)
	want := files["go.mod"].Go.Version
	for path, file := range files {
		if file.Go.Version != want {
			t.Errorf("%s: go version: got %s, want %s as in go.mod", path, file.Go.Version, want)
		}
		if file.Toolchain != nil {
			t.Errorf("%s has a toolchain line: .go-version pins the toolchain for all modules", path)
		}
	}
	text, err := os.ReadFile(filepath.Join(root, ".go-version"))
	if err != nil {
		t.Fatal(err)
	}
	if pinned := strings.TrimSpace(string(text)); semver.Compare("v"+pinned, "v"+want) < 0 {
		t.Errorf(".go-version: got %s, want at least %s as in go.mod", pinned, want)
	}
}

// All modules require one version of the Kubernetes libraries. Those that a module
// requires only indirectly may be an older patch of the same minor version.
func TestModulesAgreeOnKubernetes(t *testing.T) {
	files := modules(t)
	staging := regexp.MustCompile(`^v0\.\d+\.\d+$`) // k8s.io/api and the others that are released with Kubernetes
	versions := map[string]string{}                 // by module path, as the first go.mod has it
	want := ""
	for _, required := range files["go.mod"].Require {
		if required.Mod.Path == "k8s.io/client-go" {
			want = required.Mod.Version
		}
		versions[required.Mod.Path] = required.Mod.Version
	}
	if want == "" {
		t.Fatal("go.mod does not require k8s.io/client-go")
	}
	versions["k8s.io/kubernetes"] = "v1" + strings.TrimPrefix(want, "v0")
	for path, file := range files {
		replaced := map[string]string{}
		for _, replace := range file.Replace {
			replaced[replace.Old.Path] = replace.New.Version
		}
		for _, required := range file.Require {
			name, got := required.Mod.Path, required.Mod.Version
			if replacement := replaced[name]; replacement != "" {
				got = replacement
			}
			switch {
			case !strings.HasPrefix(name, "k8s.io/") && !strings.HasPrefix(name, "sigs.k8s.io/"):
			case strings.HasPrefix(name, "k8s.io/") && staging.MatchString(got):
				same := got == want || required.Indirect && semver.MajorMinor(got) == semver.MajorMinor(want)
				if !same {
					t.Errorf("%s: %s: got %s, want %s as client-go in go.mod", path, name, got, want)
				}
			case required.Indirect:
			case versions[name] == "":
				versions[name] = got
			case versions[name] != got:
				t.Errorf("%s: %s: got %s, want %s as in another go.mod", path, name, got, versions[name])
			}
		}
	}
}
