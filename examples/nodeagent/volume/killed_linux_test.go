// SPDX-License-Identifier: Apache-2.0

//go:build linux && amd64

package volume

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/refwatch/refwatch/test/reliability"
	"github.com/refwatch/refwatch/test/testmain"
)

// killedScenario in the environment makes the test binary run the scenario of that name, in the root folder of
// killedRoot.
const (
	killedScenario = "REFWATCH_VOLUME_SCENARIO"
	killedRoot     = "REFWATCH_VOLUME_ROOT"
)

// scenario is a change of the volume "v" of the pod "uid-1" by a process that is killed.
type scenario struct {
	before  Payload // of the volume; nil if there is none
	damage  func(dir string) error
	act     func(tree *Tree) error
	after   Payload // nil if the pod is removed
	memory  bool    // before is in memory
	between bool    // a reader may see nothing between before and after
}

func writes(payload Payload) func(*Tree) error {
	return func(tree *Tree) error { _, err := tree.Write("uid-1", "v", payload); return err }
}

func writesInMemory(payload Payload) func(*Tree) error {
	return func(tree *Tree) error { _, err := tree.WriteInMemory("uid-1", "v", payload, memory); return err }
}

func removes(tree *Tree) error { return tree.Remove("uid-1") }

var (
	one   = text("a", "1", "c/d", "1", "e/f/g", "1")
	two   = text("a", "2", "c", "2", "e/f", strings.Repeat("2", 10_000))
	three = text("a", "2", "c/d", "1", "e/f/g", "1")
)

// tokens returns the payload with all its files as tokens.
func tokens(payload Payload) Payload {
	payload = maps.Clone(payload)
	for name, file := range payload {
		file.Token = true
		payload[name] = file
	}
	return payload
}

var scenarios = map[string]scenario{
	"first version":     {act: writes(one), after: one},
	"update":            {before: one, act: writes(three), after: three},
	"files and folders": {before: one, act: writes(two), after: two},
	"repair": {before: one, act: writes(one), after: one, between: true, damage: func(dir string) error {
		return errors.Join(os.Remove(filepath.Join(dir, dataLink)), os.Remove(filepath.Join(dir, "a")), os.MkdirAll(filepath.Join(dir, tempLink, "x"), 0o755))
	}},
	"removal":           {before: one, act: removes, between: true},
	"removal in memory": {before: one, memory: true, act: removes, between: true},
	"update in memory":  {before: one, memory: true, act: writesInMemory(two), after: two},
	"into memory":       {before: one, act: writesInMemory(two), after: two, between: true},
	"first in memory":   {act: writesInMemory(one), after: one},
	"tokens":            {before: one, act: writes(tokens(two)), after: two},
}

// runScenario is the process that is killed. It acts on one thread, which the test traces.
func runScenario() int {
	runtime.LockOSThread()
	fmt.Println(syscall.Gettid())
	if _, err := syscall.Read(0, make([]byte, 1)); err != nil {
		return 1
	}
	tree, err := Open(os.Getenv(killedRoot))
	if err == nil {
		err = scenarios[os.Getenv(killedScenario)].act(tree)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// TestKilledAtEveryStep kills the process with SIGKILL before each system call that changes a file, a folder, a link
// or a mount. Then a reader sees the version before or the one after, complete, and only the owner may enter the
// folders. A process that starts again completes the change, and nothing else is left; it removes everything with the
// pod.
func TestKilledAtEveryStep(t *testing.T) {
	if os.Getenv(killedScenario) != "" {
		os.Exit(runScenario())
	}
	testmain.Long(t)
	if os.Getenv(inNamespace) == "" {
		rerunInNamespace(t) // for the mounts
		return
	}
	for name, s := range scenarios {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			kills := 0
			for killed := true; killed; kills++ {
				root := t.TempDir()
				s.prepare(t, root)
				killed = runKilled(t, name, root, kills)
				s.check(t, kills, root)
				if t.Failed() {
					t.Fatalf("killed before step %d", kills)
				}
			}
			if kills < 5 {
				t.Errorf("got %d steps, want more", kills)
			}
			t.Logf("%d kills", kills-1)
			if err := reliability.Record(reliability.Result{Part: "secrets", Name: "kills of a process that writes volumes", Count: int64(kills - 1)}); err != nil {
				t.Error(err)
			}
		})
	}
}

func (s scenario) prepare(t *testing.T, root string) {
	t.Helper()
	if s.before == nil {
		return
	}
	tree := openTree(t, root)
	write := writes
	if s.memory {
		write = writesInMemory
	}
	if err := write(s.before)(tree); err != nil {
		t.Fatal(err)
	}
	if s.damage != nil {
		if err := s.damage(tree.Path("uid-1", "v")); err != nil {
			t.Fatal(err)
		}
	}
	if err := tree.Close(); err != nil {
		t.Fatal(err)
	}
}

