// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"os/exec"
	"strings"
	"testing"
)

// progress counts complete lines, however writes split them, and reports the last one.
func TestProgress(t *testing.T) {
	p := &progress{}
	for _, step := range []struct{ write, want, tail string }{
		{"", "starting", ""},
		{"k8s.io/", "starting", "k8s.io/"},
		{"api\n", "1 steps done, now k8s.io/api", "k8s.io/api\n"},
		{"a\nb\nc", "3 steps done, now b", "k8s.io/api\na\nb\nc"},
		{"\n", "4 steps done, now c", "k8s.io/api\na\nb\nc\n"},
	} {
		if n, err := p.Write([]byte(step.write)); n != len(step.write) || err != nil {
			t.Fatalf("got %d and %v, want %d", n, err, len(step.write))
		}
		if got := p.String(); got != step.want {
			t.Errorf("after %q: got %q, want %q", step.write, got, step.want)
		}
		if got := p.tail(); strings.TrimSpace(got) != strings.TrimSpace(step.tail) {
			t.Errorf("after %q: got tail %q, want %q", step.write, got, step.tail)
		}
	}
}

func TestRunWithProgress(t *testing.T) {
	for name, test := range map[string]struct{ script, log, wantError string }{
		"done":   {"echo fine", "e2e: built it", ""},
		"failed": {"echo out; echo err >&2; exit 3", "e2e: building it", "building it: exit status 3\nout\nerr"},
	} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			err := runWithProgress(exec.Command("/bin/sh", "-c", test.script), &log, "it")
			if got := errorText(err); got != test.wantError {
				t.Errorf("got error %q, want %q", got, test.wantError)
			}
			if !strings.Contains(log.String(), test.log) {
				t.Errorf("got log %q, want it to contain %q", log.String(), test.log)
			}
		})
	}
	if err := runWithProgress(exec.Command("/nonexistent"), &bytes.Buffer{}, "it"); err == nil {
		t.Error("no program: got no error, want one")
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return strings.TrimSpace(err.Error())
}
