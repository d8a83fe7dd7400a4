// SPDX-License-Identifier: Apache-2.0

package manager_test

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

// The files of the library that CONTRIBUTING.md and docs/architecture.md name exist.
func TestDocsNameTheFiles(t *testing.T) {
	exists := map[string]bool{}
	for _, root := range []string{"cache", "internal", "reflector", "objectcache", "manager", "featuregates"} {
		err := filepath.WalkDir(filepath.Join("..", root), func(file string, _ fs.DirEntry, err error) error {
			exists[path.Base(filepath.ToSlash(file))] = true
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	goFile := regexp.MustCompile("`[\\w/]*?(\\w+\\.go)`")
	for _, page := range []string{"../docs/architecture.md", "../CONTRIBUTING.md"} {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range goFile.FindAllStringSubmatch(string(text), -1) {
			if !exists[match[1]] {
				t.Errorf("%s names %s, which does not exist", page, match[0])
			}
		}
	}
}

// The tables in docs/features.md and docs/security.md name the tests that prove what they say.
func TestTablesAreProved(t *testing.T) {
	for page, least := range map[string]int{"features.md": 20, "security.md": 35} {
		text, err := os.ReadFile(filepath.Join("../docs", page))
		if err != nil {
			t.Fatal(err)
		}
		tests := regexp.MustCompile(`\[(?:✓|Test\w+)\]\((\S+) "(\w+)"\)`).FindAllStringSubmatch(string(text), -1)
		if len(tests) < least {
			t.Errorf("%s names %d tests, want at least %d", page, len(tests), least)
		}
		for _, match := range tests {
			file, err := os.ReadFile(filepath.Join("../docs", match[1]))
			if err != nil || !strings.Contains(string(file), "\nfunc "+match[2]+"(") {
				t.Errorf("%s names %s in %s, which has no such test (%v)", page, match[2], match[1], err)
			}
		}
	}
}

// Prose has at most 120 columns, in comments and in Markdown. Tables, pictures, indented
// output and lines with a URL may be longer.
func TestProseWidth(t *testing.T) {
	comment := regexp.MustCompile(`^\s*//[^/]`)
	wide := func(line string, markdown bool) bool {
		if !markdown && !comment.MatchString(line) || strings.Contains(line, "://") || strings.HasPrefix(line, "//go:") {
			return false
		}
		if markdown && (strings.ContainsAny(line[:min(1, len(line))], "|!") || strings.HasPrefix(line, "    ")) {
			return false
		}
		return utf8.RuneCountInString(strings.ReplaceAll(line, "\t", "    ")) > 120
	}
	err := filepath.WalkDir("..", func(file string, entry fs.DirEntry, err error) error {
		extension := filepath.Ext(file)
		switch name := path.Base(filepath.ToSlash(file)); {
		case err != nil:
			return err
		case entry.IsDir() && (name == "_output" || name == ".git"):
			return filepath.SkipDir
		case extension != ".go" && extension != ".md":
			return nil
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		output := false // a block that no reader has to wrap
		for i, line := range strings.Split(string(text), "\n") {
			if strings.HasPrefix(line, "```") {
				output = line == "```text"
			}
			if !output && wide(line, extension == ".md") {
				t.Errorf("%s:%d: the line has more than 120 columns", file, i+1)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
