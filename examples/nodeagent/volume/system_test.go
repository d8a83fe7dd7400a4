// SPDX-License-Identifier: Apache-2.0

//go:build unix

package volume

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestModesIgnoreUmask: with a umask that leaves nothing to others, modes are those that were asked for.
func TestModesIgnoreUmask(t *testing.T) {
	old := syscall.Umask(0o077)
	defer syscall.Umask(old)
	tree := openTree(t, t.TempDir())
	payload := Payload{"all": {Mode: 0o777}, "d/read": {Mode: 0o444}, "d/group": {Mode: 0o640}}
	if _, err := tree.Write("uid-1", "v", payload); err != nil {
		t.Fatal(err)
	}
	path := tree.Path("uid-1", "v")
	checkVolume(t, path, payload)
	for dir, want := range map[string]os.FileMode{path: 0o755, filepath.Dir(path): 0o750} {
		info, err := os.Stat(dir)
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode().Perm(); got != want {
			t.Errorf("%s: got mode %v, want %v", dir, got, want)
		}
	}
}

// TestWriteFailsHalfWay lets the system refuse a file of a new version in the middle, by a limit on the size
// of files, as a full disk would: what was there stays, and nothing of the new version is left.
func TestWriteFailsHalfWay(t *testing.T) {
	dir, path := newDir(t)
	old := text("a", "1", "b/c", "1")
	mustWrite(t, dir, old, true)
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		t.Skipf("cannot read the limit of file sizes: %v", err)
	}
	tight := limit
	tight.Cur = 4096
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &tight); err != nil {
		t.Skipf("cannot set the limit of file sizes: %v", err)
	}
	changed, err := write(dir, text("a", "2", "b/c", strings.Repeat("2", 5000)))
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		t.Fatal(err)
	}
	if !errors.Is(err, syscall.EFBIG) || changed {
		t.Errorf("write: got changed %v and error %v, want EFBIG", changed, err)
	}
	checkVolume(t, path, old)
}
