// SPDX-License-Identifier: Apache-2.0

//go:build unix

package volume

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestModesIgnoreUmask: files have the modes of the payload under a strict umask.
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
	for dir, want := range map[string]os.FileMode{path: 0o755, filepath.Dir(path): 0o700} {
		info, err := os.Stat(dir)
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode().Perm(); got != want {
			t.Errorf("%s: got mode %v, want %v", dir, got, want)
		}
	}
}

// TestModesRepaired: issue 8, point 13. A process that is killed between Mkdir and Chmod leaves a folder with a mode
// from the umask. The next Write sets the mode.
func TestModesRepaired(t *testing.T) {
	old := syscall.Umask(0o077)
	defer syscall.Umask(old)
	root := t.TempDir()
	path := filepath.Join(root, "pods", "uid-1", "volumes", "v")
	if err := openTree(t, root).Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(path, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(root, "pods"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := openTree(t, root).Write("uid-1", "v", text("a", "1")); err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]os.FileMode{"pods": 0o700, "pods/uid-1": 0o700, "pods/uid-1/volumes": 0o700, "pods/uid-1/volumes/v": 0o755} {
		info, err := os.Stat(filepath.Join(root, dir))
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode().Perm(); got != want {
			t.Errorf("%s: got mode %v, want %v", dir, got, want)
		}
	}
}
