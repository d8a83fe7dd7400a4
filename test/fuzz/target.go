// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/refwatch/refwatch/test/reliability"
)

// target is a fuzz target.
type target struct{ folder, name string }

// result is what became of a target.
type result struct {
	target

	execs    int64
	duration time.Duration
	failed   bool
	input    string // the file of the input that failed, if go has kept one
}

var declaration = regexp.MustCompile(`^(.*)/[^/]*:func (Fuzz\w*)\(`)

// targets returns the targets of all modules whose names match.
func targets(pattern *regexp.Regexp) (found []target, err error) {
	lines, err := exec.Command("git", "grep", "--untracked", "-E", "^func Fuzz", "--", "*_test.go").Output()
	var exit *exec.ExitError
	if err != nil && (!errors.As(err, &exit) || exit.ExitCode() != 1) { // 1: no line matches
		return nil, fmt.Errorf("looking for targets with git grep, which needs the repository: %w", err)
	}
	for line := range strings.Lines(string(lines)) {
		if match := declaration.FindStringSubmatch(line); match != nil && pattern.MatchString(match[2]) {
			found = append(found, target{folder: match[1], name: match[2]})
		}
	}
	if found == nil {
		return nil, fmt.Errorf("no fuzz target in this folder, or below it, has a name that matches %q", pattern)
	}
	return found, nil
}

// minimizing limits how long go test looks for a smaller input with the same coverage.
// Its default is a minute for each input, in which it explores nothing.
const minimizing = "-fuzzminimizetime=100x"

// fuzz runs a target. An error means that it could not be run.
func (t target) fuzz(out io.Writer, period string, parallel int) (result, error) {
	self, err := os.Executable()
	if err != nil {
		return result{}, err
	}
	args := []string{"test", "-toolexec", self + " " + toolexec, "-run", "^$", "-fuzz", "^" + t.name + "$",
		"-fuzztime", period, minimizing}
	if parallel > 0 {
		args = append(args, "-parallel", strconv.Itoa(parallel))
	}
	command := exec.Command("go", append(args, ".")...)
	command.Dir = t.folder
	command.Stderr = out
	stdout, err := command.StdoutPipe()
	if err != nil {
		return result{}, err
	}
	fmt.Fprintf(out, "== %s %s\n", t.folder, t.name)
	if err := command.Start(); err != nil {
		return result{}, err
	}
	r := result{target: t}
	r.follow(stdout, out)
	r.failed = command.Wait() != nil || r.execs == 0 // a target that did not run proves nothing
	return r, nil
}

var (
	progress = regexp.MustCompile(`^fuzz: elapsed: (\w+), execs: (\d+) `)
	kept     = regexp.MustCompile(`^\s*Failing input written to (.*)$`)
)

// follow reads the output of go test, and copies it to out.
func (r *result) follow(stdout io.Reader, out io.Writer) {
	for lines := bufio.NewReader(stdout); ; { // a failure may quote an input, in a line of any length
		line, err := lines.ReadString('\n')
		fmt.Fprint(out, line)
		r.read(strings.TrimSuffix(line, "\n"))
		if err != nil {
			return
		}
	}
}

// read reads a line of go test.
func (r *result) read(line string) {
	if match := progress.FindStringSubmatch(line); match != nil {
		r.duration, _ = time.ParseDuration(match[1])
		r.execs, _ = strconv.ParseInt(match[2], 10, 64)
	}
	if match := kept.FindStringSubmatch(line); match != nil {
		r.input = filepath.Join(r.folder, match[1])
	}
}

// report prints a table, and the inputs that failed. It returns an error if a target
// failed.
func report(out io.Writer, results []result) error {
	var execs int64
	var duration time.Duration
	var failed []string
	row := func(name string, execs int64, duration time.Duration, note string) {
		fmt.Fprintf(out, "%-60s %12d %8s %9.0f/s %s\n", name, execs, duration, float64(execs)/max(duration.Seconds(), 1), note)
	}
	fmt.Fprintf(out, "\n%-60s %12s %8s %11s\n", "target", "executions", "time", "rate")
	for _, r := range results {
		name, note := r.folder+" "+r.name, ""
		if r.failed {
			failed, note = append(failed, name), "FAILED"
		}
		row(name, r.execs, r.duration, note)
		execs, duration = execs+r.execs, duration+r.duration
	}
	row(fmt.Sprintf("%d targets", len(results)), execs, duration, "")
	for _, r := range results {
		if r.input != "" {
			fmt.Fprintf(out, "%s fails with the input in %s, which each go test of the package runs from now on.\n", r.name, r.input)
		}
	}
	if failed != nil {
		fmt.Fprintln(out, "Run one with: go test -run 'Target/input' ./folder")
		return fmt.Errorf("failed: %s", strings.Join(failed, ", "))
	}
	return nil
}

// record adds the counts to those of make reliability. A target that failed counts as
// one violation.
func record(results []result) error {
	var errs []error
	for _, r := range results {
		violations := int64(0)
		if r.failed {
			violations = 1
		}
		errs = append(errs, reliability.Record(reliability.Result{
			Part: "fuzz", Name: r.name, Count: r.execs, Violations: violations, Seconds: r.duration.Seconds(), Note: r.folder,
		}))
	}
	return errors.Join(errs...)
}
