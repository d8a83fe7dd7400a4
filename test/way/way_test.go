// SPDX-License-Identifier: Apache-2.0

// Package way counts the statements that one plain watched object executes, from its first
// reference to its last: `go test -v ./test/way`.
package way

import (
	"bufio"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/refwatch/refwatch/"

// rooms are the files of objectcache that belong to an option, to another strategy, or to Gets
// that wait for long.
var rooms = []string{"ttl_store.go", "direct_store.go", "idle.go", "hedge.go", "first_read.go"}

// block is a part of a file without a branch.
type block struct {
	file       string
	place      string
	statements int
}

// An object that needs none of the options passes through none of their rooms.
func TestPlainObjectPassesThroughNoRoomOfAnOption(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the library with counters: not with -short")
	}
	without, with := run(t, "TestWayOfNoObject"), run(t, "TestWayOfOnePlainObject")
	files, all, own := map[string]int{}, 0, 0
	for b, count := range with {
		all += b.statements
		if !strings.HasPrefix(b.file, "objectcache/") {
			continue
		}
		own += b.statements
		if count > without[b] {
			files[b.file] += b.statements
		}
	}
	for _, file := range slices.Sorted(maps.Keys(files)) {
		t.Logf("%4d %s", files[file], file)
		for _, room := range rooms {
			if is, _ := path.Match("objectcache/"+room, file); is {
				t.Errorf("%s: %d statements are on the way of a plain object", file, files[file])
			}
		}
	}
	t.Logf("with those of the store without objects: %d statements in objectcache, %d in all", own, all)
	if files["objectcache/references.go"] == 0 {
		t.Error("nothing was counted")
	}
}

// run runs a test of objectcache. It returns how often each block of the library was executed.
func run(t *testing.T, test string) map[block]int {
	t.Helper()
	profile := filepath.Join(t.TempDir(), "profile")
	command := exec.Command("go", "test", "-count=1", "-run=^"+test+"$", "-covermode=atomic", "-coverprofile="+profile, //nolint:gosec // its own test
		"-coverpkg=./objectcache/...,./internal/...,./cache/...", "./objectcache")
	command.Dir = "../.."
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	file, err := os.Open(profile) //nolint:gosec // its own file
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	blocks := map[block]int{}
	for lines := bufio.NewScanner(file); lines.Scan(); {
		var b block
		var count int
		if n, _ := fmt.Sscan(lines.Text(), &b.place, &b.statements, &count); n == 3 && count > 0 {
			b.file, _, _ = strings.Cut(strings.TrimPrefix(b.place, module), ":")
			blocks[b] = count
		}
	}
	return blocks
}
