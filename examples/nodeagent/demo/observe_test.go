// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/refwatch/refwatch/examples/nodeagent/volume"
)

// started returns the stage after the first step of the story, with all of it observed.
func started(t *testing.T) *demo {
	t.Helper()
	d, err := newDemo(Options{Out: &bytes.Buffer{}, RootDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.close(); err != nil {
			t.Errorf("close: got error %v, want none", err)
		}
	})
	if err := d.take(t.Context(), d.story()[0]); err != nil {
		t.Fatal(err)
	}
	return d
}

// checkSeen observes a fact.
func checkSeen(t *testing.T, f fact, want string) {
	t.Helper()
	if got, err := f(t.Context()); err != nil || !strings.Contains(got, want) {
		t.Errorf("fact: got %q and error %v, want %q seen", got, err, want)
	}
}

// checkNotSeen has a fact looked at, and not observed. With the agent stopped there are no further syncs to
// wait for, and the fact says so, and what it saw.
func checkNotSeen(t *testing.T, f fact) {
	t.Helper()
	// The channel of a stopped agent is closed: onSync looks once and then gives up.
	if got, err := f(t.Context()); err == nil {
		t.Errorf("fact: got %q, want an error", got)
	}
}

// halt stops the agent but keeps it on stage, as a status that no longer changes.
func (d *demo) halt() {
	d.agent.cancel()
	<-d.agent.done
}

// TestFactsAreNotSeen spoils what is on disk in one way each; facts that held before must not hold then. A
// demo that could not fail would show nothing.
func TestFactsAreNotSeen(t *testing.T) {
	for name, spoil := range map[string]func(dir string) error{
		"content": func(dir string) error {
			// The owner may not write the file as it is.
			key := filepath.Join(dir, "..data", "tls.key")
			return errors.Join(os.Remove(key), os.WriteFile(key, []byte("other"), 0o400))
		},
		"mode": func(dir string) error { return os.Chmod(filepath.Join(dir, "..data", "tls.key"), 0o444) },
		"gone": func(dir string) error { return os.Remove(filepath.Join(dir, "..data", "tls.key")) },
		"more": func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "..data", "public", "more"), nil, 0o644)
		},
		"more on top": func(dir string) error { return os.WriteFile(filepath.Join(dir, "more"), nil, 0o644) },
		"no link":     func(dir string) error { return os.Remove(filepath.Join(dir, "tls.key")) },
		"other link":  func(dir string) error { return os.Rename(filepath.Join(dir, "tls.key"), filepath.Join(dir, "key")) },
		"all gone":    os.RemoveAll,
	} {
		t.Run(name, func(t *testing.T) {
			d := started(t)
			d.halt()
			checkSeen(t, d.written("web-1", "tls"), "has 2 files")
			checkSeen(t, d.everything(), "all: 5 volumes of 3 pods as the server has them, 1 reported")
			if err := spoil(d.path(d.pods["web-1"], "tls")); err != nil {
				t.Fatal(err)
			}
			checkNotSeen(t, d.written("web-1", "tls"))
			checkNotSeen(t, d.everything())
		})
	}
}

// TestFactsBehind stops the agent and changes the server, or the folder, so that facts are not so any more.
func TestFactsBehind(t *testing.T) {
	d := started(t)
	d.halt()
	checkNotSeen(t, d.written("worker-1", "late"))
	checkNotSeen(t, d.written("web-1", "no-such-volume"))
	checkNotSeen(t, d.waiting("worker-1", "db", "not found"))
	checkNotSeen(t, d.waiting("worker-1", "late", "some other cause"))
	checkNotSeen(t, d.kept("worker-1", "late", "not found", volume.Payload{}))
	checkNotSeen(t, d.kept("worker-1", "db", "not found", volume.Payload{}))
	checkNotSeen(t, d.gone("web-1"))

	t.Run("a folder too many", func(t *testing.T) {
		more := filepath.Join(d.root, "pods", "uid-of-nobody")
		if err := os.Mkdir(more, 0o755); err != nil {
			t.Fatal(err)
		}
		checkNotSeen(t, d.everything())
		if err := os.Remove(more); err != nil {
			t.Fatal(err)
		}
		checkSeen(t, d.everything(), "all: 5 volumes")
	})
	t.Run("a volume that waits is there", func(t *testing.T) {
		dir := d.path(d.pods["worker-1"], "late")
		checkSeen(t, d.waiting("worker-1", "late", "not found"), "is not there")
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		checkNotSeen(t, d.waiting("worker-1", "late", "not found"))
	})
	t.Run("a secret is rotated", func(t *testing.T) {
		if err := d.setSecret("tls", map[string]string{"tls.crt": "x", "tls.key": "y"})(t.Context()); err != nil {
			t.Fatal(err)
		}
		checkNotSeen(t, d.written("web-1", "tls"))
		checkNotSeen(t, d.everything())
	})
	t.Run("what a volume keeps is other files", func(t *testing.T) {
		if err := os.Remove(d.path(d.pods["worker-1"], "late")); err != nil {
			t.Fatal(err)
		}
		checkNotSeen(t, d.kept("worker-1", "late", "not found", volume.Payload{"token": {Mode: 0o600}}))
	})
	t.Run("the missing secret comes", func(t *testing.T) {
		if err := d.createSecret("late", map[string]string{"a": "b"})(t.Context()); err != nil {
			t.Fatal(err)
		}
		_, err := d.checkVolume(t.Context(), d.pods["worker-1"], volumeOf(d.pods["worker-1"], "late"))
		if err == nil || !strings.Contains(err.Error(), "the agent reports") {
			t.Errorf("checkVolume: got error %v, want that agent and server differ", err)
		}
	})
}

