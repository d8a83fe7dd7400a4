// SPDX-License-Identifier: Apache-2.0

//go:build unix

package volume

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"k8s.io/apimachinery/pkg/types"
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

// TestWriteFailsHalfWay limits the size of files, so that a file of a new version fails as on a full disk: the old
// version stays, and nothing of the new one is left. The next attempt has the same error, so that the agent
// logs it once.
func TestWriteFailsHalfWay(t *testing.T) {
	dir, path := newDir(t)
	old := text("a", "1", "b/c", "1")
	mustWrite(t, dir, old, true)
	restore := limitFileSize(t)
	large := text("a", "2", "b/c", tooLarge)
	changed, err := write(dir, large, noRecord)
	_, again := write(dir, large, noRecord)
	restore()
	if !errors.Is(err, syscall.EFBIG) || changed {
		t.Errorf("write: got changed %v and error %v, want EFBIG", changed, err)
	}
	if again == nil || again.Error() != err.Error() {
		t.Errorf("second attempt: got error %v, want again %v", again, err)
	}
	checkVolume(t, path, old)
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

// TestFullDisk: issue 8, point 13. While a file cannot be written, Open succeeds on an existing tree, Write fails and
// keeps the version before, and Remove succeeds. A limit on the size of files stands for a full disk.
func TestFullDisk(t *testing.T) {
	root := t.TempDir()
	first := openTree(t, root)
	for _, uid := range []types.UID{"kept", "deleted"} {
		if _, err := first.Write(uid, "v", text("a", "1")); err != nil {
			t.Fatal(err)
		}
	}
	restore := limitFileSize(t)
	tree, openErr := Open(root)
	if openErr != nil {
		restore()
		t.Fatalf("Open on a full disk: got error %v, want none", openErr)
	}
	_, writeErr := tree.Write("kept", "v", text("a", tooLarge))
	uids, podsErr := tree.Pods()
	removeErr := tree.Remove("deleted")
	restore()
	defer release(tree.pods)
	if writeErr == nil {
		t.Error("Write on a full disk: got no error, want one")
	}
	if podsErr != nil || removeErr != nil || len(uids) != 2 {
		t.Errorf("got pods %v and error %v, and error %v of Remove, want two pods and no error", uids, podsErr, removeErr)
	}
	checkVolume(t, tree.Path("kept", "v"), text("a", "1"))
	if _, err := os.Lstat(filepath.Join(root, "pods", "deleted")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("folder of the removed pod: got error %v, want ErrNotExist", err)
	}
}

// maxFileSize is a limit that the log of package testing does not reach: the limit is that of the whole process.
const maxFileSize = 8 << 20

// tooLarge does not fit into a file.
var tooLarge = strings.Repeat("2", maxFileSize+1)

// limitFileSize makes every write beyond maxFileSize bytes of a file fail until restore is called.
func limitFileSize(t *testing.T) (restore func()) {
	t.Helper()
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		t.Skipf("cannot read the limit of file sizes: %v", err)
	}
	tight := limit
	tight.Cur = maxFileSize
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &tight); err != nil {
		t.Skipf("cannot set the limit of file sizes: %v", err)
	}
	return func() {
		t.Helper()
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
			t.Fatal(err)
		}
	}
}
