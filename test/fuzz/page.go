// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"time"
)

const pageIntroduction = `# Fuzzing

What the inputs of each fuzz target cover without any fuzzing: its seeds, and the files in ` + "`testdata/fuzz`" + `. ` +
	"`make test`" + `
runs them all. ` + "`make fuzz`" + ` searches for more, and ` + "`make fuzz-corpus`" + ` keeps those that cover more.
` + "`make fuzz-coverage`" + ` writes this page.

"Of the package" counts the statements of the package that has the target. A target tests a part of its package: "of the
functions" counts only the functions that it reaches.

`

// row is what a target's inputs cover.
type row struct {
	target

	inputs            int
	ran, all          int // statements of the package
	reached, ofTarget int // of the functions that the target reaches: statements that ran, and all
}

// measure runs a target on its inputs. It builds in scratch.
func (t target) measure(scratch string) (row, error) {
	tester, err := t.newTester(scratch)
	if err != nil {
		return row{}, err
	}
	blocks, inputs, err := tester.run(filesIn(filepath.Join(t.folder, corpusOf(t.name))))
	if err != nil {
		return row{}, err
	}
	functions, err := byFunction(blocks, t.folder)
	if err != nil {
		return row{}, err
	}
	r := row{target: t, inputs: inputs}
	for _, f := range functions {
		ran, all := f.covered()
		r.ran, r.all = r.ran+ran, r.all+all
		if ran > 0 {
			r.reached, r.ofTarget = r.reached+ran, r.ofTarget+all
		}
	}
	return r, nil
}

// byFunction divides a profile by the functions of a package in a folder.
func byFunction(blocks profile, folder string) (map[string]profile, error) {
	functions := map[string]profile{}
	files := map[string]*ast.File{}
	set := token.NewFileSet()
	for position, b := range blocks {
		name, extent, _ := strings.Cut(position, ":")
		var line int
		if _, err := fmt.Sscanf(extent, "%d.", &line); err != nil {
			return nil, fmt.Errorf("the coverage profile has the position %q: %w", position, err)
		}
		name = path.Base(name)
		if files[name] == nil {
			file, err := parser.ParseFile(set, filepath.Join(folder, name), nil, parser.SkipObjectResolution)
			if err != nil {
				return nil, err
			}
			files[name] = file
		}
		function := functionAt(set, files[name], line)
		if function == "" { // of a variable
			function = extent
		}
		if functions[name+" "+function] == nil {
			functions[name+" "+function] = profile{}
		}
		functions[name+" "+function][position] = b
	}
	return functions, nil
}

// functionAt returns where the function at a line begins, or "".
func functionAt(set *token.FileSet, file *ast.File, line int) string {
	for _, declaration := range file.Decls {
		if f, ok := declaration.(*ast.FuncDecl); ok && set.Position(f.Pos()).Line <= line && line <= set.Position(f.End()).Line {
			return set.Position(f.Pos()).String()
		}
	}
	return ""
}

// pageOf returns the page about the rows, which were measured at a commit.
func pageOf(rows []row, commit string, day time.Time) string {
	var page strings.Builder
	page.WriteString(pageIntroduction)
	fmt.Fprintf(&page, "Measured on %s at commit %s.\n\n", day.UTC().Format(time.DateOnly), commit)
	page.WriteString("| package | target | inputs | of the package | of the functions |\n|---|---|--:|--:|--:|\n")
	inputs := 0
	for _, r := range rows {
		inputs += r.inputs
		fmt.Fprintf(&page, "| %s | `%s` | %d | %s | %s |\n", r.folder, r.name, r.inputs, percent(r.ran, r.all), percent(r.reached, r.ofTarget))
	}
	fmt.Fprintf(&page, "\n%d targets, %d inputs.\n", len(rows), inputs)
	return page.String()
}

func percent(part, all int) string { return fmt.Sprintf("%d %%", 100*part/max(all, 1)) }

// writePage measures the targets, and writes the page.
func writePage(targets []target, file string) error {
	commit, err := exec.Command("git", "rev-parse", "--short", "HEAD").Output()
	if err != nil {
		return fmt.Errorf("git rev-parse: %w", err)
	}
	scratch, err := os.MkdirTemp("", "fuzz-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch) //nolint:errcheck // a temporary folder
	var rows []row
	for _, t := range targets {
		r, err := t.measure(scratch)
		if err != nil {
			return err
		}
		rows = append(rows, r)
	}
	page := pageOf(rows, strings.TrimSpace(string(commit)), time.Now())
	fmt.Print(page)
	return os.WriteFile(file, []byte(page), 0o644)
}
