// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/refwatch/refwatch/test/reliability"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The page has each count, and a run without a part, or with a violation, fails and writes the page all the same.
func TestPage(t *testing.T) {
	full := &strings.Builder{}
	for _, g := range goals {
		fmt.Fprintf(full, `{"part":%q,"name":%q,"count":1234567,"seconds":61.4,"note":"a note","day":"2026-01-31","commit":"abc"}`+"\n", g.part, g.prefix+" x")
	}
	tests := map[string]struct {
		results string
		want    string // in the page
		err     string
	}{
		"complete":    {full.String(), "| schedules of the model test | 100,000 | 1,234,567 | 0 | 1m1s | 2026-01-31 | abc |", ""},
		"notes":       {full.String(), "- schedules x: 1,234,567, 1m1s; a note", ""},
		"sums":        {full.String() + `{"part":"fuzz","name":"y","count":1,"commit":"def"}`, "| 1,234,568 | 0 | 1m1s | 2026-01-31 | abc; def |", ""},
		"part":        {full.String() + `{"part":"chaos","name":"y","count":1}`, "## Chaos\n\n- " + reliability.Cycles, ""},
		"targets":     {full.String() + `{"part":"fuzz","name":"y","count":7}`, "- targets: 2, each with 7 inputs or more\n", ""},
		"violations":  {full.String() + `{"part":"chaos","name":"kill -9","count":1,"violations":1000}`, "- kill -9: 1, **1,000 violations**", "chaos: kill -9: 1000 violations"},
		"not all run": {`{"part":"chaos","name":"` + reliability.Cycles + `","count":7}`, "| 100 | 7 | 0 |  |  |  |", `no results: schedules of the model test (part model, "schedules")`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			results, out := filepath.Join(folder, "results.jsonl"), filepath.Join(folder, "page.md")
			if err := os.WriteFile(results, []byte(test.results), 0o600); err != nil {
				t.Fatal(err)
			}
			err := run([]string{"-o", out, results}, io.Discard)
			if test.err == "" && err != nil || test.err != "" && (err == nil || !strings.Contains(err.Error(), test.err)) {
				t.Errorf("got error %v, want %q", err, test.err)
			}
			page, err := os.ReadFile(out)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(string(page), test.want) {
				t.Errorf("got\n%s\nwant a line with %s", page, test.want)
			}
		})
	}
}

// TestArguments: a wrong argument is an error, and help is none.
func TestArguments(t *testing.T) {
	folder := t.TempDir()
	for _, test := range []struct {
		args []string
		err  string
	}{
		{nil, "-o FILE and at least one file"},
		{[]string{"-o", filepath.Join(folder, "page.md")}, "at least one file"},
		{[]string{"-x"}, "-x"},
		{[]string{"-o", filepath.Join(folder, "page.md"), folder}, folder},
		{[]string{"-o", filepath.Join(folder, "page.md"), filepath.Join(folder, "none")}, "no such file"},
	} {
		if err := run(test.args, io.Discard); err == nil || !strings.Contains(err.Error(), test.err) {
			t.Errorf("%q: got error %v, want one with %q", test.args, err, test.err)
		}
	}
	var usage strings.Builder
	if err := run([]string{"-h"}, &usage); !errors.Is(err, flag.ErrHelp) || !strings.HasPrefix(usage.String(), "usage: page -o FILE") {
		t.Errorf("-h: got error %v and %q, want the usage", err, &usage)
	}
}
