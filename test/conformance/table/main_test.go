// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestRun(t *testing.T) {
	const passed = `[{"Case":"store/updates","Promise":"p","Server":"real","Engine":"stream","Passed":true}]`
	const other = `[{"Case":"store/many","Promise":"q","Server":"in-process","Engine":"stream","Passed":true}]`
	const failed = `[{"Case":"store/updates","Promise":"p","Server":"real","Engine":"stream","Passed":false}]`
	tests := map[string]struct {
		results []string // contents of the files
		args    func(page string) []string
		err     string // part of it
	}{
		"all passed":   {results: []string{passed}},
		"one failed":   {results: []string{failed}, err: "some cases failed or were not run"},
		"one not run":  {results: []string{passed, other}, err: "some cases failed or were not run"},
		"not JSON":     {results: []string{"<html>"}, err: "invalid character"},
		"no file":      {args: func(page string) []string { return []string{"-o", page, "missing.json"} }, err: "missing.json"},
		"no arguments": {args: func(string) []string { return nil }, err: "are required"},
		"unknown flag": {args: func(string) []string { return []string{"-x"} }, err: "-x"},
		"unwritable": {results: []string{passed}, args: func(page string) []string {
			return []string{"-o", filepath.Join(page, "x"), filepath.Join(filepath.Dir(page), "a.json")}
		}, err: "page.md"},
		"help": {args: func(string) []string { return []string{"--help"} }, err: "help requested"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			page := filepath.Join(dir, "page.md")
			args := []string{"-o", page}
			for i, content := range test.results {
				path := filepath.Join(dir, string(rune('a'+i))+".json")
				if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
				args = append(args, path)
			}
			if test.args != nil {
				args = test.args(page)
			}
			err := run(args, io.Discard)
			if test.err == "" {
				if err != nil {
					t.Fatalf("got error %v, want none", err)
				}
				if text, err := os.ReadFile(page); err != nil || !strings.Contains(string(text), "| `store/updates` | p | ✓ |") {
					t.Errorf("page: got %q, %v, want the row of the case", text, err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), test.err) {
				t.Errorf("got error %v, want one with %q", err, test.err)
			}
		})
	}
}
