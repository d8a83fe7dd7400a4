// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"

	"github.com/refwatch/refwatch/examples/nodeagent/tmpfs"
)

// memory is the tmpfs of the tests: 1 MiB.
var memory = tmpfs.Options{Size: 1 << 20}

// mountsAt returns the lines of mountinfo for mounts below a folder.
func mountsAt(t *testing.T, folder string) []string {
	t.Helper()
	list, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for line := range strings.Lines(string(list)) {
		if m, ok := parseMount(line); ok && strings.HasPrefix(m.point, folder+"/") {
			lines = append(lines, line)
		}
	}
	return lines
}

// TestInMemory: a volume in memory is a tmpfs that holds data only. An update and a later process use the same mount.
// Remove unmounts it. In a user namespace the kernel refuses noswap: that is logged once.
func TestInMemory(t *testing.T) {
	if os.Getenv(inNamespace) == "" {
		rerunInNamespace(t)
		return
	}
	defer klog.CaptureState().Restore()
	logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true)))
	klog.SetLogger(logger)
	root := filepath.Join(t.TempDir(), "a root")
	tree := openTree(t, root)
	for _, payload := range []Payload{text("a", "1"), text("a", "2", "b/c", "2")} {
		if changed, err := tree.WriteInMemory("uid-1", "v", payload, memory); err != nil || !changed {
			t.Fatalf("WriteInMemory: got changed %v and error %v, want changed", changed, err)
		}
		checkVolume(t, tree.Path("uid-1", "v"), payload)
	}
	mounts := mountsAt(t, root)
	if len(mounts) != 1 {
		t.Fatalf("mounts: got %q, want one", mounts)
	}
	for _, want := range []string{"/pods/uid-1/volumes/v ", "nosuid", "nodev", "noexec", " - tmpfs refwatch-nodeagent ", "size=1024k,nr_inodes=1024,mode=755"} {
		if !strings.Contains(mounts[0], want) {
			t.Errorf("mount: got %q, want it to contain %q", mounts[0], want)
		}
	}
	if info, err := os.Stat(tree.Path("uid-1", "v")); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("mode of the volume: got %v and error %v, want 0755", info.Mode(), err)
	}

	// The agent was killed: another process opens the folder.
	tree = openTree(t, root)
	if changed, err := tree.WriteInMemory("uid-1", "v", text("a", "2", "b/c", "2"), memory); err != nil || changed {
		t.Errorf("WriteInMemory after a restart: got changed %v and error %v, want unchanged", changed, err)
	}
	// Turned off in the configuration: the volume stays in memory.
	if _, err := tree.Write("uid-1", "v", text("a", "3")); err != nil {
		t.Error(err)
	}
	checkVolume(t, tree.Path("uid-1", "v"), text("a", "3"))
	if got := mountsAt(t, root); len(got) != 1 {
		t.Errorf("mounts after a restart: got %q, want the one", got)
	}
	if _, err := tree.WriteInMemory("uid-1", "w", text("a", "1"), memory); err != nil {
		t.Error(err)
	}
	log := logger.GetSink().(ktesting.Underlier).GetBuffer().String()
	if got := strings.Count(log, "may be swapped to a disk"); got != 1 {
		t.Errorf("log: got %d lines about noswap for two volumes, want 1:\n%s", got, log)
	}
	if err := tree.Remove("uid-1"); err != nil {
		t.Errorf("Remove: got error %v, want none", err)
	}
	if got := mountsAt(t, root); len(got) != 0 {
		t.Errorf("mounts after Remove: got %q, want none", got)
	}
	if entries, err := os.ReadDir(filepath.Join(root, "pods")); err != nil || len(entries) != 0 {
		t.Errorf("folder of pods: got %v and error %v, want it empty", entries, err)
	}
}

// TestInMemoryNotSwapped: root outside of user namespaces gets a tmpfs that is not swapped.
func TestInMemoryNotSwapped(t *testing.T) {
	if os.Getenv(inNamespace) == "" {
		if os.Geteuid() != 0 {
			t.Skip("the kernel allows noswap only to root")
		}
		// Unshare, not Clone: it keeps the mounts from the host.
		rerun(t, &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS})
		return
	}
	probe := t.TempDir()
	if err := syscall.Mount("none", probe, "tmpfs", 0, "noswap"); errors.Is(err, syscall.EINVAL) {
		t.Skip("this kernel has no noswap")
	}
	if err := syscall.Unmount(probe, 0); err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	tree := openTree(t, root)
	if _, err := tree.WriteInMemory("uid-1", "v", text("a", "1"), memory); err != nil {
		t.Fatal(err)
	}
	if mounts := mountsAt(t, root); len(mounts) != 1 || !strings.Contains(mounts[0], "noswap") {
		t.Errorf("mounts: got %q, want one with noswap", mounts)
	}
	if err := tree.Remove("uid-1"); err != nil {
		t.Error(err)
	}
}

// TestInMemoryFull: a payload beyond the size is an error, and the version before stays.
func TestInMemoryFull(t *testing.T) {
	if os.Getenv(inNamespace) == "" {
		rerunInNamespace(t)
		return
	}
	tree := openTree(t, t.TempDir())
	if _, err := tree.WriteInMemory("uid-1", "v", text("a", "1"), memory); err != nil {
		t.Fatal(err)
	}
	large := text("a", strings.Repeat("2", int(memory.Size)+1))
	if _, err := tree.WriteInMemory("uid-1", "v", large, memory); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("WriteInMemory beyond the size: got error %v, want ENOSPC", err)
	}
	checkVolume(t, tree.Path("uid-1", "v"), text("a", "1"))
	if err := tree.Remove("uid-1"); err != nil {
		t.Error(err)
	}
}

// TestMovesIntoMemory: the files that a volume had on disk are removed, and not only hidden by the mount. A volume that
// is in use is not unmounted.
func TestMovesIntoMemory(t *testing.T) {
	if os.Getenv(inNamespace) == "" {
		rerunInNamespace(t)
		return
	}
	tree := openTree(t, t.TempDir())
	if _, err := tree.Write("uid-1", "v", text("a", "on disk", "b/c", "on disk")); err != nil {
		t.Fatal(err)
	}
	if _, err := tree.WriteInMemory("uid-1", "v", text("a", "in memory"), memory); err != nil {
		t.Fatal(err)
	}
	path := tree.Path("uid-1", "v")
	checkVolume(t, path, text("a", "in memory"))
	open, err := os.Open(filepath.Join(path, "a"))
	if err != nil {
		t.Fatal(err)
	}
	if err := tree.Remove("uid-1"); !errors.Is(err, syscall.EBUSY) {
		t.Errorf("Remove of a volume in use: got error %v, want EBUSY", err)
	}
	checkVolume(t, path, text("a", "in memory"))
	if err := open.Close(); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Unmount(path, 0); err != nil {
		t.Fatal(err)
	}
	if entries, err := os.ReadDir(path); err != nil || len(entries) != 0 {
		t.Errorf("folder below the mount: got %v and error %v, want it empty", entries, err)
	}
}
