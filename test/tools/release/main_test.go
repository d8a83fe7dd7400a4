// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// write writes files below a folder.
func write(t *testing.T, folder string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		file := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func git(t *testing.T, root string, args ...string) string {
	t.Helper()
	text, err := output(root, "git", args...)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func commit(t *testing.T, root string) {
	t.Helper()
	git(t, root, "add", "-A")
	git(t, root, "commit", "-q", "-m", "x")
}

// newRepository returns a repository with a module and one below it that imports it, as this one's.
func newRepository(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	git(t, root, "init", "-q", "-b", "main")
	git(t, root, "config", "user.name", "x")
	git(t, root, "config", "user.email", "x@example.com")
	git(t, root, "config", "commit.gpgSign", "false")
	git(t, root, "config", "core.hooksPath", os.DevNull)
	write(t, root, map[string]string{
		"LICENSE":           "a license\n",
		"go.mod":            "module example.com/m\n\ngo 1.26.0\n",
		"m.go":              "package m\n\nconst Version = 1\n",
		"internal/i/i.go":   "package i\n",
		"test/broken/b.go":  "package broken\n\nimport _ \"example.com/none\"\n",
		"sub/deep/go.mod":   "module example.com/m/sub/deep\n\ngo 1.26.0\n\nrequire example.com/m v0.0.0\n\nreplace example.com/m => ../..\n",
		"sub/deep/d.go":     "package deep\n\nimport \"example.com/m\"\n\nconst Version = m.Version\n",
		"docs/stability.md": "| version |\n|---|\n| main |\n",
		"CHANGELOG.md":      "# Changelog\n\n## [Unreleased]\n\n- new\n",
	})
	commit(t, root)
	return root
}

// releaseOf runs the command for the modules of the repository.
func releaseOf(root, folder string, args ...string) (string, error) {
	var out strings.Builder
	args = append(append([]string{"-root", root, "-o", folder}, args...), ".", "sub/deep")
	err := start(args, &out)
	return out.String(), err
}

// prepareRelease does what docs/releasing.md asks for.
func prepareRelease(t *testing.T, root string) {
	t.Helper()
	mod, err := os.ReadFile(filepath.Join(root, "sub/deep/go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	write(t, root, map[string]string{
		"sub/deep/go.mod":   strings.ReplaceAll(string(mod), "v0.0.0", "v0.1.0"),
		"docs/stability.md": "| version |\n|---|\n| main |\n| v0.1.0 |\n",
		"CHANGELOG.md":      "# Changelog\n\n## [Unreleased]\n\n## [0.1.0] - 2026-01-31\n\n- old\n\n## [0.0.1] - 2025-01-31\n\n- older\n",
	})
	commit(t, root)
}

func TestDryRun(t *testing.T) {
	root, folder := newRepository(t), filepath.Join(t.TempDir(), "release")
	out, err := releaseOf(root, folder, "-version", "v0.1.0", "-dry-run")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"CHANGELOG.md lacks a heading", "stability.md: the table of versions lacks v0.1.0",
		"in sub/deep, go mod edit -require=example.com/m@v0.1.0", "would tag v0.1.0, h1:", "would tag sub/deep/v0.1.0, h1:"} {
		if !strings.Contains(out, want) {
			t.Errorf("output lacks %q: got\n%s", want, out)
		}
	}
	if tags := git(t, root, "tag"); tags != "" {
		t.Errorf("tags: got %q, want none", tags)
	}
	if changes := git(t, root, "status", "--porcelain"); changes != "" {
		t.Errorf("the tree has changed: %s", changes)
	}
	write(t, root, map[string]string{"m.go": "package m\n"})
	if out, err = releaseOf(root, folder, "-version", "v0.1.0", "-dry-run"); err != nil || !strings.Contains(out, "the tree has changes") {
		t.Errorf("with a changed file: got %v and\n%s\nwant a note", err, out)
	}
	// Another commit with the same version may import other packages.
	write(t, root, map[string]string{"m.go": "package m\n\nimport \"strings\"\n\nvar Version = strings.Clone(\"1\")\n", "sub/deep/d.go": "package deep\n\nimport \"example.com/m\"\n\nvar Version = m.Version\n"})
	commit(t, root)
	if _, err = releaseOf(root, folder, "-version", "v0.1.0", "-dry-run"); err != nil {
		t.Errorf("another commit: %v", err)
	}
	// A module that programs cannot build is no release.
	write(t, root, map[string]string{"sub/deep/d.go": "package deep\n\nimport \"example.com/m\"\n\nconst Version = m.Gone\n"})
	commit(t, root)
	if _, err := releaseOf(root, folder, "-version", "v0.1.0", "-dry-run"); err == nil || !strings.Contains(err.Error(), "undefined: m.Gone") {
		t.Errorf("a module that cannot be built: got error %v, want the compiler's", err)
	}
}

func TestRelease(t *testing.T) {
	root, folder, sbom := newRepository(t), filepath.Join(t.TempDir(), "release"), t.TempDir()
	write(t, sbom, map[string]string{"m.cdx.json": "{}"})
	if _, err := releaseOf(root, folder, "-version", "v0.1.0"); err == nil || !strings.Contains(err.Error(), "CHANGELOG.md lacks a heading") {
		t.Errorf("documents without the version: got error %v, want one", err)
	}
	prepareRelease(t, root)
	out, err := releaseOf(root, folder, "-version", "v0.1.0", "-sbom", sbom)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out, "push origin v0.1.0\npublish: git push origin sub/deep/v0.1.0\n") {
		t.Errorf("output lacks the tags in order: got\n%s", out)
	}
	if tags := git(t, root, "tag"); tags != "sub/deep/v0.1.0\nv0.1.0" {
		t.Errorf("tags: got %q, want two", tags)
	}
	notes, err := os.ReadFile(filepath.Join(folder, "notes.md"))
	if want := "# v0.1.0\n\n- old\n"; err != nil || string(notes) != want {
		t.Errorf("notes: got %q and %v, want %q", notes, err, want)
	}
	checkProvenance(t, folder, git(t, root, "rev-parse", "HEAD"))
	if _, err := releaseOf(root, folder, "-version", "v0.1.0"); err == nil || !strings.Contains(err.Error(), "the tag v0.1.0 exists") {
		t.Errorf("a second time: got error %v, want that the tag exists", err)
	}
}

