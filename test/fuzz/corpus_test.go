// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The input with the most new blocks comes first, then what runs a block far more often. What adds nothing, or is too
// long for the rest of the limit, is left.
func TestChoose(t *testing.T) {
	found := []candidate{
		{file: "known", bytes: 1, blocks: profile{"a": {1, 1}}},
		{file: "one", bytes: 2, blocks: profile{"b": {1, 1}}},
		{file: "often", bytes: 3, blocks: profile{"b": {1, 9}}},
		{file: "two", bytes: 4, blocks: profile{"b": {1, 1}, "c": {1, 1}}},
		{file: "long", bytes: 90, blocks: profile{"d": {1, 1}}},
	}
	for name, test := range map[string]struct {
		inputs int
		size   int64
		want   []string
	}{
		"all":       {inputs: 9, size: 100, want: []string{"two", "long", "often"}},
		"bytes":     {inputs: 9, size: 50, want: []string{"two", "often"}},
		"inputs":    {inputs: 1, size: 100, want: []string{"two"}},
		"none left": {inputs: -1, size: 100},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, c := range choose(found, profile{"a": {1, 1}}, test.inputs, test.size) {
				got = append(got, c.file)
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// sample is a package with a fuzz target, a function that no input reaches, and what a fuzzer has found.
var sample = map[string]string{
	"go.mod": "module sample\n\ngo 1.26\n",
	"sample.go": `package sample

func Size(s string) int {
	if s == "deep" {
		return 2
	}
	if len(s) > 5 {
		return 3
	}
	return 1
}

func Unreached() int {
	return 4
}
`,
	"sample_test.go": `package sample

import "testing"

	func FuzzSize(f *testing.F) { // indented, so that git grep does not take it for one of this repository
	f.Add("seed")
	f.Fuzz(func(t *testing.T, s string) { Size(s) })
}
`,
	"testdata/fuzz/FuzzSize/kept": "go test fuzz v1\nstring(\"kept\")\n",
	"cache/deep":                  "go test fuzz v1\nstring(\"deep\")\n",
	"cache/flat":                  "go test fuzz v1\nstring(\"flat\")\n",
	"cache/secret":                "go test fuzz v1\nstring(\"passwd\")\n",
	"cache/other":                 "go test fuzz v1\nint(1)\n", // of an older version of the target
	"cache/long":                  "go test fuzz v1\nstring(\"" + strings.Repeat("x", maxInputBytes) + "\")\n",
}

// write writes sample, and returns its folder and the target.
func write(t *testing.T) (string, target) {
	t.Helper()
	folder := t.TempDir()
	for name, text := range sample {
		file := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return folder, target{folder: folder, name: "FuzzSize"}
}

func TestKeep(t *testing.T) {
	folder, sample := write(t)
	if err := sample.keep(io.Discard, t.TempDir(), filepath.Join(folder, "cache")); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(filepath.Join(folder, corpusOf("FuzzSize")))
	if err != nil || len(entries) != 2 || entries[0].Name() != "deep" || entries[1].Name() != "kept" {
		t.Errorf("got %v and %v, want deep, the only one that covers more, beside kept", entries, err)
	}
}

func TestMeasure(t *testing.T) {
	folder, sample := write(t)
	scratch := t.TempDir()
	got, err := sample.measure(scratch)
	if want := (row{target: sample, inputs: 2, ran: 3, all: 6, reached: 3, ofTarget: 5}); err != nil || got != want {
		t.Errorf("got %+v and %v, want %+v", got, err, want)
	}
	broken := filepath.Join(folder, corpusOf("FuzzSize"), "kept")
	if err := os.WriteFile(broken, []byte("go test fuzz v1\nint(1)\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := sample.measure(scratch); err == nil {
		t.Error("an input that fails: got no error")
	}
}
