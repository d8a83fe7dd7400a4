// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// others are what another program may put into the folder of a volume.
var others = map[string]func(dir string) error{
	"a file":                  func(dir string) error { return os.WriteFile(filepath.Join(dir, "x"), []byte("1"), 0o600) },
	"an empty folder":         func(dir string) error { return os.Mkdir(filepath.Join(dir, "x"), 0o700) },
	"a folder that is closed": func(dir string) error { return os.Mkdir(filepath.Join(dir, "x"), 0) },
	"a folder with files": func(dir string) error {
		return errors.Join(os.MkdirAll(filepath.Join(dir, "x", "y"), 0o755), os.WriteFile(filepath.Join(dir, "x", "y", "z"), nil, 0o600))
	},
	"a link to outside":          func(dir string) error { return os.Symlink("/", filepath.Join(dir, "x")) },
	"a link to nowhere":          func(dir string) error { return os.Symlink("nowhere", filepath.Join(dir, "x")) },
	"a link to a file":           func(dir string) error { return os.Symlink("a", filepath.Join(dir, "x")) },
	"a link to ..data":           func(dir string) error { return os.Symlink(dataLink, filepath.Join(dir, "x")) },
	"a link to the file of ours": func(dir string) error { return os.Symlink("..data/a", filepath.Join(dir, "x")) },
	"a hidden file":              func(dir string) error { return os.WriteFile(filepath.Join(dir, ".x"), nil, 0o600) },
	"a name that looks reserved": func(dir string) error { return os.Mkdir(filepath.Join(dir, "..x"), 0o700) },
	"a name like a version":      func(dir string) error { return os.Mkdir(filepath.Join(dir, "2026_11_20_09_30_00.1"), 0o700) },
}

// list returns the entries of a folder but those of the payload: names, types and targets, as deep as they go.
func list(t *testing.T, dir string, payload Payload) map[string]string {
	t.Helper()
	got := map[string]string{}
	visible := payload.visible()
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		name, relErr := filepath.Rel(dir, path)
		switch target, _ := os.Readlink(path); {
		case relErr != nil || name == ".":
			return relErr
		case errors.Is(err, fs.ErrPermission):
			got[name] = "closed"
			return fs.SkipDir
		case err != nil:
			return err
		case entry.IsDir() && versionName.MatchString(name):
			return fs.SkipDir
		case name != dataLink && !visible[name]:
			got[name] = entry.Type().String() + " " + target
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// TestOthersStay: updates of a volume remove nothing that other programs have put into it: by each step of its life, in
// the process that wrote it and in a later one.
func TestOthersStay(t *testing.T) {
	for name, put := range others {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			tree := openTree(t, root)
			dir := tree.Path("uid-1", "v")
			write := func(payload Payload, restart bool) {
				t.Helper()
				if restart {
					tree = openTree(t, root)
				}
				if _, err := tree.Write("uid-1", "v", payload); err != nil {
					t.Fatal(err)
				}
			}
			write(text("a", "1", "b/c", "1"), false)
			if err := put(dir); err != nil {
				t.Fatal(err)
			}
			want := list(t, dir, text("a", "1", "b/c", "1"))
			if len(want) == 0 {
				t.Fatal("the folder has nothing of another program")
			}
			for _, restart := range []bool{false, true} {
				for _, payload := range []Payload{
					text("a", "2", "b/c", "1"), text("a", "2", "b/c", "1"), text("a", "3"), {}, text("b", "4"), text("a", "5", "b/c", "6"),
				} {
					write(payload, restart)
					if diff := cmp.Diff(want, list(t, dir, payload)); diff != "" {
						t.Fatalf("what others put there, after %v (-want +got):\n%s", payload, diff)
					}
				}
			}
		})
	}
}

// TestOthersInTheWay: a file or a folder at the name of a file of the volume stays, and is an error that names it. The
// other files are updated. Once it is removed, the volume is whole.
func TestOthersInTheWay(t *testing.T) {
	for name, put := range others {
		if name == "a hidden file" || name == "a name that looks reserved" || name == "a name like a version" {
			continue // not at x
		}
		t.Run(name, func(t *testing.T) {
			tree := openTree(t, t.TempDir())
			dir := tree.Path("uid-1", "v")
			if _, err := tree.Write("uid-1", "v", text("a", "1", "z", "1")); err != nil {
				t.Fatal(err)
			}
			if err := put(dir); err != nil {
				t.Fatal(err)
			}
			want := list(t, dir, text("a", "1", "z", "1"))
			payload := text("a", "2", "x/y/z", "2", "z", "2")
			_, err := tree.Write("uid-1", "v", payload)
			if err == nil {
				// A link has no data, and the name is that of a file of the volume: it is replaced.
				if info, _ := os.Lstat(filepath.Join(dir, "x")); info.Mode().Type() != fs.ModeSymlink {
					t.Errorf("got no error, and %v at x, want an error", info.Mode())
				}
				checkVolume(t, dir, payload)
				return
			}
			checkError(t, err, filepath.Join(dir, "x")+" is in the way of a file of the volume: remove it")
			if diff := cmp.Diff(want, list(t, dir, text("a", "", "z", ""))); diff != "" {
				t.Errorf("what others put there (-want +got):\n%s", diff)
			}
			for _, file := range []string{"a", "z"} {
				if got, err := os.ReadFile(filepath.Join(dir, file)); err != nil || string(got) != "2" {
					t.Errorf("file %s: got %q and error %v, want it updated", file, got, err)
				}
			}
			if err := os.RemoveAll(filepath.Join(dir, "x")); err != nil {
				t.Fatal(err)
			}
			if changed, err := tree.Write("uid-1", "v", payload); err != nil || !changed {
				t.Errorf("Write again: got changed %v and error %v, want changed", changed, err)
			}
			checkVolume(t, dir, payload)
		})
	}
}

// TestDataLinkOfOthers: ..data leads to a folder that is no version of this package. The volume is repaired, and the
// folder stays.
func TestDataLinkOfOthers(t *testing.T) {
	for _, folder := range []string{"plain", "..plain"} {
		t.Run(folder, func(t *testing.T) {
			tree := openTree(t, t.TempDir())
			dir := tree.Path("uid-1", "v")
			if _, err := tree.Write("uid-1", "v", text("a", "1")); err != nil {
				t.Fatal(err)
			}
			version, err := os.Readlink(filepath.Join(dir, dataLink))
			if err := errors.Join(err, os.Rename(filepath.Join(dir, version), filepath.Join(dir, folder)), relink(folder, filepath.Join(dir, dataLink))); err != nil {
				t.Fatal(err)
			}
			if _, err := tree.Write("uid-1", "v", text("a", "1")); err != nil {
				t.Fatal(err)
			}
			if got, _ := os.Readlink(filepath.Join(dir, dataLink)); !versionName.MatchString(got) {
				t.Errorf("..data: got %q, want a version", got)
			}
			for _, file := range []string{"a", folder + "/a"} {
				if got, err := os.ReadFile(filepath.Join(dir, file)); err != nil || string(got) != "1" {
					t.Errorf("%s: got %q and error %v, want 1", file, got, err)
				}
			}
		})
	}
}
