// SPDX-License-Identifier: Apache-2.0

package model_test

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/refwatch/refwatch/test/model"
)

var replay = flag.String("model.replay", "", "a `file` with a schedule, which TestReplay runs")

func TestReplay(t *testing.T) {
	if *replay == "" {
		t.Skip("-model.replay names no file with a schedule")
	}
	text, err := readSchedule(*replay)
	if err != nil {
		t.Fatal(err)
	}
	model.Replay(t, text)
}

// readSchedule reads a file. go test runs in the folder of the package, but the path may also begin at the root of the
// repository, where the user has typed it.
func readSchedule(path string) (string, error) {
	text, err := os.ReadFile(path)
	if os.IsNotExist(err) && !filepath.IsAbs(path) {
		text, err = os.ReadFile(filepath.Join("..", "..", path))
	}
	return string(text), err
}

// The path of a schedule is absolute, or begins in the folder of the package or at the root of the repository.
func TestReadSchedule(t *testing.T) {
	absolute, err := filepath.Abs("replay_test.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{absolute, "replay_test.go", "test/model/replay_test.go"} {
		if text, err := readSchedule(path); err != nil || text == "" {
			t.Errorf("read %s: got %d bytes and %v", path, len(text), err)
		}
	}
	if _, err := readSchedule("nothing"); !os.IsNotExist(err) {
		t.Errorf("read a file that does not exist: got %v", err)
	}
}
