// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Each mutant fits the source. `make mutants` shows whether the tests catch it.
func TestMutantsApply(t *testing.T) {
	mutants, err := readLists()
	if err != nil {
		t.Fatal(err)
	}
	root := filepath.Join("..", "..")
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			if _, _, err := m.mutated(root); err != nil {
				t.Errorf("%v\nThe source has changed: adapt the mutant, or correct its lines.", err)
			}
		})
	}
}

// Each alternative of a mutant's pattern selects a test.
func TestMutantsSelectTests(t *testing.T) {
	mutants, err := readLists()
	if err != nil {
		t.Fatal(err)
	}
	byFolder := map[string][]string{}
	for _, m := range mutants {
		var tests []string
		for _, folder := range m.packages {
			if byFolder[folder] == nil {
				byFolder[folder] = testsOf(t, filepath.Join("..", "..", folder))
			}
			tests = append(tests, byFolder[folder]...)
		}
		for alternative := range strings.SplitSeq(m.run, "|") {
			if pattern := regexp.MustCompile(alternative); !slices.ContainsFunc(tests, pattern.MatchString) {
				t.Errorf("mutant %s: no test of %s matches %q: adapt its line \"run:\"", m.name, m.packages, alternative)
			}
		}
	}
}

// testsOf returns the names of the tests, examples and fuzz targets in a folder.
func testsOf(t *testing.T, folder string) (names []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	declaration := regexp.MustCompile(`(?m)^func ((?:Test|Example|Fuzz)\w*)\(`)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range declaration.FindAllStringSubmatch(string(text), -1) {
			names = append(names, match[1])
		}
	}
	return names
}

func TestParse(t *testing.T) {
	const list = "# A comment.\nmutant a\nbreaks: It works: always.\ntests: ./x ./y\nrun: TestX|TestY\ntimeout: 9s\nin: x.T.F\n" +
		" \tkept\n-\told\n+\tnew\n\nmutant b\nbreaks: b\ntests: ./x\nin: x.T.F\n-\told\n"
	got, err := parse(list)
	want := []mutant{
		{name: "a", breaks: "It works: always.", packages: []string{"./x", "./y"}, run: "TestX|TestY", timeout: "9s", in: "x.T.F",
			old: "\tkept\n\told\n", new: "\tkept\n\tnew\n"},
		{name: "b", breaks: "b", packages: []string{"./x"}, in: "x.T.F", old: "\told\n"},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(mutant{})); diff != "" || err != nil {
		t.Errorf("error %v, and this difference (-want +got):\n%s", err, diff)
	}
	for name, bad := range map[string]struct{ list, err string }{
		"no change":       {"mutant a\nbreaks: b\ntests: ./x\nin: x.F\n", "mutant a needs"},
		"no tests":        {"mutant a\nbreaks: b\nin: x.F\n-\told\n", "mutant a needs"},
		"no declaration":  {"mutant a\nbreaks: b\ntests: ./x\n-\told\n", "mutant a needs"},
		"unknown key":     {"mutant a\npromise: b\n", `line 2: "promise: b" is none of`},
		"no first mutant": {"breaks: b\n", "line 1"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := parse(bad.list); err == nil || !strings.Contains(err.Error(), bad.err) {
				t.Errorf("got error %v, want one with %q", err, bad.err)
			}
		})
	}
}

// Each list has one of the mutants that `make mutants-quick` names.
func TestFewMutants(t *testing.T) {
	makefile, err := os.ReadFile(filepath.Join("..", "..", "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	_, line, _ := strings.Cut(string(makefile), "\nFEW_MUTANTS = ")
	line, _, _ = strings.Cut(line, "\n")
	few := strings.Split(line, "|")
	files, err := lists.ReadDir("list")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, file := range files {
		text, err := lists.ReadFile("list/" + file.Name())
		if err != nil {
			t.Fatal(err)
		}
		before := found
		for _, name := range few {
			if strings.Contains("\n"+string(text), "\nmutant "+name+"\n") {
				found++
			}
		}
		if found == before {
			t.Errorf("list/%s has none of %q", file.Name(), few)
		}
	}
	if found != len(few) {
		t.Errorf("found %d of %q", found, few)
	}
}
