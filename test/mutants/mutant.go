// SPDX-License-Identifier: Apache-2.0

package main

import (
	"embed"
	"fmt"
	"slices"
	"strings"
)

//go:embed list/*.txt
var lists embed.FS

// mutant is one seeded bug, and the tests that must notice it.
type mutant struct {
	name     string
	breaks   string   // the promise that the bug breaks
	packages []string // whose tests must notice it, like "./cache"; all of one module
	run      string   // the pattern of go test's -run; empty: all tests
	timeout  string   // of go test's -timeout, for a bug that makes a test hang; empty: that of the runner
	in       string   // the declaration that is changed, like "cache.Reader.Get"
	old, new string   // whole lines
}

// readLists returns the mutants of all lists, in the order of the files.
func readLists() ([]mutant, error) {
	files, err := lists.ReadDir("list")
	if err != nil {
		return nil, err
	}
	var all []mutant
	for _, file := range files {
		text, err := lists.ReadFile("list/" + file.Name())
		if err != nil {
			return nil, err
		}
		mutants, err := parse(string(text))
		if err != nil {
			return nil, fmt.Errorf("list/%s: %w", file.Name(), err)
		}
		all = append(all, mutants...)
	}
	for i, m := range all {
		if slices.ContainsFunc(all[:i], func(other mutant) bool { return other.name == m.name }) {
			return nil, fmt.Errorf("two mutants have the name %s: give one another name", m.name)
		}
	}
	return all, nil
}

// parse reads a list: see the package comment for its form.
func parse(text string) ([]mutant, error) {
	var mutants []mutant
	for number, line := range strings.Split(text, "\n") {
		name, begins := strings.CutPrefix(line, "mutant ")
		if begins {
			mutants = append(mutants, mutant{name: name})
			continue
		}
		if line == "" || line[0] == '#' {
			continue
		}
		if len(mutants) == 0 {
			return nil, fmt.Errorf("line %d: %q precedes the first line \"mutant NAME\"", number+1, line)
		}
		if err := mutants[len(mutants)-1].add(line); err != nil {
			return nil, fmt.Errorf("line %d: %w", number+1, err)
		}
	}
	for _, m := range mutants {
		if m.breaks == "" || len(m.packages) == 0 || m.in == "" || m.old == m.new {
			return nil, fmt.Errorf("mutant %s needs the lines \"breaks:\", \"tests:\" and \"in:\", and a change", m.name)
		}
	}
	return mutants, nil
}

// add adds a line of a list.
func (m *mutant) add(line string) error {
	switch line[0] {
	case ' ':
		m.old += line[1:] + "\n"
		m.new += line[1:] + "\n"
		return nil
	case '-':
		m.old += line[1:] + "\n"
		return nil
	case '+':
		m.new += line[1:] + "\n"
		return nil
	}
	key, value, _ := strings.Cut(line, ": ")
	switch key {
	case "breaks":
		m.breaks = value
	case "tests":
		m.packages = strings.Fields(value)
	case "run":
		m.run = value
	case "timeout":
		m.timeout = value
	case "in":
		m.in = value
	default:
		return fmt.Errorf("%q is none of: mutant, breaks, tests, run, timeout, in, and a line of a change", line)
	}
	return nil
}