// TestServerFacts: what the server counts is not seen if it is not so.
func TestServerFacts(t *testing.T) {
	d := started(t)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for name, f := range map[string]fact{
		"a stream too few":  d.streams("secrets", "tls", 2, ""),
		"a stream too many": d.streams("secrets", "tls", 0, ""),
		"no stream at all":  d.noStreams(),
	} {
		if got, err := f(ended); err == nil {
			t.Errorf("%s: got %q, want an error", name, got)
		}
	}
	checkSeen(t, d.neverAsked("secrets", "elsewhere"), "never asked")
	if _, err := d.client.CoreV1().Secrets(namespace).Get(t.Context(), "elsewhere", metav1.GetOptions{}); err != nil {
		t.Fatal(err)
	}
	checkNotSeen(t, d.neverAsked("secrets", "elsewhere"))
	if _, err := d.client.CoreV1().ConfigMaps("").List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	checkNotSeen(t, d.neverAsked("configmaps", "settings"))
}

func TestReadVolume(t *testing.T) {
	d := started(t)
	got, err := readVolume(d.path(d.pods["web-1"], "tls"))
	want := volume.Payload{"public/tls.crt": {Data: []byte("certificate 1"), Mode: 0o644}, "tls.key": {Data: []byte("key 1"), Mode: 0o400}}
	if err != nil || len(got) != len(want) {
		t.Fatalf("readVolume: got %v and error %v, want %v", got, err, want)
	}
	for path, file := range want {
		if !bytes.Equal(got[path].Data, file.Data) || got[path].Mode != file.Mode {
			t.Errorf("%s: got %v, want %v", path, got[path], file)
		}
	}
	if _, err := readVolume(filepath.Join(d.root, "none")); err == nil {
		t.Error("readVolume of no folder: got no error, want one")
	}
}

func TestVolumeOf(t *testing.T) {
	p := pod("p", "n", secretVolume("a", "x"), secretVolume("b", "y"))
	if got := volumeOf(p, "b"); got.Secret == nil || got.Secret.SecretName != "y" {
		t.Errorf("volumeOf: got %v, want the second volume", got)
	}
	if got := volumeOf(p, "c"); volume.Handles(got) {
		t.Errorf("volumeOf an unknown name: got %v, want a volume of no kind", got)
	}
}

func TestCount(t *testing.T) {
	for n, want := range map[int]string{0: "0 files", 1: "1 file", 2: "2 files"} {
		if got := count(n, "file"); got != want {
			t.Errorf("count(%d): got %q, want %q", n, got, want)
		}
	}
}

// TestWorkload: the story's pods and objects are what a server accepts, and hold what the story speaks of.
func TestWorkload(t *testing.T) {
	nodes := map[string]int{}
	for _, p := range demoPods("node-1") {
		nodes[p.Spec.NodeName]++
		for i := range p.Spec.Volumes {
			if !volume.Handles(&p.Spec.Volumes[i]) {
				t.Errorf("%s: volume %s is of a kind that the agent does not write", p.Name, p.Spec.Volumes[i].Name)
			}
		}
	}
	if nodes["node-1"] != 3 || len(nodes) != 2 {
		t.Errorf("pods by node: got %v, want three on node-1 and one elsewhere", nodes)
	}
	immutable := func(c *corev1.ConfigMap) bool { return c.Immutable != nil && *c.Immutable }
	for _, c := range demoConfigMaps() {
		if got, want := immutable(c), c.Name == "settings"; got != want {
			t.Errorf("%s: got immutable %v, want %v", c.Name, got, want)
		}
	}
}
