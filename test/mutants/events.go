// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
)

// result is what the output of go test says.
type result struct {
	passed   []string // tests and subtests
	failed   []string // tests, in the order of their ends, or one of the names of a package's failure
	notBuilt bool
	output   string   // of the compiler, or of what failed
	said     []string // the errors of tests, each after the name of its test or subtest
}

// The failures of a package whose tests have all passed, or in which none has begun.
const (
	goleakFailed = "goleak"
	mainFailed   = "TestMain"
)

// isTest reports whether name is that of a test, not of the failure of a package.
func isTest(name string) bool { return name != goleakFailed && name != mainFailed }

// testEvent is a line of go test -json (go doc test2json).
type testEvent struct {
	Action, Package, Test, Output string
}

// readEvents reads the output of go test -json.
func readEvents(output []byte) result {
	var (
		r       result
		running []string // tests, the last one to begin at the end
		text    strings.Builder
		said    = map[string][]string{} // by test
	)
	for line := range bytes.Lines(output) {
		var e testEvent
		if json.Unmarshal(line, &e) != nil {
			text.Write(line)
			continue
		}
		switch e.Action {
		case "run":
			running = append(running, e.Test)
		case "build-output", "output":
			text.WriteString(e.Output)
			if _, message, found := strings.Cut(e.Output, "_test.go:"); found {
				_, message, _ = strings.Cut(message, ": ")
				said[e.Test] = append(said[e.Test], e.Test+": "+strings.TrimSpace(message))
			}
		case "build-fail":
			r.notBuilt = true
		case "pass", "skip", "fail":
			if e.Test != "" {
				running = slices.DeleteFunc(running, func(name string) bool { return name == e.Test })
			}
			if e.Action == "pass" && e.Test != "" {
				r.passed = append(r.passed, e.Test)
			}
			if e.Action == "fail" && (e.Test != "" || len(r.failed) == 0) {
				r.failed = append(r.failed, failedTest(e.Test, running, text.String()))
				r.said = append(r.said, said[e.Test]...)
			}
		}
	}
	if len(r.failed) > 0 || r.notBuilt {
		r.output = lastLines(text.String(), 40)
	}
	return r
}

// proves reports whether this result, of a run without a mutant, shows that it was the mutant that made name fail.
func (r result) proves(name string) bool {
	if !isTest(name) {
		return len(r.passed) > 0 && len(r.failed) == 0
	}
	return slices.Contains(r.passed, name) && !slices.Contains(r.failed, name)
}

// failedTest returns the name of the test that failed, without that of a subtest. test is empty if a package failed
// after its tests, or before one has ended.
func failedTest(test string, running []string, output string) string {
	switch {
	case test != "":
	case strings.Contains(output, "goleak: Errors on successful test run"):
		return goleakFailed
	case len(running) > 0:
		test = running[len(running)-1] // a panic, or the time was up
	default:
		return mainFailed
	}
	test, _, _ = strings.Cut(test, "/")
	return test
}

func lastLines(text string, n int) string {
	lines := strings.SplitAfter(text, "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "")
}