// check looks at what the killed process has left, and starts again.
func (s scenario) check(t *testing.T, step int, root string) {
	t.Helper()
	seen := readWhole(t, filepath.Join(root, "pods", "uid-1", "volumes", "v"))
	switch {
	case seen == nil && (s.before == nil || s.between):
	case s.before != nil && cmp.Equal(seen, s.before):
	case s.after != nil && cmp.Equal(seen, s.after):
	default:
		t.Errorf("step %d: a reader got %v, want the version before or after", step, slices.Sorted(maps.Keys(seen)))
	}
	checkOwnerOnly(t, root)

	// Another run that starts its process would keep open files of this volume, which then cannot be unmounted.
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	tree := openTree(t, root)
	defer release(tree.pods)
	if s.after != nil {
		if err := s.act(tree); err != nil {
			t.Errorf("step %d: started again: got error %v, want none", step, err)
			return
		}
		checkVolume(t, tree.Path("uid-1", "v"), s.after)
	}
	uids, err := tree.Pods()
	if err != nil {
		t.Error(err)
	}
	for _, uid := range uids {
		if err := tree.Remove(uid); err != nil {
			t.Errorf("step %d: Remove: got error %v, want none", step, err)
		}
	}
	if entries, err := os.ReadDir(filepath.Join(root, "pods")); err != nil || len(entries) != 0 {
		t.Errorf("step %d: folder of pods: got %v and error %v, want it empty", step, entries, err)
	}
	if mounts := mountsAt(t, root); len(mounts) != 0 {
		t.Errorf("step %d: got mounts %q, want none", step, mounts)
	}
}

// readWhole returns the files below ..data, or nil if there is none.
func readWhole(t *testing.T, dir string) Payload {
	t.Helper()
	top, err := filepath.EvalSymlinks(filepath.Join(dir, dataLink))
	if err != nil {
		return nil
	}
	payload := Payload{}
	err = filepath.WalkDir(top, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		data, err := os.ReadFile(path)
		payload[strings.TrimPrefix(path, top+"/")] = File{Data: data, Mode: int32(info.Mode().Perm())}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	return payload
}

// checkOwnerOnly checks that no other user can enter the folders above the volumes.
func checkOwnerOnly(t *testing.T, root string) {
	t.Helper()
	folders, err := filepath.Glob(filepath.Join(root, "pods"))
	more, moreErr := filepath.Glob(filepath.Join(root, "pods", "*"))
	if err := errors.Join(err, moreErr); err != nil {
		t.Fatal(err)
	}
	for _, folder := range append(folders, more...) {
		info, err := os.Lstat(folder)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s: got mode %v, want it for the owner only", folder, info.Mode())
		}
	}
}

// runKilled runs a scenario in a process, and kills it before the n-th system call that changes something. It reports
// false if there is none, and the process has ended.
func runKilled(t *testing.T, name, root string, n int) (killed bool) {
	t.Helper()
	runtime.LockOSThread() // a tracer is a thread
	defer runtime.UnlockOSThread()
	command := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestKilledAtEveryStep$")
	command.Env = append(os.Environ(), killedScenario+"="+name, killedRoot+"="+root)
	var stderr strings.Builder
	command.Stderr = &stderr
	input, inputErr := command.StdinPipe()
	output, outputErr := command.StdoutPipe()
	if err := errors.Join(inputErr, outputErr, command.Start()); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = command.Process.Kill()
		_ = command.Wait() // the tracer has seen how it ended
	}()
	line, err := bufio.NewReader(output).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	thread, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.PtraceAttach(thread); err != nil {
		t.Skipf("cannot trace a process: %v", err)
	}
	wait := func() (status syscall.WaitStatus) {
		if _, err := syscall.Wait4(thread, &status, syscall.WALL, nil); err != nil {
			t.Fatal(err)
		}
		return status
	}
	wait()
	if err := syscall.PtraceSetOptions(thread, syscall.PTRACE_O_TRACESYSGOOD); err != nil {
		t.Fatal(err)
	}
	if _, err := input.Write([]byte("\n")); err != nil {
		t.Fatal(err)
	}
	signal := 0
	for steps := 0; ; {
		if err := syscall.PtraceSyscall(thread, signal); err != nil {
			t.Fatal(err)
		}
		status := wait()
		signal = 0
		switch {
		case status.Exited():
			if status.ExitStatus() != 0 {
				t.Fatalf("the process failed: %s", &stderr)
			}
			return false
		case status.StopSignal() != syscall.SIGTRAP|0x80:
			signal = int(status.StopSignal())
			continue
		}
		if !changes(t, thread) {
			continue
		}
		if steps++; steps > n {
			if err := command.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			wait()
			return true
		}
	}
}

// changes reports whether the system call that a thread begins changes a file, a folder, a link or a mount.
func changes(t *testing.T, thread int) bool {
	t.Helper()
	var regs syscall.PtraceRegs
	if err := syscall.PtraceGetRegs(thread, &regs); err != nil {
		t.Fatal(err)
	}
	const renameat2, fchmodat2 = 316, 452 // not in package syscall
	if int64(regs.Rax) != -int64(syscall.ENOSYS) {
		return false // the call ends
	}
	switch regs.Orig_rax {
	case syscall.SYS_OPENAT:
		return regs.Rdx&syscall.O_CREAT != 0
	case syscall.SYS_WRITE:
		return regs.Rdi > 2
	case syscall.SYS_MKDIRAT, syscall.SYS_FCHMOD, syscall.SYS_FCHMODAT, fchmodat2, syscall.SYS_SYMLINKAT,
		syscall.SYS_RENAMEAT, renameat2, syscall.SYS_UNLINKAT, syscall.SYS_MOUNT, syscall.SYS_UMOUNT2:
		return true
	}
	return false
}
