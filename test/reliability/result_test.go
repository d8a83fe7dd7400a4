// SPDX-License-Identifier: Apache-2.0

package reliability_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/refwatch/refwatch/test/reliability"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// What is recorded is read again, and adds up.
func TestRecord(t *testing.T) {
	name := filepath.Join(t.TempDir(), "results.jsonl")
	t.Setenv(reliability.Variable, "")
	record := func(r reliability.Result) {
		t.Helper()
		if err := reliability.Record(r); err != nil {
			t.Fatal(err)
		}
	}
	record(reliability.Result{Part: "model", Name: "not recorded", Count: 1})
	t.Setenv(reliability.Variable, name)
	record(reliability.Result{Part: "model", Name: "schedules", Count: 3, Violations: 1, Seconds: 1.5, Note: "seed 1"})
	record(reliability.Result{Part: "soak", Name: "schedules", Count: 7})
	record(reliability.Result{Part: "model", Name: "schedules", Count: 4, Seconds: 1})
	record(reliability.Result{Part: "soak", Name: "schedules", Count: 1, Note: "seed 1"})
	record(reliability.Result{Part: "soak", Name: "schedules", Count: 1, Note: "seed 2"})
	record(reliability.Result{Part: "soak", Name: "schedules", Count: 1, Note: "seed 1"})
	got, err := reliability.Read(name)
	if err != nil {
		t.Fatal(err)
	}
	for i := range got {
		if _, err := time.Parse(time.DateOnly, got[i].Day); err != nil {
			t.Errorf("day: %v", err)
		}
		if _, err := exec.Command("git", "rev-parse", "HEAD").Output(); (err == nil) != (got[i].Commit != "") {
			t.Errorf("got commit %q, and of git %v", got[i].Commit, err)
		}
		got[i].Day, got[i].Commit = "", ""
	}
	want := []reliability.Result{
		{Part: "model", Name: "schedules", Count: 7, Violations: 1, Seconds: 2.5, Note: "seed 1"},
		{Part: "soak", Name: "schedules", Count: 10, Note: "seed 1; seed 2"},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	t.Setenv(reliability.Variable, filepath.Join(t.TempDir(), "no", "folder"))
	if err := reliability.Record(want[0]); err == nil {
		t.Error("a file that cannot be written: got no error")
	}
}

func TestReadErrors(t *testing.T) {
	name := filepath.Join(t.TempDir(), "results.jsonl")
	for lines, want := range map[string]string{
		"{}":                     "line 1: a result without a part",
		"{\"part\":\"x\"}":       "line 1: a result without a part or a name: {",
		"\n":                     "line 1: no result",
		`{"part":"x","name":"y"`: "line 1: no result: unexpected end",
		`{"part":"x","name":"` + strings.Repeat("y", 1<<17) + `"}` + "\nno JSON": "line 2",
	} {
		if err := os.WriteFile(name, []byte(lines), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := reliability.Read(name); err == nil || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), want) {
			t.Errorf("%.50q: got error %v, want one of %s with %q", lines, err, name, want)
		}
	}
	if _, err := reliability.Read(filepath.Dir(name)); err == nil {
		t.Error("a folder: got no error")
	}
}

func TestJoin(t *testing.T) {
	list := ""
	for _, text := range []string{"", "a", "b", "", "a", "c; b"} {
		list = reliability.Join(list, text)
	}
	if want := "a; b; c"; list != want {
		t.Errorf("got %q, want %q", list, want)
	}
}
