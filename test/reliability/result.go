// SPDX-License-Identifier: Apache-2.0

// Package reliability collects the counts of all runs that search for defects: the model test, the fault matrix,
// fuzzing, the chaos and soak runs, the search for object data, and the mutants. The command page writes
// the page of make reliability from them.
package reliability

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// Variable is the environment variable that names the file of results.
const Variable = "RELIABILITY_RESULTS"

// separator stands between the notes, days and commits of results that are added up.
const separator = "; "

// What a full run has a goal for: the names of results, or their beginnings. Fuzz targets have the part fuzz, and names
// of their own.
const (
	Schedules     = "schedules"                           // of the parts model and operators
	FaultRuns     = "runs with one fault"                 // of the part model
	PairRuns      = "runs with two faults"                // of the part model
	Cycles        = "cycles of load, faults and recovery" // of the part chaos
	StatesChecked = "states checked"                      // of the part soak
	MutantsCaught = "caught"                              // of the part mutants
	SecrecyRuns   = "fault runs searched for object data" // of the part secrets
)

// Result is one count of a run.
type Result struct {
	// Part is the kind of run, such as model, fuzz, chaos, soak or mutants. Name is what was counted.
	Part string `json:"part"`
	Name string `json:"name"`
	// Count is how many there were, and Violations how many broke a promise.
	Count      int64 `json:"count"`
	Violations int64 `json:"violations"`
	// Seconds is how long the run took.
	Seconds float64 `json:"seconds,omitempty"`
	// Note is one line for the reader, such as a seed. It is optional.
	Note string `json:"note,omitempty"`
	// Day is when it was recorded, such as 2026-01-31, and Commit what ran, as git describes it; empty without git.
	// Record sets both.
	Day    string `json:"day,omitempty"`
	Commit string `json:"commit,omitempty"`
}

// Record appends a result to the file that the environment names, with the day and the commit. Without the variable it
// does nothing. Processes may call it at the same time.
func Record(r Result) error {
	name := os.Getenv(Variable)
	if name == "" {
		return nil
	}
	r.Day, r.Commit = time.Now().UTC().Format(time.DateOnly), commit()
	line, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("result %s of %s: %w", r.Name, r.Part, err)
	}
	file, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("file of %s: %w", Variable, err)
	}
	_, err = file.Write(append(line, '\n')) // one write, so that lines do not mix
	return errors.Join(err, file.Close())
}

// commit returns the name that git gives what runs: "dirty" if there are changes. It is empty in a copy without
// git.
func commit() string {
	name, err := exec.Command("git", "describe", "--always", "--abbrev=10").Output()
	if err != nil {
		return ""
	}
	changed := exec.Command("git", "diff", "--quiet", "HEAD", "--", ":(top)").Run()
	if changed != nil {
		return strings.TrimSpace(string(name)) + "-dirty"
	}
	return strings.TrimSpace(string(name))
}

// Read reads files of results, and adds up those of the same part and name. Their order is that of their first lines.
// Different notes, days and commits stay.
func Read(files ...string) ([]Result, error) {
	var results []Result
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		number := 0
		for line := range bytes.Lines(text) {
			number++
			var r Result
			if err := json.Unmarshal(line, &r); err != nil {
				return nil, fmt.Errorf("%s, line %d: no result: %w", name, number, err)
			}
			if r.Part == "" || r.Name == "" {
				return nil, fmt.Errorf("%s, line %d: a result without a part or a name: %s", name, number, bytes.TrimSpace(line))
			}
			results = merge(results, r)
		}
	}
	return results, nil
}

// merge adds r to the result of the same part and name.
func merge(results []Result, r Result) []Result {
	same := func(other Result) bool { return other.Part == r.Part && other.Name == r.Name }
	i := slices.IndexFunc(results, same)
	if i < 0 {
		return append(results, r)
	}
	sum := &results[i]
	sum.Count += r.Count
	sum.Violations += r.Violations
	sum.Seconds += r.Seconds
	sum.Note = Join(sum.Note, r.Note)
	sum.Day, sum.Commit = Join(sum.Day, r.Day), Join(sum.Commit, r.Commit)
	return results
}

// Join adds what a list of texts lacks.
func Join(list, other string) string {
	texts := strings.Split(list, separator)
	for text := range strings.SplitSeq(other, separator) {
		if !slices.Contains(texts, text) {
			texts = append(texts, text)
		}
	}
	return strings.Trim(strings.Join(texts, separator), separator)
}
