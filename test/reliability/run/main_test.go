// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeMake counts one result for each target but "nothing". The targets "fails", "nothing" and "violates" fail.
type fakeMake struct {
	mu   sync.Mutex
	ran  []string
	stop func() // called by the target "stops"
}

func (f *fakeMake) run(_ context.Context, args []string, results string, _ io.Writer) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ran = append(f.ran, strings.Join(args, " "))
	counted := map[string]string{"nothing": "", "violates": `{"part":"x","name":"y","count":1,"violations":1}`}
	line, special := counted[args[0]]
	if !special {
		line = `{"part":"x","name":"y","count":1}`
	}
	if line != "" {
		if err := os.WriteFile(results, []byte(line), 0o600); err != nil {
			return err
		}
	}
	switch args[0] {
	case "fails", "nothing", "violates":
		return errors.New("exit status 2")
	case "stops":
		f.stop()
	}
	return nil
}

// A run goes on where one was stopped. A part that failed is run again, unless it has counted a violation.
func TestRunGoesOn(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "results")
	all := expand([]parts{
		{name: "soak", args: "soak", times: 1, waits: true}, {name: "bad", args: "fails", times: 1}, {name: "none", args: "nothing", times: 1},
		{name: "violates", args: "violates", times: 1}, {name: "model", args: "stops %d/%[2]d", times: 2},
	}, "")
	ctx, cancel := context.WithCancel(t.Context())
	first := &fakeMake{stop: cancel}
	r := runner{folder: folder, out: io.Discard, make: first.run}
	if err := r.runAll(ctx, all[1:]); err == nil || !strings.Contains(err.Error(), "run it again") {
		t.Errorf("a run that is stopped: got error %v, want one that says how to go on", err)
	}
	if want := []string{"fails", "nothing", "violates", "stops 1/2"}; !slices.Equal(first.ran, want) {
		t.Errorf("until it was stopped: got %q, want %q", first.ran, want)
	}
	second := &fakeMake{stop: func() {}}
	r.make = second.run
	err := r.runAll(t.Context(), all)
	if err == nil || !strings.Contains(err.Error(), "none-1of1: exit status 2") || !strings.Contains(err.Error(), "counted nothing") {
		t.Errorf("second run: got error %v, want that of the part that counts nothing", err)
	}
	if slices.Sort(second.ran); !slices.Equal(second.ran, []string{"fails", "nothing", "soak", "stops 1/2", "stops 2/2"}) {
		t.Errorf("second run: got %q, want what was not done", second.ran)
	}
	if err := os.WriteFile(filepath.Join(folder, "soak-2of2"+suffix), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if files := r.done(all); len(files) != 4 {
		t.Errorf("results: got %q, want four files, and none of a part of another night", files)
	}
}

func TestParts(t *testing.T) {
	names := map[string]bool{}
	for _, p := range expand(night, "") {
		if names[p.name] || len(p.args) == 0 || strings.Contains(strings.Join(p.args, " "), "%") {
			t.Errorf("part %s with %q: want another name, and arguments", p.name, p.args)
		}
		names[p.name] = true
	}
	if got := expand(night, "mutants-3"); len(got) != 1 || got[0].args[1] != "MUTANTS_PART=3/24" {
		t.Errorf("parts that begin with mutants-3: got %v, want one, with its number", got)
	}
}

// make gets the file of results, and a wrong argument is an error that names what is missing.
func TestStart(t *testing.T) {
	results := filepath.Join(t.TempDir(), "results")
	var out strings.Builder
	t.Setenv("MAKEFLAGS", "") // those of make test
	t.Setenv("MAKELEVEL", "")
	if err := runMake(t.Context(), []string{"-f", "/dev/null", "--eval", "x:; @echo $$RELIABILITY_RESULTS"}, results, &out); err != nil {
		t.Fatal(err)
	}
	if strings.TrimSpace(out.String()) != results {
		t.Errorf("got %q, want %s", &out, results)
	}
	for _, args := range [][]string{nil, {"-o", "page"}, {"-results", "x"}, {"-results", "x", "-o", "page", "y"}} {
		if err := start(t.Context(), args, io.Discard); err == nil || !strings.Contains(err.Error(), "-results FOLDER and -o PAGE") {
			t.Errorf("%q: got error %v, want one that names the flags", args, err)
		}
	}
}
