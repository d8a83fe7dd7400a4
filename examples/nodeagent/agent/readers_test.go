// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestReadersDuringUpdates updates a Secret hundreds of times, every key to the same number. Readers of two pods'
// volumes must find the same number in all files of a version, and never an older one than before.
func TestReadersDuringUpdates(t *testing.T) {
	const updates, keys = 320, 6
	r := newRig(t)
	set := func(n int) {
		var pairs []string
		for i := range keys {
			pairs = append(pairs, fmt.Sprintf("key%d", i), strconv.Itoa(n))
		}
		r.setSecret("s", pairs...)
	}
	set(1)
	var items []corev1.KeyToPath
	for i := range keys {
		items = append(items, corev1.KeyToPath{Key: fmt.Sprintf("key%d", i), Path: fmt.Sprintf("d%d/key%d", i%2, i)})
	}
	plain := r.createPod("plain", "node-1", secretVolume("s"))
	nested := r.createPod("nested", "node-1", secretVolume("s", items...))
	r.start()
	for _, pod := range []*corev1.Pod{plain, nested} {
		r.eventually("first version", func() error { _, err := os.Stat(r.path(pod, "s", "..data")); return err })
	}

	var group sync.WaitGroup
	done := make(chan struct{})
	reader := func(dir, pattern string) {
		versions := 0
		for last := 0; ; {
			n, err := readVersion(dir, pattern, keys)
			if err != nil || n < last {
				t.Errorf("reader of %s: got number %d after %d and error %v, want one number in all files, not older", pattern, n, last, err)
				return
			}
			if n > last {
				versions++
			}
			last = n
			select {
			case <-done:
				t.Logf("a reader of %s read %d of %d versions", pattern, versions, updates)
				return
			default:
			}
		}
	}
	group.Go(func() { reader(r.path(plain, "s"), "key*") })
	group.Go(func() { reader(r.path(nested, "s"), "d*/key*") })
	for n := 2; n <= updates; n++ {
		set(n)
	}
	for _, pod := range []*corev1.Pod{plain, nested} {
		r.eventually("last version", func() error {
			file := r.path(pod, "s", "key0")
			if pod == nested {
				file = r.path(pod, "s", "d0", "key0")
			}
			data, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			if string(data) != strconv.Itoa(updates) {
				return fmt.Errorf("content: got %q, want %d", data, updates)
			}
			return nil
		})
	}
	close(done)
	group.Wait()
}

// readVersion resolves ..data once and reads all files below. It starts again only if a file is missing because an
// update has replaced the version.
func readVersion(dir, pattern string, keys int) (int, error) {
	for {
		version, err := os.Readlink(filepath.Join(dir, "..data"))
		if err != nil {
			return 0, err
		}
		n, err := readKeys(filepath.Join(dir, version), pattern, keys)
		if now, _ := os.Readlink(filepath.Join(dir, "..data")); errors.Is(err, fs.ErrNotExist) && now != version {
			continue
		}
		return n, err
	}
}

func readKeys(version, pattern string, keys int) (int, error) {
	files, err := filepath.Glob(filepath.Join(version, pattern))
	if err != nil {
		return 0, err
	}
	if len(files) != keys {
		return 0, fmt.Errorf("%s has %d files, want %d: %w", version, len(files), keys, fs.ErrNotExist)
	}
	number := ""
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return 0, err
		}
		if number == "" {
			number = string(data)
		}
		if string(data) != number {
			return 0, fmt.Errorf("%s: got %q, want %q as in the files before it", file, data, number)
		}
	}
	return strconv.Atoi(number)
}
