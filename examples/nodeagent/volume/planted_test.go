// SPDX-License-Identifier: Apache-2.0

//go:build unix

package volume

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// TestLinksPlantedMeanwhile: while Write runs, a container with write access to its volume replaces names in it, and
// the volume itself, by links to other volumes and to a folder outside of the root. None of them changes. When the
// container has ended, Write repairs the volume.
func TestLinksPlantedMeanwhile(t *testing.T) {
	const rounds = 150
	root, outside := t.TempDir(), t.TempDir()
	tree := openTree(t, root)
	victim := text("a", "victim", "c/d", "victim")
	_, err := tree.Write("uid-2", "v", victim)
	_, besideErr := tree.Write("uid-1", "beside", victim)
	if err := errors.Join(err, besideErr); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a", "c"} {
		if err := os.WriteFile(filepath.Join(outside, name), []byte("victim"), 0o640); err != nil {
			t.Fatal(err)
		}
	}
	stop := make(chan struct{})
	var planter sync.WaitGroup
	planter.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				plant(tree.Path("uid-1", "v"), tree.Path("uid-2", "v"), outside)
			}
		}
	})
	written, refused := 0, 0
	for i := range rounds {
		_, err := tree.Write("uid-1", "v", text("a", fmt.Sprint(i), "c/d", fmt.Sprint(i)))
		if err != nil {
			refused++
			// The planter may have replaced the volume by a link, which Write refuses.
			_ = os.Remove(tree.Path("uid-1", "v"))
		} else {
			written++
		}
	}
	close(stop)
	planter.Wait()
	t.Logf("%d written, %d refused", written, refused)
	if written == 0 || refused == 0 {
		t.Errorf("got %d written and %d refused, want some of both", written, refused)
	}
	checkVolume(t, tree.Path("uid-2", "v"), victim)
	checkVolume(t, tree.Path("uid-1", "beside"), victim)
	entries, err := os.ReadDir(outside)
	if err != nil || len(entries) != 2 {
		t.Errorf("folder outside: got %v and error %v, want the two files", entries, err)
	}
	for _, entry := range entries {
		info, err := entry.Info()
		data, readErr := os.ReadFile(filepath.Join(outside, entry.Name()))
		if err != nil || readErr != nil || info.Mode() != 0o640 || string(data) != "victim" {
			t.Errorf("file outside: got %v, %q, errors %v and %v, want it unchanged", info.Mode(), data, err, readErr)
		}
	}
	if err := tree.Remove("uid-1"); err != nil {
		t.Errorf("Remove: got error %v, want none", err)
	}
	if _, err := tree.Write("uid-1", "v", victim); err != nil {
		t.Errorf("Write: got error %v, want none", err)
	}
	checkVolume(t, tree.Path("uid-1", "v"), victim)
}

// plant replaces one name of a volume, or the volume, by a link to another folder. It uses no link itself: a container
// can change its volume only. Its errors do not matter.
func plant(volume, other, outside string) {
	targets := []string{other, outside, filepath.Join(outside, "a"), filepath.Join(other, dataLink), "beside", "../beside"}
	target := targets[rand.IntN(len(targets))]
	if rand.IntN(100) == 0 {
		_ = os.RemoveAll(volume + "-moved")
		_ = os.Rename(volume, volume+"-moved")
		_ = os.Symlink(target, volume)
		return
	}
	if info, err := os.Lstat(volume); err != nil || !info.IsDir() {
		return
	}
	dir, err := os.OpenRoot(volume)
	if err != nil {
		return
	}
	defer release(dir)
	names := []string{tempLink, dataLink, "a", "c"}
	entries, _ := fs.ReadDir(dir.FS(), ".")
	for _, entry := range entries {
		names = append(names, entry.Name(), entry.Name()+"/c")
	}
	name := names[rand.IntN(len(names))]
	_ = dir.Rename(name, name+"-moved")
	_ = dir.Symlink(target, name)
}
