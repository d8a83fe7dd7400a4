// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"io"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/refwatch/refwatch/test/reliability"
)

// The lines are those of go test.
const passed = `fuzz: elapsed: 0s, gathering baseline coverage: 0/4 completed
fuzz: elapsed: 3s, execs: 22480 (7491/sec), new interesting: 13 (total: 17)
fuzz: elapsed: 1m6s, execs: 44960 (0/sec), new interesting: 13 (total: 17)
PASS
`

const broken = `fuzz: elapsed: 4s, execs: 7 (2/sec), new interesting: 0 (total: 1)
--- FAIL: FuzzOrder (3.66s)
    Failing input written to testdata/fuzz/FuzzOrder/b540f53bbec4c9c0
FAIL
`

func read(r result, lines string) result {
	r.follow(strings.NewReader(lines), io.Discard)
	return r
}

// A line of any length, and one without an end, hides none of the others.
func TestFollow(t *testing.T) {
	var out strings.Builder
	var r result
	lines := "    slot_test.go:9: got " + strings.Repeat("x", 1<<20) + "\n" + strings.TrimSuffix(passed, "\n")
	r.follow(strings.NewReader(lines), &out)
	if r.execs != 44960 || out.String() != lines {
		t.Errorf("got %d executions and %d bytes of output, want 44960 and %d", r.execs, out.Len(), len(lines))
	}
}

func TestReport(t *testing.T) {
	file := filepath.Join(t.TempDir(), "results")
	t.Setenv(reliability.Variable, file)
	order := target{"cache", "FuzzOrder"}
	good, bad := read(result{target: target{"manager", "FuzzVisitPod"}}, passed), read(result{target: order, failed: true}, broken)
	if good.execs != 44960 || good.duration != 66*time.Second || bad.input != "cache/testdata/fuzz/FuzzOrder/b540f53bbec4c9c0" {
		t.Errorf("got %+v and %+v", good, bad)
	}
	var out bytes.Buffer
	if err := report(&out, []result{good}); err != nil {
		t.Errorf("report: got %v, want nil", err)
	}
	err := report(&out, []result{good, bad})
	if err == nil || !strings.Contains(err.Error(), "cache FuzzOrder") {
		t.Errorf("report: got %v, want an error that names the target", err)
	}
	for _, want := range []string{"44967", "1m10s", "FAILED", bad.input} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("report: got no %q in:\n%s", want, &out)
		}
	}
	if err := record([]result{good, bad}); err != nil {
		t.Fatal(err)
	}
	got, err := reliability.Read(file)
	if err != nil || len(got) != 2 || got[0].Count != 44960 || got[0].Violations != 0 || got[1].Violations != 1 {
		t.Errorf("results: got %+v and %v", got, err)
	}
}

func TestTargets(t *testing.T) {
	t.Chdir("../..")
	got, err := targets(regexp.MustCompile("^Fuzz(Order|VisitPod)$"))
	if want := []target{{"internal/states", "FuzzOrder"}, {"manager", "FuzzVisitPod"}}; err != nil || !slices.Equal(got, want) {
		t.Errorf("got %v and %v, want %v", got, err, want)
	}
	if _, err := targets(regexp.MustCompile("^$")); err == nil {
		t.Error("no target matches: got no error")
	}
}

func TestCheck(t *testing.T) {
	for _, good := range []string{"30s", "1m30s", "500000x"} {
		if err := check(good, nil); err != nil {
			t.Errorf("-time %s: got %v, want no error", good, err)
		}
	}
	for _, bad := range []string{"", "x", "30", "-1s", "0x", "1.5x"} {
		if err := check(bad, nil); err == nil {
			t.Errorf("-time %q: got no error", bad)
		}
	}
	if err := check("30s", []string{"./cache"}); err == nil {
		t.Error("an argument: got no error")
	}
}

func TestIsInstrumented(t *testing.T) {
	for name, want := range map[string]bool{
		"github.com/refwatch/refwatch/cache":                true,
		"github.com/refwatch/refwatch/cache_test":           true,
		"k8s.io/apimachinery/pkg/runtime/serializer/json":   true,
		"k8s.io/apimachinery/pkg/runtime":                   false,
		"k8s.io/api/core/v1":                                false,
		"github.com/refwatch/refwatchers":                   false,
		"github.com/refwatch/refwatch/internal/redact":      true,
		"github.com/refwatch/refwatch.test":                 true,
		"github.com/refwatch/refwatch/internal/h2 [x.test]": true,
	} {
		if got := isInstrumented([]string{"compile", "-o", "x", "-p", name, "-d=libfuzzer"}); got != want {
			t.Errorf("%s: got %t, want %t", name, got, want)
		}
	}
	if isInstrumented([]string{"compile", "-V=full"}) || isInstrumented([]string{"compile", "-p"}) {
		t.Error("arguments without a package: got true, want false")
	}
}

// The compiler that counts fewer branches has a version of its own, for go's build cache.
func TestVersionOfTheCompiler(t *testing.T) {
	tool, err := output("go", "tool", "-n", "compile")
	if err != nil {
		t.Fatal(err)
	}
	self := filepath.Join(t.TempDir(), "fuzz")
	if _, err := output("go", "build", "-o", self, "."); err != nil {
		t.Fatal(err)
	}
	plain, _ := output(tool, "-V=full")
	got, err := output(self, toolexec, tool, "-V=full")
	if rest, ok := strings.CutPrefix(got, plain); err != nil || !ok || rest == "" {
		t.Errorf("got %q and %v, want %q and more", got, err, plain)
	}
}

func output(name string, args ...string) (string, error) {
	out, err := exec.Command(name, args...).Output()
	return strings.TrimSpace(string(out)), err
}
