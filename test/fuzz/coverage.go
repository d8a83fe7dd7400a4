// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
)

// block is a run of statements without a branch.
type block struct {
	statements int
	count      int // how often it ran
}

// profile has the blocks of a package, by file and position as go test writes them.
type profile map[string]block

// parseProfile reads what go test -coverprofile writes.
func parseProfile(text []byte) (profile, error) {
	blocks := profile{}
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		if strings.HasPrefix(lines.Text(), "mode: ") {
			continue
		}
		var position string
		var b block
		if _, err := fmt.Sscanf(lines.Text(), "%s %d %d", &position, &b.statements, &b.count); err != nil {
			return nil, fmt.Errorf("the coverage profile has the line %q: %w", lines.Text(), err)
		}
		blocks[position] = b
	}
	return blocks, nil
}

// covered returns how many statements ran, and how many there are.
func (p profile) covered() (ran, all int) {
	for _, b := range p {
		all += b.statements
		if b.count > 0 {
			ran += b.statements
		}
	}
	return ran, all
}

// tester is the test program of a package, which counts how often each block of the package runs.
type tester struct {
	target

	importPath string
	program    string
}

// newTester builds the program in scratch, unless it is there already.
func (t target) newTester(scratch string) (tester, error) {
	list := exec.Command("go", "list", ".")
	list.Dir = t.folder
	name, err := list.Output()
	if err != nil {
		return tester{}, fmt.Errorf("go list in %s: %w", t.folder, err)
	}
	program := tester{target: t, importPath: strings.TrimSpace(string(name))}
	program.program = filepath.Join(scratch, strings.ReplaceAll(program.importPath, "/", "_")+".test")
	if _, err := os.Stat(program.program); err == nil {
		return program, nil
	}
	build := exec.Command("go", "test", "-c", "-covermode=atomic", "-o", program.program, ".")
	build.Dir = t.folder
	if out, err := build.CombinedOutput(); err != nil {
		return tester{}, fmt.Errorf("building the tests of %s: %w\n%s", t.folder, err, out)
	}
	return program, nil
}

// run runs the target on its seeds and on inputs, which are files. It returns the coverage, and the number of inputs.
// The program runs in a folder of its own, so that it finds no other inputs.
func (t tester) run(inputs []string) (profile, int, error) {
	return t.runMatching("", inputs)
}

// runOne runs the target on one input, without its seeds.
func (t tester) runOne(input string) (profile, error) {
	blocks, _, err := t.runMatching("/^"+filepath.Base(input)+"$", []string{input})
	return blocks, err
}

func (t tester) runMatching(pattern string, inputs []string) (profile, int, error) {
	scratch, err := os.MkdirTemp("", "fuzz-")
	if err != nil {
		return nil, 0, err
	}
	defer os.RemoveAll(scratch) //nolint:errcheck // a temporary folder
	for _, input := range inputs {
		if err := copyInto(filepath.Join(scratch, corpusOf(t.name)), input); err != nil {
			return nil, 0, err
		}
	}
	out := filepath.Join(scratch, "profile")
	command := exec.Command(t.program, "-test.v", "-test.run", "^"+t.name+"$"+pattern, "-test.coverprofile", out)
	command.Dir = scratch
	said, err := command.CombinedOutput()
	if err != nil {
		return nil, 0, fmt.Errorf("%s fails with its inputs: %w\n%s", t.name, err, said)
	}
	text, err := os.ReadFile(out)
	if err != nil {
		return nil, 0, err
	}
	blocks, err := parseProfile(text)
	return blocks, bytes.Count(said, []byte("--- PASS: "+t.name+"/")), err
}

// corpusOf returns the folder of a target's inputs, below that of its package.
func corpusOf(name string) string { return path.Join("testdata", "fuzz", name) }

// copyInto copies a file into a folder, which it makes.
func copyInto(folder, file string) error {
	data, err := os.ReadFile(file)
	if err == nil {
		err = os.MkdirAll(folder, 0o755)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(folder, filepath.Base(file)), data, 0o644)
	}
	return err
}

// filesIn returns the files of a folder, which need not exist.
func filesIn(folder string) []string {
	files, _ := filepath.Glob(filepath.Join(folder, "*")) // the pattern is good
	return files
}
