// SPDX-License-Identifier: Apache-2.0

package conformance_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/refwatch/refwatch/test/conformance"
)

func TestReadFiles(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "results", "one.json")
	var empty conformance.Results
	if err := empty.WriteFile(path); err != nil {
		t.Fatal(err)
	}
	if got, err := conformance.ReadFiles(path); err != nil || len(got) != 0 {
		t.Errorf("empty: got %v, %v, want no results", got, err)
	}
	const two = `[{"Case":"a","Server":"real","Passed":true},{"Case":"b","Engine":"parked","Mode":"WatchList, JSON"}]`
	if err := os.WriteFile(path, []byte(two), 0o600); err != nil {
		t.Fatal(err)
	}
	want := []conformance.Result{{Case: "a", Server: "real", Passed: true}, {Case: "b", Engine: "parked", Mode: "WatchList, JSON"}}
	if got, err := conformance.ReadFiles(path); err != nil || !cmp.Equal(got, want) {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
	if _, err := conformance.ReadFiles(filepath.Join(dir, "missing")); err == nil {
		t.Error("a missing file: got no error")
	}
	if err := os.WriteFile(path, []byte("<html>"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := conformance.ReadFiles(path); err == nil {
		t.Error("not JSON: got no error")
	}
}
