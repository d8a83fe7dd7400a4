// SPDX-License-Identifier: Apache-2.0

package volume

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// newDir returns an open, empty folder for a volume, and its path.
func newDir(t *testing.T) (*os.Root, string) {
	t.Helper()
	path := t.TempDir()
	dir, err := os.OpenRoot(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { release(dir) })
	return dir, path
}

func text(pairs ...string) Payload {
	payload := Payload{}
	for i := 0; i < len(pairs); i += 2 {
		payload[pairs[i]] = File{Data: []byte(pairs[i+1]), Mode: 0o644}
	}
	return payload
}

// noRecord is for a volume without tokens.
func noRecord(string) error { return nil }

// mustWrite writes the payload, and checks whether write reports a change.
func mustWrite(t *testing.T, dir *os.Root, payload Payload, wantChanged bool) {
	t.Helper()
	changed, err := write(dir, payload, noRecord)
	if err != nil || changed != wantChanged {
		t.Fatalf("write: got changed %v and error %v, want %v and none", changed, err, wantChanged)
	}
}

// checkVolume compares a volume's folder with the payload: visible links, files, modes, and nothing else.
func checkVolume(t *testing.T, dir string, want Payload) {
	t.Helper()
	version, err := os.Readlink(filepath.Join(dir, dataLink))
	if err != nil {
		t.Fatal(err)
	}
	got := Payload{}
	top := map[string]string{}
	err = fs.WalkDir(os.DirFS(dir), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		inside := strings.TrimPrefix(name, version+"/")
		switch info, err := entry.Info(); {
		case err != nil:
			return err
		case info.Mode()&fs.ModeSymlink != 0:
			target, err := os.Readlink(filepath.Join(dir, name))
			top[name] = target
			return err
		case info.IsDir() && name != "." && info.Mode().Perm() != volumeDirMode:
			t.Errorf("folder %s: got mode %v, want %v", name, info.Mode(), volumeDirMode)
		case !info.IsDir():
			data, err := os.ReadFile(filepath.Join(dir, name))
			got[inside] = File{Data: data, Mode: int32(info.Mode())}
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("unexpected files (-want +got):\n%s", diff)
	}
	wantTop := map[string]string{dataLink: version}
	for name := range want.visible() {
		wantTop[name] = path.Join(dataLink, name)
	}
	if diff := cmp.Diff(wantTop, top); diff != "" {
		t.Errorf("unexpected links (-want +got):\n%s", diff)
	}
}

// TestWriteSteps changes a volume in every way. After each step the folder is exactly right, and writing the same
// payload again changes nothing.
func TestWriteSteps(t *testing.T) {
	dir, path := newDir(t)
	modes := text("a", "1")
	modes["a"] = File{Data: []byte("1"), Mode: 0o400}
	for _, step := range []struct {
		name    string
		payload Payload
	}{
		{"first", text("a", "1", "b", "1")},
		{"content", text("a", "2", "b", "1")},
		{"same length", text("a", "3", "b", "1")},
		{"file added", text("a", "3", "b", "1", "c", "1")},
		{"file removed", text("a", "3", "c", "1")},
		{"nested", text("a", "3", "x/y/z", "1", "x/w", "2")},
		{"nested file removed", text("a", "3", "x/w", "2")},
		{"folder becomes file", text("x", "1")},
		{"file becomes folder", text("x/y", "1")},
		{"empty", Payload{}},
		{"one file", text("a", "1")},
		{"only the mode", modes},
		{"empty file", text("a", "")},
	} {
		t.Run(step.name, func(t *testing.T) {
			mustWrite(t, dir, step.payload, true)
			checkVolume(t, path, step.payload)
			before, _ := os.Readlink(filepath.Join(path, dataLink))
			mustWrite(t, dir, step.payload, false)
			checkVolume(t, path, step.payload)
			if after, _ := os.Readlink(filepath.Join(path, dataLink)); after != before {
				t.Errorf("version after an equal write: got %s, want %s as before", after, before)
			}
		})
	}
}

// TestWriteRepairs starts from folders that a crash, an old bug or another program may leave.
func TestWriteRepairs(t *testing.T) {
	outside := t.TempDir()
	canary := filepath.Join(outside, "canary")
	payload := text("a", "1", "d/b", "2")
	for name, damage := range map[string]func(dir string) error{
		"version without a link":   func(dir string) error { return os.Mkdir(filepath.Join(dir, "..2020_01_01_00_00_00.7"), 0o700) },
		"temporary link left":      func(dir string) error { return os.Symlink("..gone", filepath.Join(dir, tempLink)) },
		"temporary folder left":    func(dir string) error { return os.MkdirAll(filepath.Join(dir, tempLink, "x"), 0o755) },
		"data link gone":           func(dir string) error { return os.Remove(filepath.Join(dir, dataLink)) },
		"data link to nowhere":     func(dir string) error { return relink("..gone", filepath.Join(dir, dataLink)) },
		"data link to the outside": func(dir string) error { return relink(outside, filepath.Join(dir, dataLink)) },
		"data link upwards":        func(dir string) error { return relink("..", filepath.Join(dir, dataLink)) },
		"data link to itself":      func(dir string) error { return relink(dataLink, filepath.Join(dir, dataLink)) },
		"data is a folder": func(dir string) error {
			return errors.Join(os.Remove(filepath.Join(dir, dataLink)), os.MkdirAll(filepath.Join(dir, dataLink, "a"), 0o755))
		},
		"visible link gone":         func(dir string) error { return os.Remove(filepath.Join(dir, "a")) },
		"visible link to outside":   func(dir string) error { return relink(canary, filepath.Join(dir, "a")) },
		"link of an old file left":  func(dir string) error { return os.Symlink("..data/old", filepath.Join(dir, "old")) },
		"content changed in place":  func(dir string) error { return os.WriteFile(filepath.Join(dir, dataLink, "a"), []byte("9"), 0o644) },
		"mode changed in place":     func(dir string) error { return os.Chmod(filepath.Join(dir, dataLink, "d", "b"), 0o666) },
		"file gone":                 func(dir string) error { return os.Remove(filepath.Join(dir, dataLink, "d", "b")) },
		"file added":                func(dir string) error { return os.WriteFile(filepath.Join(dir, dataLink, "d", "c"), nil, 0o644) },
		"folder closed":             func(dir string) error { return os.Chmod(filepath.Join(dir, dataLink, "d"), 0o700) },
		"version closed":            func(dir string) error { return os.Chmod(filepath.Join(dir, dataLink), 0o700) },
		"file is a link to outside": func(dir string) error { return relink(canary, filepath.Join(dir, dataLink, "a")) },
	} {
		for next, after := range map[string]Payload{"same": payload, "next": text("a", "3", "d/b", "2", "e", "4")} {
			t.Run(name+", then "+next, func(t *testing.T) {
				if err := os.WriteFile(canary, []byte("1"), 0o644); err != nil {
					t.Fatal(err)
				}
				dir, path := newDir(t)
				mustWrite(t, dir, payload, true)
				if err := damage(path); err != nil {
					t.Fatal(err)
				}
				mustWrite(t, dir, after, true)
				checkVolume(t, path, after)
				mustWrite(t, dir, after, false)
				// A repair must not change the target of a link.
				if got, err := os.ReadFile(canary); err != nil || string(got) != "1" {
					t.Errorf("file outside: got %q and error %v, want it unchanged", got, err)
				}
			})
		}
	}
}

// TestWriteDeep: issue 8, point 13. A path of the maximum depth is written, found unchanged, replaced and removed. The
// work grows with the depth and not with its square: the test measures allocated memory at greater depths.
func TestWriteDeep(t *testing.T) {
	dir, path := newDir(t)
	deep := strings.Repeat("d/", maxDepth)
	for _, payload := range []Payload{text(deep+"f", "1"), text(deep+"f", "2", deep+"g", "2"), text("f", "3")} {
		mustWrite(t, dir, payload, true)
		checkVolume(t, path, payload)
		mustWrite(t, dir, payload, false)
	}

	allocated := func(depth int) uint64 {
		dir, _ := newDir(t)
		payload := text(strings.Repeat("d/", depth)+"f", "1")
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		version, err := writeVersion(dir, payload)
		if err != nil {
			t.Fatal(err)
		}
		if !holds(dir, version, payload) {
			t.Errorf("version %d folders deep: holds: got false, want true", depth)
		}
		runtime.ReadMemStats(&after)
		return after.TotalAlloc - before.TotalAlloc
	}
	if short, long := allocated(200), allocated(400); long > 3*short {
		t.Errorf("memory allocated for twice the depth: got %d bytes after %d, want about twice as many", long, short)
	}
}

// TestVersionError: the text of an error does not name the version, and nothing that is joined is lost.
func TestVersionError(t *testing.T) {
	err := &versionError{errors.Join(
		&fs.PathError{Op: "write", Path: "v/..1/a", Err: fs.ErrInvalid},
		&fs.PathError{Op: "close", Path: "v/..1/a", Err: fs.ErrClosed},
		&fs.PathError{Op: "mkdirat", Path: "..1", Err: fs.ErrExist},
	), "..1"}
	want := "write v/a: invalid argument\nclose v/a: file already closed\nmkdirat the new version: file already exists"
	if got := err.Error(); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if !errors.Is(err, fs.ErrInvalid) || !errors.Is(err, fs.ErrClosed) || !errors.Is(err, fs.ErrExist) {
		t.Error("errors.Is does not find each cause")
	}
}

// relink replaces a file or link with a link.
func relink(target, name string) error {
	return errors.Join(os.Remove(name), os.Symlink(target, name))
}

// TestReadersNeverSeeAMixture reads a volume while it is rewritten. Every file of a version holds the number of the
// version: a reader that resolves ..data once must find the same number in all files. If a file is missing because the
// version was removed, the reader starts again.
func TestReadersNeverSeeAMixture(t *testing.T) {
	const versions, files, readers = 100, 5, 3
	dir, path := newDir(t)
	// The content is long, so that a file takes more than one page to write.
	version := func(n int) Payload {
		payload := Payload{}
		for i := range files {
			payload[fmt.Sprintf("d%d/f%d", i%2, i)] = File{Data: bytes.Repeat([]byte(strconv.Itoa(n)+"\n"), 5000), Mode: 0o644}
		}
		return payload
	}
	mustWrite(t, dir, version(1), true)

	var group sync.WaitGroup
	done := make(chan struct{})
	for range readers {
		group.Go(func() {
			for last := 0; ; {
				n, err := readVersion(path, files)
				if err != nil || n < last {
					t.Errorf("reader: got version %d after %d and error %v, want one complete version, not older", n, last, err)
					return
				}
				last = n
				select {
				case <-done:
					return
				default:
				}
			}
		})
	}
	for n := 2; n <= versions; n++ {
		mustWrite(t, dir, version(n), true)
	}
	close(done)
	group.Wait()
	checkVolume(t, path, version(versions))
}

// readVersion reads all files of one version and returns their number.
func readVersion(dir string, files int) (int, error) {
	for {
		target, err := os.Readlink(filepath.Join(dir, dataLink))
		if err != nil {
			return 0, err
		}
		number, err := readFiles(filepath.Join(dir, target), files)
		if now, _ := os.Readlink(filepath.Join(dir, dataLink)); errors.Is(err, fs.ErrNotExist) && now != target {
			continue
		}
		return number, err
	}
}

func readFiles(dir string, files int) (int, error) {
	var first []byte
	for i := range files {
		data, err := os.ReadFile(filepath.Join(dir, fmt.Sprintf("d%d/f%d", i%2, i)))
		if err != nil {
			return 0, err
		}
		if first == nil {
			first = data
		}
		if !bytes.Equal(data, first) {
			return 0, fmt.Errorf("file %d differs from file 0 in %s", i, dir)
		}
	}
	line, _, _ := bytes.Cut(first, []byte("\n"))
	if len(first) != 5000*(len(line)+1) {
		return 0, fmt.Errorf("files of %d bytes in %s, want all 5000 lines", len(first), dir)
	}
	return strconv.Atoi(string(line))
}
