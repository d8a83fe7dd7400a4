// SPDX-License-Identifier: Apache-2.0

// Command check checks a history in JSON lines. It prints each violation in a line: the number of the event that shows
// it, which is its line in the file, its time, the rule and the object. Then it prints how much it has checked, how
// often it has decided each rule, and the rules that it has never decided: the history lacks the events, or the flag of
// a bound is 0. It exits with 1 if a rule does not hold, and with 2 if it cannot read the file or the file is empty. go
// run exits with 1 in both cases: build the command to tell them apart.
//
//	check [flags] FILE     # - is standard input
//
// The flags are bounds of history.Limits, and -h lists them. By default it checks only -fresh and -immutable-fresh
// of those. Set -attempt only for a history that has requests: without them it reports violations that are none.
// Package history explains the rules.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/refwatch/refwatch/test/history"
)

const usage = `check checks a history in JSON lines, as a history.Recorder writes it.

usage: check [flags] FILE     (- is standard input)

A bound of 0 is not checked. The output says how often each rule was decided:
one that is missing says nothing about the run.

`

func main() { os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

// decided says how often each rule was decided. The others say nothing about the history.
func decided(report history.Report) string {
	var often, never []string
	for _, rule := range history.Rules {
		if n := report.Decided[rule]; n > 0 {
			often = append(often, fmt.Sprintf("%s %d times", rule, n))
		} else {
			never = append(never, rule)
		}
	}
	text := ""
	if len(often) > 0 {
		text = "decided: " + strings.Join(often, ", ") + "\n"
	}
	if len(never) > 0 {
		text += "never decided: " + strings.Join(never, ", ") + "\n"
	}
	return text
}

func run(args []string, stdin io.Reader, stdout, stderr io.Writer) (exitCode int) {
	flags := flag.NewFlagSet("check", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() {
		fmt.Fprint(stderr, usage)
		flags.PrintDefaults()
	}
	limits := history.Limits{}
	flags.DurationVar(&limits.Fresh, "fresh", 15*time.Second, "how soon a Get must return a write")
	flags.DurationVar(&limits.ImmutableFresh, "immutable-fresh", 21*time.Minute, "how soon a Get must return a write of an immutable object")
	flags.DurationVar(&limits.Attempt, "attempt", 0, "how soon after its first reference an object must be requested")
	flags.DurationVar(&limits.Released, "released", 0, "how long after its last reference an object may be requested")
	flags.IntVar(&limits.Failures, "failures", 0, "how many requests may fail in ten seconds")
	flags.IntVar(&limits.ObjectFailures, "object-failures", 0, "how many requests for one object may fail in ten seconds")
	flags.IntVar(&limits.Streams, "streams", 0, "how many streams of an object may be open at once")
	flags.IntVar(&limits.Dials, "dials", 0, "how many connections may be dialed in ten seconds")
	flags.BoolVar(&limits.Forgets, "forgets", false, "the store may return that an object has not synced although it had: with an IdleTimeout, a MaxStaleness or DirectOptions")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return 2
	case flags.NArg() != 1:
		fmt.Fprintf(stderr, "check: got %d files, want one, after the flags; -h lists them\n", flags.NArg())
		return 2
	}
	if limits.Fresh < 0 || limits.ImmutableFresh < 0 || limits.Attempt < 0 || limits.Released < 0 ||
		limits.Failures < 0 || limits.ObjectFailures < 0 || limits.Streams < 0 || limits.Dials < 0 {
		fmt.Fprintln(stderr, "check: a bound must not be negative; 0 is not checked")
		return 2
	}
	input := stdin
	if name := flags.Arg(0); name != "-" {
		file, err := os.Open(name)
		if err != nil {
			fmt.Fprintln(stderr, "check:", err)
			return 2
		}
		defer func() { _ = file.Close() }()
		input = file
	}
	report, err := history.Check(input, limits)
	for _, violation := range report.Violations {
		fmt.Fprintln(stdout, violation)
	}
	if more := report.Count - len(report.Violations); more > 0 {
		fmt.Fprintf(stdout, "and %d more\n", more)
	}
	if report.Events > 0 {
		fmt.Fprintf(stdout, "%d events, %d states checked, %d violations\n%s", report.Events, report.Checked, report.Count, decided(report))
	}
	switch {
	case err != nil:
		fmt.Fprintln(stderr, "check:", err)
		return 2
	case report.Count > 0:
		return 1
	}
	return 0
}
