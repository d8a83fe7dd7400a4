// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
)

func openTree(t *testing.T, root string) *Tree {
	t.Helper()
	tree, err := Open(root)
	if err != nil {
		t.Fatalf("Open: got error %v, want none", err)
	}
	// Ignore the error: a test may have closed it already.
	t.Cleanup(func() { _ = tree.Close() })
	return tree
}

func TestTreeLayout(t *testing.T) {
	root := filepath.Join(t.TempDir(), "a", "root")
	tree := openTree(t, root)
	payload := text("tls.crt", "1", "conf/app.yaml", "2")
	changed, err := tree.Write("uid-1", "tls", payload)
	if err != nil || !changed {
		t.Fatalf("Write: got %v and error %v, want a change", changed, err)
	}
	if got, want := tree.Path("uid-1", "tls"), filepath.Join(root, "pods", "uid-1", "volumes", "tls"); got != want {
		t.Errorf("Path: got %s, want %s", got, want)
	}
	checkVolume(t, tree.Path("uid-1", "tls"), payload)
	for name, want := range map[string]fs.FileMode{
		"pods": 0o700, "pods/uid-1": 0o700, "pods/uid-1/volumes": 0o700, "pods/uid-1/volumes/tls": 0o755,
	} {
		info, err := os.Stat(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode().Perm(); got != want {
			t.Errorf("%s: got mode %v, want %v", name, got, want)
		}
	}
}

func TestTreeRemove(t *testing.T) {
	root := t.TempDir()
	tree := openTree(t, root)
	for _, uid := range []types.UID{"uid-1", "uid-2"} {
		if _, err := tree.Write(uid, "v", text("a", "1")); err != nil {
			t.Fatal(err)
		}
	}
	// A link in one pod's folder to another's: Remove must not follow it.
	if err := os.Symlink(filepath.Join("..", "uid-2"), filepath.Join(root, "pods", "uid-1", "link")); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second call finds no folder
		if err := tree.Remove("uid-1"); err != nil {
			t.Errorf("Remove: got error %v, want none", err)
		}
	}
	uids, err := tree.Pods()
	if diff := cmp.Diff([]types.UID{"uid-2"}, uids); diff != "" || err != nil {
		t.Errorf("Pods: got error %v and (-want +got):\n%s", err, diff)
	}
	checkVolume(t, tree.Path("uid-2", "v"), text("a", "1"))
}

// TestReadersDuringRemove: issue 8, point 13. A reader of a pod that is being removed sees all files of a version or
// none: while ..data leads to a version, no file of it is missing.
func TestReadersDuringRemove(t *testing.T) {
	const rounds, files = 30, 100
	tree := openTree(t, t.TempDir())
	payload := Payload{}
	for i := range files {
		payload[fmt.Sprintf("f%d", i)] = File{Data: []byte("1"), Mode: 0o644}
	}
	for range rounds {
		if _, err := tree.Write("uid-1", "v", payload); err != nil {
			t.Fatal(err)
		}
		dir := tree.Path("uid-1", "v")
		version, err := os.Readlink(filepath.Join(dir, dataLink))
		if err != nil {
			t.Fatal(err)
		}
		begun, done := make(chan struct{}), make(chan struct{})
		begin := sync.OnceFunc(func() { close(begun) })
		go func() {
			defer close(done)
			for i := 0; ; i = (i + 1) % files {
				_, err := os.Stat(filepath.Join(dir, version, fmt.Sprintf("f%d", i)))
				begin()
				if err == nil {
					continue
				}
				if now, err := os.Readlink(filepath.Join(dir, dataLink)); err == nil {
					t.Errorf("file f%d is missing from %s, and %s still leads to %s", i, version, dataLink, now)
				}
				return
			}
		}()
		<-begun
		if err := tree.Remove("uid-1"); err != nil {
			t.Error(err)
		}
		<-done
	}
}

// TestTreeConcurrent: volumes of one new pod may be written concurrently.
func TestTreeConcurrent(t *testing.T) {
	tree := openTree(t, t.TempDir())
	var group sync.WaitGroup
	for _, name := range []string{"a", "b", "c", "d"} {
		group.Go(func() {
			if _, err := tree.Write("uid-1", name, text("k", name)); err != nil {
				t.Errorf("Write %s: got error %v, want none", name, err)
			}
		})
	}
	group.Wait()
	checkVolume(t, tree.Path("uid-1", "d"), text("k", "d"))
}

