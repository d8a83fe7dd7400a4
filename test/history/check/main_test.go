// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/refwatch/refwatch/test/history"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The exit code says whether the history is right, wrong or unreadable, and the output says why.
func TestCheck(t *testing.T) {
	state := func(version string) history.State {
		return history.State{UID: "uid", Version: version, Digest: version}
	}
	recorded := func(versions ...string) string {
		var lines bytes.Buffer
		recorder := history.NewRecorder(history.Options{Output: &lines})
		object := recorder.Object("secrets/default/tls")
		object.Written(state("1"))
		object.Written(state("2"))
		for _, version := range versions {
			object.BeginGet(t.Context()).Return(state(version), nil)
		}
		return lines.String()
	}
	file := filepath.Join(t.TempDir(), "trace.jsonl")
	if err := os.WriteFile(file, []byte(recorded("1", "2")), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		args           []string
		stdin          string
		code           int
		stdout, stderr string
	}{
		"right":         {[]string{"-"}, recorded("1", "2"), 0, "7 events, 2 states checked, 0 violations", ""},
		"decided":       {[]string{"-"}, recorded("1", "2"), 0, "\ndecided: S1 2 times, S2 2 times\nnever decided: S3, S4, S5, S6, S7, S10, L1, L2, L3, L4, L5, L6\n", ""},
		"empty":         {[]string{"-"}, "", 2, "", "check: line 1 of the history is missing: the file is empty"},
		"right file":    {[]string{file}, "", 0, "0 violations", ""},
		"wrong":         {[]string{"-"}, recorded("2", "1"), 1, "event 7, ", ""},
		"wrong rule":    {[]string{"-"}, recorded("2", "1"), 1, ": S2: secrets/default/tls Get returned version 1", ""},
		"no file":       {[]string{file + "x"}, "", 2, "", "no such file"},
		"no argument":   {nil, "", 2, "", "check: got 0 files, want one"},
		"help":          {[]string{"-h"}, "", 0, "", "usage: check"},
		"negative":      {[]string{"-streams=-3", file}, "", 2, "", "check: a bound must not be negative"},
		"unknown flag":  {[]string{"-x"}, "", 2, "", "not defined: -x"},
		"folder":        {[]string{filepath.Dir(file)}, "", 2, "", "is a directory"},
		"no JSON":       {[]string{"-"}, recorded("1") + "{", 2, "5 events", "line 6 of the history: unexpected EOF"},
		"another file":  {[]string{"-"}, `{"kind":"Event"}`, 2, "", `line 1 of the history: json: unknown field "kind"`},
		"no begin":      {[]string{"-"}, `{"op":"dialed"}`, 2, "", "has lost its begin"},
		"unknown field": {[]string{"-"}, recorded() + `{"op":"dialed","port":1}`, 2, "3 events", `line 4 of the history: json: unknown field "port"`},
		"unknown event": {[]string{"-"}, recorded() + `{"op":"x"}`, 1, `event 4, 00:00:00.000: wrong history: unknown event "x"`, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var stdout, stderr strings.Builder
			code := run(test.args, strings.NewReader(test.stdin), &stdout, &stderr)
			if code != test.code || !contains(stdout.String(), test.stdout) || !strings.Contains(stderr.String(), test.stderr) {
				t.Errorf("got code %d and output\n%s%s\nwant code %d and output with %q and %q", code, &stdout, &stderr, test.code, test.stdout, test.stderr)
			}
		})
	}
}

// contains reports whether an output has a text, or is empty as the text is.
func contains(output, text string) bool {
	return strings.Contains(output, text) && (text != "" || output == "")
}
