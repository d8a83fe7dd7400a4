// SPDX-License-Identifier: Apache-2.0

package main

import (
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// docs/files.md is what the code says now, and says something of each file.
func TestPageIsUpToDate(t *testing.T) {
	const root = "../../.."
	want, err := pageOf(root)
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(root, page))
	if err != nil || string(got) != want {
		t.Errorf("%s: got another page than make files writes (%v): run it", page, err)
	}
	for line := range strings.Lines(want) {
		if strings.HasSuffix(line, ": –\n") {
			t.Errorf("%s: got no comment in the file, want one that says what it is for", strings.TrimSpace(line))
		}
	}
}

// A text is short.
func TestSynopsis(t *testing.T) {
	for comment, want := range map[string]string{
		"Package x does [A]: more.": "does A", "A is a. B is b.": "A is a", "A list:\n\n  - b": "A list",
	} {
		if got := synopsis(comment); got != want {
			t.Errorf("%q: got %q, want %q", comment, got, want)
		}
	}
}

// The comment that says most about a file is found.
func TestAbout(t *testing.T) {
	tests := map[string]struct{ source, want string }{
		"by itself":        {"// About the file.\n\n// a is A.\nvar a int\n", "About the file.\n"},
		"of the namesake":  {"// A is A.\ntype A int\n\n// theName is it.\ntype theName int\n", "theName is it.\n"},
		"exported first":   {"// a is a.\ntype a int\n\n// F is F.\nfunc F() {}\n", "F is F.\n"},
		"values last":      {"// c is c.\nconst c = 1\n\n// f is f.\nfunc f() {}\n", "f is f.\n"},
		"in a group":       {"var (\n\t// v is v.\n\tv int\n)\n", "v is v.\n"},
		"of an import":     {"import (\n\t// Why.\n\t_ \"fmt\"\n)\n\n// f is f.\nfunc f() {}\n", "Why.\n"},
		"types first":      {"// M is m.\nfunc (t) M() {}\n\n// t is t.\ntype t int\n", "t is t.\n"},
		"no declaration":   {"", ""},
		"without comments": {"func f() {}\n", ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			f, err := parser.ParseFile(token.NewFileSet(), "x.go", "package x\n\n"+test.source, parser.ParseComments)
			if err != nil {
				t.Fatal(err)
			}
			if got := about(f, "the_name"); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}