// checkProvenance checks that the statement has each file with its hash, and the commit.
func checkProvenance(t *testing.T, folder, commit string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(folder, "provenance.json"))
	if err != nil {
		t.Fatal(err)
	}
	var s statement
	if err := json.Unmarshal(text, &s); err != nil {
		t.Fatal(err)
	}
	if got := s.Predicate.BuildDefinition.ResolvedDependencies[0].Digest["gitCommit"]; got != commit {
		t.Errorf("commit: got %s, want %s", got, commit)
	}
	names := map[string]bool{}
	for _, subject := range s.Subject {
		names[subject.Name] = true
		file, err := os.ReadFile(filepath.Join(folder, subject.Name))
		if sum := sha256.Sum256(file); err != nil || subject.Digest["sha256"] != hex.EncodeToString(sum[:]) {
			t.Errorf("%s: got hash %s and %v, want that of the file", subject.Name, subject.Digest["sha256"], err)
		}
	}
	for _, want := range []string{"notes.md", "sbom/m.cdx.json", "proxy/example.com/m/@v/v0.1.0.zip", "proxy/example.com/m/sub/deep/@v/v0.1.0.zip"} {
		if !names[want] {
			t.Errorf("the statement lacks %s: got %v", want, names)
		}
	}
}

func TestRefusals(t *testing.T) {
	for name, test := range map[string]struct {
		change func(t *testing.T, root string)
		args   []string
		want   string
	}{
		"a changed file":     {func(t *testing.T, root string) { write(t, root, map[string]string{"m.go": "package m\n"}) }, nil, "the tree has changes"},
		"a file without git": {func(t *testing.T, root string) { write(t, root, map[string]string{"new.go": "package m\n"}) }, nil, "?? new.go"},
		"another version": {func(t *testing.T, root string) {
			write(t, root, map[string]string{"sub/deep/go.mod": "module example.com/m/sub/deep\n\ngo 1.26.0\n\nrequire example.com/m v0.0.9\n"})
			commit(t, root)
		}, nil, "go mod edit -require=example.com/m@v0.1.0"},
		"no version":      {nil, []string{"-version", "1.0"}, `got "1.0", want a version such as v0.1.0`},
		"a short version": {nil, []string{"-version", "v1"}, `got "v1"`},
	} {
		t.Run(name, func(t *testing.T) {
			root := newRepository(t)
			prepareRelease(t, root)
			if test.change != nil {
				test.change(t, root)
			}
			args := append([]string{"-version", "v0.1.0"}, test.args...)
			if _, err := releaseOf(root, filepath.Join(t.TempDir(), "release"), args...); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got error %v, want one with %q", err, test.want)
			}
			if tags := git(t, root, "tag"); tags != "" {
				t.Errorf("tags: got %q, want none", tags)
			}
		})
	}
}
