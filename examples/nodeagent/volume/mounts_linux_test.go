// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// inNamespace in the environment means that the test runs in its own mount namespace.
const inNamespace = "REFWATCH_VOLUME_IN_NAMESPACE"

// TestMountsNotEmptied: issue 8, point 13. If something is mounted below, Remove returns an error that names the mount,
// and changes nothing. It succeeds once that is unmounted. Write leaves the mount alone.
func TestMountsNotEmptied(t *testing.T) {
	if os.Getenv(inNamespace) == "" {
		rerunInNamespace(t)
		return
	}
	for where, folder := range map[string]string{
		"beside the volumes": "pods/uid-1/volumes/other", "the pod's folder": "pods/uid-1", "in a volume": "pods/uid-1/volumes/v/stray",
		"a volume": "pods/uid-1/volumes/v", "in the renamed folder": "pods/" + removedPrefix + "uid-1/volumes",
	} {
		for kind, mount := range map[string]func(target string) error{
			"another file system": func(target string) error { return syscall.Mount("none", target, "tmpfs", 0, "") },
			"the same file system": func(target string) error {
				return syscall.Mount(t.TempDir(), target, "", syscall.MS_BIND, "")
			},
		} {
			t.Run(where+", "+kind, func(t *testing.T) { checkMountNotEmptied(t, folder, mount) })
		}
	}
}

func checkMountNotEmptied(t *testing.T, folder string, mount func(target string) error) {
	root := filepath.Join(t.TempDir(), "a root") // mountinfo escapes the space
	tree := openTree(t, root)
	if _, err := tree.Write("uid-1", "v", text("a", "1")); err != nil {
		t.Fatal(err)
	}
	target := filepath.Join(root, folder)
	if err := os.MkdirAll(target, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := mount(target); err != nil {
		t.Fatal(err)
	}
	canary := filepath.Join(target, "canary")
	if err := os.WriteFile(canary, []byte("1"), 0o600); err != nil {
		t.Fatal(err)
	}
	if folder == "pods/uid-1/volumes/v/stray" {
		if _, err := tree.Write("uid-1", "v", text("a", "2")); err != nil {
			t.Errorf("Write beside a mount: got error %v, want none", err)
		}
		_, err := tree.Write("uid-1", "v", text("stray", "2"))
		checkError(t, err, "stray is in the way of a file of the volume: remove it")
	}
	checkError(t, tree.Remove("uid-1"), "is mounted")
	if got, err := os.ReadFile(canary); err != nil || string(got) != "1" {
		t.Errorf("file in the mount: got %q and error %v, want it unchanged", got, err)
	}
	if err := syscall.Unmount(target, 0); err != nil {
		t.Fatal(err)
	}
	if err := tree.Remove("uid-1"); err != nil {
		t.Errorf("Remove after the unmount: got error %v, want none", err)
	}
	if entries, err := os.ReadDir(filepath.Join(root, "pods")); err != nil || len(entries) != 0 {
		t.Errorf("folder of pods: got %v and error %v, want it empty", entries, err)
	}
}

// inContainer in the environment means that the test runs in a mount namespace below that of the agent: its value is
// the folder of a volume, in which it mounts another one.
const inContainer = "REFWATCH_VOLUME_IN_CONTAINER"

// TestMountOfAContainer: in its own mount namespace a container has other volumes mounted on folders in a volume. The
// agent's namespace does not show them. Updates of the volume leave them in place.
func TestMountOfAContainer(t *testing.T) {
	if volume := os.Getenv(inContainer); volume != "" {
		mountInContainer(t, volume)
		return
	}
	if os.Getenv(inNamespace) == "" {
		rerunInNamespace(t)
		return
	}
	tree := openTree(t, t.TempDir())
	if _, err := tree.Write("uid-1", "v", text("a", "1", "b", "1")); err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	command.Env = append(os.Environ(), inContainer+"="+tree.Path("uid-1", "v"))
	command.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	var printed, log bytes.Buffer
	command.Stderr = &log
	input, inputErr := command.StdinPipe()
	output, outputErr := command.StdoutPipe()
	if err := errors.Join(inputErr, outputErr, command.Start()); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(output)
	for lines.Scan() && lines.Text() != "mounted" {
		printed.WriteString(lines.Text() + "\n")
	}
	for _, payload := range []Payload{text("a", "2", "b", "1"), text("a", "2"), {}, text("nested", "3"), text("a", "4", "nested/deep", "4")} {
		_, err := tree.Write("uid-1", "v", payload)
		if _, ok := payload["a"]; !ok && len(payload) > 0 {
			checkError(t, err, "nested is in the way")
		}
	}
	_, err := input.Write([]byte("\n"))
	for lines.Scan() {
		printed.WriteString(lines.Text() + "\n")
	}
	if err := errors.Join(err, command.Wait()); err != nil {
		t.Errorf("in the container: got %v, want its mounts in place; it printed:\n%s%s", err, &printed, &log)
	}
}

// mountInContainer mounts two volumes in a volume, waits, and checks that they are still there.
func mountInContainer(t *testing.T, volume string) {
	var canaries []string
	for _, name := range []string{"nested", "other/deep"} {
		target := filepath.Join(volume, name)
		canary := filepath.Join(target, "canary")
		canaries = append(canaries, canary)
		if err := errors.Join(os.MkdirAll(target, 0o755), syscall.Mount("none", target, "tmpfs", 0, ""), os.WriteFile(canary, nil, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	fmt.Println("mounted")
	if _, err := os.Stdin.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	for _, canary := range canaries {
		if _, err := os.Stat(canary); err != nil {
			t.Errorf("a volume that was mounted is gone: %v", err)
		}
	}
}

// rerunInNamespace runs the test again in a new mount namespace, where it may mount.
func rerunInNamespace(t *testing.T) {
	t.Helper()
	rerun(t, &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}},
	})
}

// rerun runs the test again, in namespaces of its own.
func rerun(t *testing.T, namespaces *syscall.SysProcAttr) {
	t.Helper()
	command := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	command.Env = append(os.Environ(), inNamespace+"=1")
	command.SysProcAttr = namespaces
	var out bytes.Buffer
	command.Stdout, command.Stderr = &out, &out
	if err := command.Start(); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("cannot create a mount namespace, and CI must run this test: %v", err)
		}
		t.Skipf("cannot create a mount namespace: %v", err)
	}
	if err := command.Wait(); err != nil {
		t.Errorf("test in its own mount namespace: got %v, want success; it printed:\n%s", err, &out)
	}
}
