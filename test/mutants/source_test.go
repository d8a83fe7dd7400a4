// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// tree has the same line in many places.
var tree = map[string]string{
	"store/a.go": `package store

// same()
func F() {
	same()
}

// Store is a type.
type Store[K comparable, V any] struct {
	same func()
}

func (s *Store[K, V]) F() {
	same()
}

func (s Store[_, _]) Twice() {
	if true {
		same()
	}
	same()
}

var single = 1

const (
	first  = 1
	second = 2
)
`,
	"store/b_linux.go":   "package store\n\nfunc system() {\n\tsame()\n\tlinux()\n}\n",
	"store/b_other.go":   "//go:build !linux\n\npackage store\n\nfunc system() {\n\tsame()\n}\n",
	"store/a_test.go":    "package store\n\nfunc F() {\n\tsame()\n}\n\nfunc inTest() {\n\tsame()\n}\n",
	"store/inner/a.go":   "package other\n\nfunc F() {\n\tsame()\n}\n",
	"bad/a.go":           "package\n",
	"tests/only_test.go": "package tests\n\nfunc F() {\n\tsame()\n}\n",
}

// TestMutated: a mutant changes the declaration that it names, and no other one.
func TestMutated(t *testing.T) {
	root := t.TempDir()
	for path, text := range tree {
		path = filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const line, other = "\tsame()\n", "\tother()\n"
	tests := map[string]struct {
		in, old, new string // like line and other if empty
		file         string
		from, to     string // what has changed in the file
		err          string // part of it
	}{
		"a function":            {in: "store.F", file: "store/a.go", from: "func F() {\n\tsame", to: "func F() {\n\tother"},
		"in a folder below":     {in: "store/inner.F", file: "store/inner/a.go", from: "same", to: "other"},
		"a method":              {in: "store.Store.F", file: "store/a.go", from: ") F() {\n\tsame", to: ") F() {\n\tother"},
		"its whole text":        {in: "store.F", old: "func F() {\n\tsame()\n}\n", new: "func F() {}\n", file: "store/a.go", from: "func F() {\n\tsame()\n}", to: "func F() {}"},
		"a type":                {in: "store.Store", old: "\tsame func()\n", new: "\tsame int\n", file: "store/a.go", from: "same func()", to: "same int"},
		"a variable":            {in: "store.single", old: "var single = 1\n", new: "var single = 2\n", file: "store/a.go", from: "single = 1", to: "single = 2"},
		"a constant of a group": {in: "store.second", old: "\tsecond = 2\n", new: "\tsecond = 3\n", file: "store/a.go", from: "second = 2", to: "second = 3"},
		"another indentation": {
			in: "store.Store.Twice", old: "if true {\n same()\n", new: "if true {\nother()\n", file: "store/a.go", from: "if true {\n\t\tsame", to: "if true {\n\t\tother",
		},
		"one of two files": {in: "store.system", old: "\tlinux()\n", file: "store/b_linux.go", from: "linux", to: "other"},

		"both of two files":    {in: "store.system", err: "its old lines are 2 times in store.system, and must be there once"},
		"twice":                {in: "store.Store.Twice", err: "its old lines are 2 times in store.Store.Twice"},
		"part of a line":       {in: "store.F", old: "\tsame(\n", err: "its old lines are 0 times in store.F"},
		"outside":              {in: "store.Store.F", old: "\tsame func()\n", err: "its old lines are 0 times"},
		"in the comment":       {in: "store.F", old: "// same()\n", err: "its old lines are 0 times"},
		"across the end":       {in: "store.F", old: "}\n\n// Store is a type.\n", err: "its old lines are 0 times"},
		"no such folder":       {in: "shop.F", err: `the folder "shop" does not exist, or has no declarations`},
		"only tests":           {in: "tests.F", err: `the folder "tests" does not exist, or has no declarations`},
		"no such function":     {in: "store.G", err: `the folder store does not declare "G"; names like it: []`},
		"in a test":            {in: "store.inTest", err: `does not declare "inTest"`},
		"no name":              {in: "store", err: `does not declare ""`},
		"another receiver":     {in: "store.Shop.F", err: `does not declare "Shop.F"; names like it: ["F" "Store.F"]`},
		"another method":       {in: "store.Store.Thrice", err: `names like it: ["Store" "Store.F" "Store.Twice"]`},
		"a file that is no Go": {in: "bad.F", err: "bad/a.go:1"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			m := mutant{in: test.in, old: line, new: other}
			if test.old != "" {
				m.old = test.old
			}
			if test.new != "" {
				m.new = test.new
			}
			file, source, err := m.mutated(root)
			if test.err != "" {
				if !errors.Is(err, errNotApplied) || !strings.Contains(err.Error(), test.err) {
					t.Errorf("got error %v, want one with %q", err, test.err)
				}
				return
			}
			want := strings.Replace(tree[test.file], test.from, test.to, 1)
			if err != nil || file != filepath.Join(root, test.file) || string(source) != want {
				t.Errorf("got error %v and %s:\n%s\nwant %s:\n%s", err, file, source, test.file, want)
			}
		})
	}
}
