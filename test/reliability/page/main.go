// SPDX-License-Identifier: Apache-2.0

// Command page writes the results of the runs that search for defects as a page.
//
//	page -o _output/reliability.md RESULTS.jsonl...
//
// It exits with an error if a promise was broken, or if a part was not run.
package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/refwatch/refwatch/test/reliability"
)

// goal is what a full run counts: all results of a part whose names begin with a text.
type goal struct {
	part, prefix string
	count        int64
	what         string
}

var goals = []goal{
	{"model", reliability.Schedules, 100_000, "schedules of the model test"},
	{"model", reliability.FaultRuns, 44_000, "runs with one fault"},
	{"model", reliability.PairRuns, 18_920, "runs with two faults"},
	{"operators", reliability.Schedules, 10_000, "schedules of operators with restarts"},
	{"fuzz", "", 10_000_000, "inputs of the fuzz targets"},
	{"chaos", reliability.Cycles, 100, "cycles of faults on a real control plane"},
	{"mutants", reliability.MutantsCaught, 60, "seeded bugs that the tests notice"},
	{"soak", reliability.StatesChecked, 1_000_000, "states checked in the soak"},
	{"secrets", reliability.SecrecyRuns, 3_200, "runs with a fault, searched for object data"},
}

// sum adds up the results of a goal. It returns false if there is none.
func (g goal) sum(results []reliability.Result) (sum reliability.Result, ok bool) {
	for _, r := range results {
		if r.Part == g.part && strings.HasPrefix(r.Name, g.prefix) {
			ok = true
			sum.Count += r.Count
			sum.Violations += r.Violations
			sum.Seconds += r.Seconds
			sum.Day, sum.Commit = reliability.Join(sum.Day, r.Day), reliability.Join(sum.Commit, r.Commit)
		}
	}
	return sum, ok
}

func main() {
	err := run(os.Args[1:], os.Stderr)
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "page:", err)
		os.Exit(1)
	}
}

func run(args []string, usage io.Writer) error {
	flags := flag.NewFlagSet("page", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // main prints the error
	out := flags.String("o", "", "")
	flags.Usage = func() {
		fmt.Fprintln(usage, "usage: page -o FILE RESULTS.jsonl...")
	}
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *out == "" || flags.NArg() == 0 {
		return errors.New("-o FILE and at least one file of results are required")
	}
	results, err := reliability.Read(flags.Args()...)
	if err != nil {
		return err
	}
	page, problem := pageOf(results)
	if err := os.WriteFile(*out, []byte(page), 0o644); err != nil {
		return err
	}
	return problem
}

// pageOf returns the page, and an error if a promise was broken or a part is missing.
func pageOf(results []reliability.Result) (page string, problem error) {
	var b strings.Builder
	b.WriteString("# Reliability\n\n| what | at least | this run | violations | time | days | commits |\n|---|--:|--:|--:|--:|---|---|\n")
	var problems []error
	for _, g := range goals {
		r, ok := g.sum(results)
		if !ok {
			problems = append(problems, fmt.Errorf("no results: %s (part %s, %q): run make reliability", g.what, g.part, g.prefix))
			continue
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s | %s |\n",
			g.what, thousands(g.count), thousands(r.Count), thousands(r.Violations), took(r), r.Day, r.Commit)
	}
	for _, part := range parts(results) {
		of := slices.DeleteFunc(slices.Clone(results), func(r reliability.Result) bool { return r.Part != part })
		b.WriteString(section(part, of))
		for _, r := range of {
			if r.Violations > 0 {
				problems = append(problems, fmt.Errorf("%s: %s: %d violations", r.Part, r.Name, r.Violations))
			}
		}
	}
	return b.String(), errors.Join(problems...)
}

// section returns the section of a part, or nothing if the part has one result: the table above has it. A part of which
// the table has the sum of all results gets their number, and those with violations.
func section(part string, results []reliability.Result) string {
	if len(results) == 1 && results[0].Violations == 0 {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\n## %s\n\n", title(part))
	summed := slices.ContainsFunc(goals, func(g goal) bool { return g.part == part && g.prefix == "" })
	if summed {
		fewest := slices.MinFunc(results, func(a, b reliability.Result) int { return cmp.Compare(a.Count, b.Count) })
		fmt.Fprintf(&b, "- targets: %d, each with %s inputs or more\n", len(results), thousands(fewest.Count))
	}
	for _, r := range results {
		if summed && r.Violations == 0 {
			continue
		}
		fmt.Fprintf(&b, "- %s: %s", r.Name, thousands(r.Count))
		if r.Violations > 0 {
			fmt.Fprintf(&b, ", **%s violations**", thousands(r.Violations))
		}
		if took := took(r); took != "" {
			b.WriteString(", " + took)
		}
		if r.Note != "" {
			b.WriteString("; " + r.Note)
		}
		b.WriteString("\n")
	}
	return b.String()
}

// parts returns the parts, in the order of their first results.
func parts(results []reliability.Result) (parts []string) {
	for _, r := range results {
		if !slices.Contains(parts, r.Part) {
			parts = append(parts, r.Part)
		}
	}
	return parts
}

func title(part string) string { return strings.ToUpper(part[:1]) + part[1:] }

// took returns how long a run took, to the second.
func took(r reliability.Result) string {
	if r.Seconds == 0 {
		return ""
	}
	return time.Duration(r.Seconds * float64(time.Second)).Round(time.Second).String()
}

// thousands formats a number with commas.
func thousands(n int64) string {
	text := fmt.Sprint(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