// TestTreeRefuses: Write refuses names that cannot be a path segment and payloads that leave the volume, and creates no
// folder.
func TestTreeRefuses(t *testing.T) {
	root := t.TempDir()
	tree := openTree(t, root)
	for name, tc := range map[string]struct {
		uid     types.UID
		volume  string
		payload Payload
		wantErr string
	}{
		"UID empty":         {"", "v", nil, `pod UID "" cannot name a folder`},
		"UID upwards":       {"..", "v", nil, "cannot name a folder"},
		"UID with a slash":  {"../../etc", "v", nil, "cannot name a folder"},
		"UID hidden":        {".hidden", "v", nil, "cannot name a folder"},
		"UID with newline":  {"uid\n", "v", nil, "cannot name a folder"},
		"UID too long":      {types.UID(strings.Repeat("u", 247)), "v", nil, "cannot name a folder"},
		"volume empty":      {"uid-1", "", nil, `volume name "" is not valid`},
		"volume upwards":    {"uid-1", "..", nil, `volume name ".." is not valid`},
		"volume with slash": {"uid-1", "a/b", nil, "is not valid"},
		"volume upper case": {"uid-1", "A", nil, "is not valid"},
		"payload escapes":   {"uid-1", "v", text("../x", "1"), `path "../x" contains ".."`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := tree.Write(tc.uid, tc.volume, tc.payload)
			checkError(t, err, tc.wantErr)
		})
	}
	if _, err := tree.Write(types.UID(strings.Repeat("u", 246)), "v", nil); err != nil {
		t.Errorf("Write for the longest UID: got error %v, want none", err)
	}
	if err := tree.Remove(types.UID(strings.Repeat("u", 246))); err != nil {
		t.Errorf("Remove of the longest UID: got error %v, want none", err)
	}
	checkError(t, tree.Remove(".."), "cannot name a folder")
	checkError(t, tree.Remove(""), "cannot name a folder")
	if entries, err := os.ReadDir(filepath.Join(root, "pods")); err != nil || len(entries) != 0 {
		t.Errorf("folder of pods: got %v and error %v, want it empty", entries, err)
	}
}

// TestTreeDoesNotFollowLinks replaces each folder on the path to a volume with a link.
func TestTreeDoesNotFollowLinks(t *testing.T) {
	for _, folder := range []string{"pods", "pods/uid-1", "pods/uid-1/volumes", "pods/uid-1/volumes/v"} {
		for name, absolute := range map[string]bool{"out of the root": true, "inside the root": false} {
			t.Run(folder+" "+name, func(t *testing.T) {
				root := t.TempDir()
				target := t.TempDir()
				if !absolute {
					target = "victim"
					if err := os.Mkdir(filepath.Join(root, "victim"), 0o755); err != nil {
						t.Fatal(err)
					}
				}
				openTree(t, root)
				if err := os.MkdirAll(filepath.Join(root, filepath.Dir(folder)), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.RemoveAll(filepath.Join(root, folder)); err != nil {
					t.Fatal(err)
				}
				if err := os.Symlink(strings.Repeat("../", strings.Count(folder, "/"))+target, filepath.Join(root, folder)); err != nil {
					t.Fatal(err)
				}
				tree, err := Open(root)
				if err == nil {
					defer release(tree.pods)
					_, err = tree.Write("uid-1", "v", text("a", "1"))
				}
				if err == nil {
					t.Error("Write through a planted link: got no error, want one")
				}
				if !filepath.IsAbs(target) {
					target = filepath.Join(root, target)
				}
				if entries, err := os.ReadDir(target); err != nil || len(entries) != 0 {
					t.Errorf("target of the link: got %v and error %v, want it unchanged", entries, err)
				}
			})
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	_, err := Open("")
	checkError(t, err, "has no name")

	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	_, err = Open(file)
	checkError(t, err, "creating the root folder")
	_, err = Open(filepath.Join(file, "below"))
	checkError(t, err, "creating the root folder")

	// The layout of kubelet's root folder: an agent would delete kubelet's volumes.
	foreign := t.TempDir()
	if err := os.MkdirAll(filepath.Join(foreign, "pods", "uid-9"), 0o755); err != nil {
		t.Fatal(err)
	}
	_, err = Open(foreign)
	checkError(t, err, "has pods of another program in it")
	if entries, err := os.ReadDir(foreign); err != nil || len(entries) != 1 {
		t.Errorf("foreign folder: got %v and error %v, want it unchanged", entries, err)
	}
}

// TestOpenReadOnly: Open returns an error for a folder that cannot be written.
func TestOpenReadOnly(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("the superuser can write everywhere")
	}
	root := t.TempDir()
	if err := os.Chmod(root, 0o555); err != nil {
		t.Fatal(err)
	}
	_, err := Open(root)
	checkError(t, err, "cannot be written")
}

func TestPodsIgnoresOtherNames(t *testing.T) {
	root := t.TempDir()
	tree := openTree(t, root)
	for _, name := range []string{"uid-1", ".hidden"} {
		if err := os.Mkdir(filepath.Join(root, "pods", name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(root, "pods", "file"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	uids, err := tree.Pods()
	if diff := cmp.Diff([]types.UID{"uid-1"}, uids); diff != "" || err != nil {
		t.Errorf("Pods: got error %v and (-want +got):\n%s", err, diff)
	}
}
