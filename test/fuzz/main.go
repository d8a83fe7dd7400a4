// SPDX-License-Identifier: Apache-2.0

// Command fuzz runs the fuzz targets of all modules, one after the other, and counts
// their executions:
//
//	go run ./test/fuzz -time 30s             # each target for 30 s
//	go run ./test/fuzz -time 500000x         # each target 500,000 times
//	go run ./test/fuzz -run 'Order|Version'  # these targets only
//	go run ./test/fuzz -corpus               # and keep the inputs that cover more, in testdata/fuzz
//	go run ./test/fuzz -page FILE            # no fuzzing: measure what the kept inputs cover, and write a page
//
// It runs in the root folder of the repository. A target that fails does not stop the
// others: the command ends with a table of all targets, the files of the inputs that
// failed, and exit code 1.
//
// Go's fuzzer clears and compares a counter for each branch of the program before and
// after each execution. A test that links client-go has half a million of them, nearly
// all in generated code. So only some packages are instrumented: see instrument.go.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == toolexec {
		os.Exit(runTool(os.Args[2:]))
	}
	period := flag.String("time", "30s", "how long each target runs, a `duration` or Nx: so many executions")
	parallel := flag.Int("parallel", 0, "how many processes run a target (default one per core)")
	only := flag.String("run", "", "run only the targets whose name matches this `pattern`")
	corpus := flag.Bool("corpus", false, "then add the inputs that cover more to testdata/fuzz")
	page := flag.String("page", "", "do not fuzz, but measure what the inputs in testdata/fuzz cover, and write it to this `file`")
	flag.Parse()
	err := check(*period, flag.Args())
	switch {
	case err != nil:
	case *page != "":
		err = runPage(*page, *only)
	default:
		err = run(os.Stdout, *period, *parallel, *only, *corpus)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "fuzz:", err)
		os.Exit(1)
	}
}

// check refuses what go test would refuse for each target.
func check(period string, args []string) error {
	duration, err := time.ParseDuration(period)
	if count, isCount := strings.CutSuffix(period, "x"); isCount {
		n, countErr := strconv.Atoi(count)
		duration, err = time.Duration(n), countErr
	}
	switch {
	case err != nil || duration <= 0:
		return fmt.Errorf("the flag -time: got %q, want a duration such as 30s, or a number of executions such as 500000x", period)
	case len(args) > 0:
		return fmt.Errorf("unknown argument %q: select targets with -run", args[0])
	}
	return nil
}

func run(out io.Writer, period string, parallel int, only string, corpus bool) error {
	targets, err := selected(only)
	if err != nil {
		return err
	}
	scratch, err := os.MkdirTemp("", "fuzz-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch) //nolint:errcheck // a temporary folder
	var results []result
	for _, t := range targets {
		r, err := t.fuzz(out, period, parallel)
		if err == nil && corpus && !r.failed {
			err = t.keep(out, scratch, "")
		}
		if err != nil {
			return err
		}
		results = append(results, r)
	}
	return errors.Join(report(out, results), record(results))
}

func runPage(file, only string) error {
	targets, err := selected(only)
	if err != nil {
		return err
	}
	return writePage(targets, file)
}

// selected returns the targets that the flag -run selects.
func selected(only string) ([]target, error) {
	pattern, err := regexp.Compile(only)
	if err != nil {
		return nil, fmt.Errorf("the flag -run: %w", err)
	}
	return targets(pattern)
}
