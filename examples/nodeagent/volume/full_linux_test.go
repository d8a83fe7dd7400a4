// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/refwatch/refwatch/examples/nodeagent/tmpfs"
	"github.com/refwatch/refwatch/test/reliability"
)

// fullDisk is a small file system, of which a test takes all but a few free inodes or pages.
type fullDisk struct {
	*testing.T

	root   string
	filler string
}

// newFullDisk mounts a tmpfs that holds the volume "v" with a payload.
func newFullDisk(t *testing.T, payload Payload) (*fullDisk, *Tree) {
	t.Helper()
	d := &fullDisk{T: t, root: t.TempDir()}
	d.filler = filepath.Join(d.root, "filler")
	if err := syscall.Mount("none", d.root, "tmpfs", 0, "size=256k,nr_inodes=128"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(d.root, 0); err != nil {
			t.Error(err)
		}
	})
	if err := os.Mkdir(d.filler, 0o700); err != nil {
		t.Fatal(err)
	}
	tree := openTree(t, filepath.Join(d.root, "agent"))
	if _, err := tree.Write("uid-1", "v", payload); err != nil {
		t.Fatal(err)
	}
	return d, tree
}

// leaveInodes creates empty files until n inodes are free.
func (d *fullDisk) leaveInodes(n int) {
	d.fill(n, func(i int) error { return os.WriteFile(filepath.Join(d.filler, strconv.Itoa(i)), nil, 0o600) })
}

// leavePages writes files of a page until n pages are free.
func (d *fullDisk) leavePages(n int) {
	d.fill(n, func(i int) error {
		return os.WriteFile(filepath.Join(d.filler, strconv.Itoa(i)), make([]byte, os.Getpagesize()), 0o600)
	})
}

func (d *fullDisk) fill(n int, take func(i int) error) {
	d.Helper()
	var err error
	taken := 0
	for ; err == nil; taken++ {
		err = take(taken)
	}
	if !errors.Is(err, syscall.ENOSPC) {
		d.Fatal(err)
	}
	for i := range n + 1 { // the last one may be there, empty
		if err := os.RemoveAll(filepath.Join(d.filler, strconv.Itoa(taken-1-i))); err != nil {
			d.Fatal(err)
		}
	}
}

// free makes room again.
func (d *fullDisk) free() {
	d.Helper()
	if err := errors.Join(os.RemoveAll(d.filler), os.Mkdir(d.filler, 0o700)); err != nil {
		d.Fatal(err)
	}
}

// TestFullDiskAtEveryStep leaves room for the first n inodes or pages of a change, for every n. Write fails
// with ENOSPC,
// names the file, and leaves the version before, whole, and no part of the new one; or it succeeds. With room again
// it succeeds. Remove succeeds without any room.
func TestFullDiskAtEveryStep(t *testing.T) {
	if os.Getenv(inNamespace) == "" {
		rerunInNamespace(t)
		return
	}
	before := text("a", "1", "b", "1", "c/d", "1")
	after := text("a", strings.Repeat("2", 10_000), "c/d", strings.Repeat("2", 5000), "e/f", "2", "g", "2")
	leave := map[string]func(*fullDisk, int){"inodes": (*fullDisk).leaveInodes, "pages": (*fullDisk).leavePages}
	failures := 0
	for _, what := range slices.Sorted(maps.Keys(leave)) {
		t.Run(what, func(t *testing.T) {
			succeeded := false
			for n := 0; !succeeded && n < 40; n++ {
				d, tree := newFullDisk(t, before)
				leave[what](d, n)
				_, err := tree.Write("uid-1", "v", after)
				if succeeded = err == nil; !succeeded {
					failures++
					if !errors.Is(err, syscall.ENOSPC) {
						t.Errorf("%d %s: got error %v, want ENOSPC", n, what, err)
					}
					if seen := readWhole(t, tree.Path("uid-1", "v")); fmt.Sprint(seen) != fmt.Sprint(before) && fmt.Sprint(seen) != fmt.Sprint(after) {
						t.Errorf("%d %s: a reader got %v, want the version before or after", n, what, slices.Sorted(maps.Keys(seen)))
					}
					if versions, err := filepath.Glob(filepath.Join(tree.Path("uid-1", "v"), "..2*")); len(versions) != 1 {
						t.Errorf("%d %s: got versions %q and error %v, want one", n, what, versions, err)
					}
				}
				d.free()
				if _, err := tree.Write("uid-1", "v", after); err != nil {
					t.Errorf("with room again: got error %v, want none", err)
				}
				checkVolume(t, tree.Path("uid-1", "v"), after)
				leave[what](d, 0)
				if err := tree.Remove("uid-1"); err != nil {
					t.Errorf("Remove without room: got error %v, want none", err)
				}
				if uids, err := tree.Pods(); len(uids) != 0 {
					t.Errorf("after Remove: got pods %v and error %v, want none", uids, err)
				}
				release(tree.pods)
			}
			if !succeeded {
				t.Error("got no success, want one with enough room")
			}
		})
	}
	t.Logf("%d failures", failures)
	if failures < 10 {
		t.Errorf("got %d failures, want more", failures)
	}
	if err := reliability.Record(reliability.Result{Part: "secrets", Name: "writes of volumes on a full disk", Count: int64(failures)}); err != nil {
		t.Error(err)
	}
}

// TestNoTmpfs: where a tmpfs cannot be mounted, a volume that is to be in memory is not written at all, and the error
// says what to do.
func TestNoTmpfs(t *testing.T) {
	if os.Getenv(inNamespace) == "" {
		// A user namespace without a mount namespace has no right to mount.
		rerun(t, &syscall.SysProcAttr{
			Cloneflags:  syscall.CLONE_NEWUSER,
			UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}},
		})
		return
	}
	tree := openTree(t, t.TempDir())
	_, err := tree.WriteInMemory("uid-1", "v", text("a", "1"), tmpfs.Options{Size: 1 << 20})
	if !errors.Is(err, syscall.EPERM) {
		t.Errorf("WriteInMemory: got error %v, want EPERM", err)
	}
	checkError(t, err, "give the agent CAP_SYS_ADMIN, or turn tmpfs off")
	if entries, err := os.ReadDir(tree.Path("uid-1", "v")); err != nil || len(entries) != 0 {
		t.Errorf("folder of the volume: got %v and error %v, want it empty", entries, err)
	}
}
