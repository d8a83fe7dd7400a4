// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/refwatch/refwatch/test/reliability"
	"github.com/refwatch/refwatch/test/testmain"
)

// newRepository returns a folder with a module, and one more below it. Both have a package with a test.
func newRepository(t *testing.T) string {
	t.Helper()
	const source = "package sum\n\n// Add adds.\nfunc Add(a, b int) int {\n\treturn a + b\n}\n\n" +
		"func unused() int {\n\treturn 1\n}\n\nvar broken = false\n"
	// What the tests of a mutant count is no result.
	const test = "package sum\n\nimport (\n\t\"os\"\n\t\"testing\"\n)\n\n" +
		"func TestAdd(t *testing.T) {\n\tif Add(1, 2) != 3 || os.Getenv(\"" + reliability.Variable + "\") != \"\" {\n\t\tt.Error(\"wrong\")\n\t}\n}\n\n" +
		"func TestZero(t *testing.T) {\n\tt.Run(\"sub\", func(t *testing.T) {\n\t\tif Add(0, 1) != 1 {\n\t\t\tt.Error(\"also wrong\")\n\t\t}\n\t})\n}\n\n" +
		"func TestBroken(t *testing.T) {\n\tt.Fatal()\n}\n\n" +
		"func TestSkipped(t *testing.T) {\n\tif unused() == 1 {\n\t\tt.Skip()\n\t}\n\tt.Error()\n}\n"
	// Its test passes, but its TestMain fails for a wrong sum.
	const main = "package sum\n\nimport (\n\t\"os\"\n\t\"testing\"\n)\n\n" +
		"func TestMain(m *testing.M) {\n\tif m.Run() != 0 || Add(1, 2) != 3 || broken && ran {\n\t\tos.Exit(1)\n\t}\n}\n\n" +
		"var ran bool\n\nfunc TestNothing(*testing.T) {\n\tran = true\n}\n"
	root := t.TempDir()
	for path, text := range map[string]string{
		"go.mod":               "module example.com/a\n\ngo 1.26\n",
		"sum/sum.go":           source,
		"sum/sum_test.go":      test,
		"main/sum.go":          source,
		"main/main_test.go":    main,
		"always/sum.go":        strings.Replace(source, "false", "true", 1),
		"always/main_test.go":  main,
		"below/go.mod":         "module example.com/a/below\n\ngo 1.26\n",
		"below/sum/sum.go":     source,
		"below/sum/it_test.go": test,
	} {
		path = filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// outcomeTests change a mutant that TestAdd catches.
var outcomeTests = map[string]struct {
	change func(m *mutant)
	caught string
	err    error
	line   string // part of the progress line
}{
	"caught": {change: func(*mutant) {}, caught: "TestAdd", line: "TestAdd"},
	"caught in another module": {change: func(m *mutant) {
		m.in, m.packages = "below/sum.Add", []string{"./below/sum"}
	}, caught: "TestAdd"},
	"caught by a panic of another goroutine": {change: func(m *mutant) {
		m.new = "\tgo panic(1)\n\tselect {}\n"
	}, caught: "TestAdd"},
	"survived": {change: func(m *mutant) {
		m.in, m.old, m.new = "sum.unused", "\treturn 1\n", "\treturn 2\n"
	}, err: errSurvived, line: "Write one that does, for the promise that is broken: Add adds."},
	"old lines are missing": {change: func(m *mutant) {
		m.old = "\treturn b + a\n"
	}, err: errNotApplied, line: "The source has changed: adapt the mutant in test/mutants/list, or correct its lines."},
	"no Go": {change: func(m *mutant) {
		m.new = "\treturn a +\n"
	}, err: errNotBuilt, line: "sum.go"},
	"not built": {change: func(m *mutant) {
		m.new = "\treturn c\n"
	}, err: errNotBuilt, line: "undefined: c"},
	"test fails without the mutant": {change: func(m *mutant) { m.run = "TestBroken" }, caught: "TestBroken", err: errBaseline, line: "Mend the test first"},
	"test is skipped without the mutant": {change: func(m *mutant) {
		m.run, m.in, m.old, m.new = "TestSkipped", "sum.unused", "\treturn 1\n", "\treturn 2\n"
	}, caught: "TestSkipped", err: errBaseline},
	"caught by TestMain": {change: func(m *mutant) {
		m.in, m.packages, m.run = "main.Add", []string{"./main"}, ""
	}, caught: mainFailed},
	"TestMain fails without the mutant": {change: func(m *mutant) {
		m.in, m.packages, m.run = "always.Add", []string{"./always"}, ""
	}, caught: mainFailed, err: errBaseline},
	"no test": {change: func(m *mutant) { m.run = "TestOther" }, err: errNoTests, line: `no test of ./sum matches "TestOther"`},
}

// TestOutcomes: a mutant that is caught, and each reason for which one is not, with what to do.
func TestOutcomes(t *testing.T) {
	testmain.Long(t)
	root := newRepository(t)
	good := mutant{
		name: "m", breaks: "Add adds.", packages: []string{"./sum"}, run: "TestAdd", in: "sum.Add",
		old: "\treturn a + b\n", new: "\treturn a - b\n",
	}
	for name, test := range outcomeTests {
		t.Run(name, func(t *testing.T) {
			m := good
			test.change(&m)
			var lines []string
			r := &runner{root: root, timeout: time.Minute, parallel: 1, progress: func(o outcome) { lines = append(lines, o.String()) }}
			outcomes, err := r.run(t.Context(), []mutant{m})
			if err != nil {
				t.Fatal(err)
			}
			got := outcomes[0]
			if got.caught != test.caught || !errors.Is(got.err, test.err) {
				t.Fatalf("got caught by %q and error %v, want %q and %v", got.caught, got.err, test.caught, test.err)
			}
			if len(lines) == 0 || !strings.Contains(lines[len(lines)-1], test.line) {
				t.Errorf("got progress %q, want %q in the end", lines, test.line)
			}
		})
	}
}

// TestVerbose: all tests of a mutant run, and what they say is printed.
func TestVerbose(t *testing.T) {
	m := mutant{
		name: "m", breaks: "Add adds.", packages: []string{"./sum"}, run: "TestAdd|TestZero", in: "sum.Add",
		old: "\treturn a + b\n", new: "\treturn a - b\n",
	}
	var line string
	r := &runner{root: newRepository(t), timeout: time.Minute, parallel: 1, verbose: true, progress: func(o outcome) { line = o.String() }}
	if _, err := r.run(t.Context(), []mutant{m}); err != nil {
		t.Fatal(err)
	}
	if want := "TestAdd\n\tTestAdd: wrong\n\tTestZero/sub: also wrong"; !strings.Contains(line, want) {
		t.Errorf("got progress %q, want %q in it", line, want)
	}
}

// TestRun: the command fails if a mutant is not caught.
func TestRun(t *testing.T) {
	testmain.Long(t)
	root := newRepository(t)
	caught := mutant{
		name: "wrong-sum", breaks: "Add adds.", packages: []string{"./sum"}, run: "TestAdd", in: "sum.Add",
		old: "\treturn a + b\n", new: "\treturn a - b\n",
	}
	survives := caught
	survives.name, survives.in, survives.old, survives.new = "survivor", "sum.unused", "\treturn 1\n", "\treturn 2\n"
	tests := map[string]struct {
		mutants []mutant
		args    []string
		out     string
		err     string
		results string // of a complete run
	}{
		"all caught":    {mutants: []mutant{caught}, out: "1 of 1 mutants caught", results: `"count":1,"violations":0`},
		"one survives":  {mutants: []mutant{caught, survives}, out: "1 of 2 mutants caught", err: "1 mutants are not caught", results: `"count":1,"violations":1`},
		"selected":      {mutants: []mutant{caught, survives}, args: []string{"-run", "^wrong"}, out: "1 of 1 mutants caught"},
		"a part":        {mutants: []mutant{survives, caught, survives}, args: []string{"-part", "3/3"}, out: "1 of 1 mutants caught", results: `"count":1,"violations":0`},
		"a bad part":    {mutants: []mutant{caught}, args: []string{"-part", "3/2"}, err: "want two numbers such as 2/6"},
		"another suite": {mutants: []mutant{survives}, args: []string{"-suite", "./sum", "-suite-run", "TestAdd"}, out: "survivor", err: "not caught"},
		"none selected": {mutants: []mutant{caught}, args: []string{"-run", "x"}, err: `no mutant to test has a name that matches "x"`},
		"bad pattern":   {mutants: []mutant{caught}, args: []string{"-run", "("}, err: "missing closing )"},
		"unknown flag":  {mutants: []mutant{caught}, args: []string{"-x"}, err: "-x"},
		"help":          {mutants: []mutant{caught}, args: []string{"-h"}, out: "-root folder", err: flag.ErrHelp.Error()},
		"argument":      {mutants: []mutant{caught}, args: []string{"wrong-sum"}, err: `unknown argument "wrong-sum"`},
		"no repository": {mutants: []mutant{caught}, args: []string{"-root", filepath.Join(root, "none")}, err: "-root is not the folder of the repository"},
		"no worker":     {mutants: []mutant{caught}, args: []string{"-parallel", "0"}, err: "must be positive"},
		"no suite":      {mutants: []mutant{caught}, args: []string{"-suite-run", "TestAdd"}, err: "-suite-run needs -suite"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Setenv(reliability.Variable, filepath.Join(t.TempDir(), "results"))
			var out bytes.Buffer
			err := run(t.Context(), test.mutants, append([]string{"-root", root}, test.args...), &out)
			if test.err == "" && err != nil || test.err != "" && (err == nil || !strings.Contains(err.Error(), test.err)) {
				t.Errorf("got error %v, want one with %q", err, test.err)
			}
			if !strings.Contains(out.String(), test.out) {
				t.Errorf("got output %q, want %q in it", out.String(), test.out)
			}
			results, _ := os.ReadFile(os.Getenv(reliability.Variable))
			if !strings.Contains(string(results), test.results) || test.results == "" && len(results) > 0 {
				t.Errorf("got results %q, want %q in them", results, test.results)
			}
		})
	}
}

// TestInterrupt: an interrupted run says nothing about the mutants that it has not tested.
func TestInterrupt(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	m := mutant{name: "m", breaks: "b", packages: []string{"./sum"}, in: "sum.Add", old: "\treturn 1\n", new: "\treturn 2\n"}
	var out bytes.Buffer
	err := run(ctx, []mutant{m}, []string{"-root", newRepository(t)}, &out)
	if !errors.Is(err, context.Canceled) || out.Len() > 0 {
		t.Errorf("got error %v and output %q, want that of the context and none", err, out.String())
	}
}
