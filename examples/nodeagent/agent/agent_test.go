// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/refwatch/refwatch/test/apiserver"
)

func TestNewRefuses(t *testing.T) {
	client := fake.NewClientset()
	for name, tc := range map[string]struct {
		options Options
		wantErr string
	}{
		"no client":       {Options{NodeName: "node-1", RootDir: "/x"}, "client is missing"},
		"no node":         {Options{Client: client, RootDir: "/x"}, `node name "" is not valid`},
		"node a selector": {Options{Client: client, NodeName: "a,b=c", RootDir: "/x"}, `node name "a,b=c" is not valid`},
		"no root folder":  {Options{Client: client, NodeName: "node-1"}, "root folder is missing"},
		"nothing at all":  {Options{}, "client is missing"},
		"node upper case": {Options{Client: client, NodeName: "Node", RootDir: "/x"}, "lowercase"},
	} {
		t.Run(name, func(t *testing.T) {
			if a, err := New(tc.options); a != nil || err == nil || !strings.Contains(err.Error(), tc.wantErr) {
				t.Errorf("New: got %v and error %v, want an error with %q", a, err, tc.wantErr)
			}
		})
	}
}

// TestRunRefusesRoot: if the root folder cannot be used, Run returns an error before the first request.
func TestRunRefusesRoot(t *testing.T) {
	server := apiserver.New(t, apiserver.Options{})
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	a, err := New(Options{Client: server.Client(), NodeName: "node-1", RootDir: filepath.Join(file, "root")})
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "creating the root folder") {
		t.Errorf("Run: got error %v, want one about the root folder", err)
	}
	if got := len(server.Requests()); got != 0 {
		t.Errorf("requests: got %d, want none", got)
	}
}

func TestRunEndsWithContext(t *testing.T) {
	server := apiserver.New(t, apiserver.Options{})
	a, err := New(Options{Client: server.Client(), NodeName: "node-1", RootDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := a.Run(ctx); err != nil {
		t.Errorf("Run: got error %v, want none", err)
	}
}

// TestPodLifecycle writes the volume of a pod, updates it, shares its Secret with a second pod, and removes both.
func TestPodLifecycle(t *testing.T) {
	r := newRig(t)
	r.setSecret("tls", "crt", "1", "key", "1")
	web1 := r.createPod("web-1", "node-1", secretVolume("tls"))
	r.createPod("far-1", "node-2", secretVolume("far"))
	r.start()
	r.eventuallyHas(web1, "tls", "crt", "1", "key", "1")

	web2 := r.createPod("web-2", "node-1", secretVolume("tls", corev1.KeyToPath{Key: "key", Path: "a/b/c"}))
	r.eventuallyHas(web2, "tls", "a/b/c", "1")

	r.setSecret("tls", "crt", "2", "key", "2", "ca", "2")
	r.eventuallyHas(web1, "tls", "crt", "2", "key", "2", "ca", "2")
	r.eventuallyHas(web2, "tls", "a/b/c", "2")

	r.deletePod("web-1")
	r.eventuallyGone(web1)
	if err := r.has(web2, "tls", "a/b/c", "2"); err != nil {
		t.Errorf("remaining pod: %v", err)
	}
	key := types.NamespacedName{Namespace: metav1.NamespaceDefault, Name: "tls"}
	if got := r.server.OpenStreams("secrets", key); got != 1 {
		t.Errorf("open streams of a referenced secret: got %d, want 1", got)
	}
	r.deletePod("web-2")
	r.eventuallyGone(web2)
	r.eventuallyServer("no stream of an unreferenced secret", func() bool { return r.server.OpenStreams("secrets", key) == 0 })
	if err := r.absent("pods", "far-1"); err != nil {
		t.Error(err)
	}
}

// TestRequests: the agent lists and watches the pods of its node, and objects by name. It sends no other request.
func TestRequests(t *testing.T) {
	r := newRig(t)
	r.setSecret("tls", "key", "1")
	pod := r.createPod("web-1", "node-1", secretVolume("tls"))
	before := len(r.server.Requests())
	r.start()
	r.eventuallyHas(pod, "tls", "key", "1")
	r.stop()
	for _, request := range r.server.Requests()[before:] {
		selector := request.Query.Get("fieldSelector")
		pods := request.Resource == "pods" && selector == "spec.nodeName=node-1"
		secret := request.Resource == "secrets" && request.Namespace == metav1.NamespaceDefault && selector == "metadata.name=tls"
		if !slices.Contains([]string{"list", "watch"}, request.Verb) || !pods && !secret {
			t.Errorf("request: got %s %s?%s, want only lists and watches of the node's pods and of the secret by name",
				request.Verb, request.Path, request.Query.Encode())
		}
	}
	r.eventuallyServer("no stream after Run returned", func() bool { return r.server.TotalStreams() == 0 })
}

// TestFolderRemoved: the folder of a pod is removed when the pod has ended, and when another pod takes over its name.
func TestFolderRemoved(t *testing.T) {
	for _, phase := range []corev1.PodPhase{corev1.PodSucceeded, corev1.PodFailed} {
		t.Run(string(phase), func(t *testing.T) {
			r := newRig(t)
			r.setSecret("s", "k", "1")
			pod := r.createPod("job-1", "node-1", secretVolume("s"))
			r.start()
			r.eventuallyHas(pod, "s", "k", "1")
			pod.Status.Phase = phase
			if _, err := r.client.CoreV1().Pods(pod.Namespace).UpdateStatus(t.Context(), pod, metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
			r.eventuallyGone(pod)
		})
	}
	t.Run("recreated", func(t *testing.T) {
		r := newRig(t)
		r.setSecret("s", "k", "1")
		old := r.createPod("web-1", "node-1", secretVolume("s"))
		r.start()
		r.eventuallyHas(old, "s", "k", "1")
		r.deletePod("web-1")
		pod := r.createPod("web-1", "node-1", secretVolume("s"))
		r.eventuallyGone(old)
		r.eventuallyHas(pod, "s", "k", "1")
	})
}

// TestRestart: an agent that starts on an existing folder removes the folders of deleted pods, and updates the others.
func TestRestart(t *testing.T) {
	r := newRig(t)
	r.setSecret("s", "k", "1")
	kept := r.createPod("kept", "node-1", secretVolume("s"))
	deleted := r.createPod("deleted", "node-1", secretVolume("s"))
	r.start()
	r.eventuallyHas(kept, "s", "k", "1")
	r.eventuallyHas(deleted, "s", "k", "1")
	r.stop()
	for _, pod := range []*corev1.Pod{kept, deleted} {
		if err := r.has(pod, "s", "k", "1"); err != nil {
			t.Errorf("after Run returned: %s: %v", pod.Name, err)
		}
	}

	r.deletePod("deleted")
	r.setSecret("s", "k", "2")
	r.start()
	r.eventuallyGone(deleted)
	r.eventuallyHas(kept, "s", "k", "2")
}

// TestRestartUnchanged: a restart does not rewrite unchanged volumes.
func TestRestartUnchanged(t *testing.T) {
	r := newRig(t)
	r.setSecret("s", "k", "1")
	pod := r.createPod("web-1", "node-1", secretVolume("s"))
	r.start()
	r.eventuallyHas(pod, "s", "k", "1")
	before, _ := os.Readlink(r.path(pod, "s", "..data"))
	r.stop()
	r.start()
	r.eventuallySynced(pod)
	if after, _ := os.Readlink(r.path(pod, "s", "..data")); after != before {
		t.Errorf("version: got %q, want %q as before", after, before)
	}
}

// TestAbsentObject: an absent object is reported, does not delay other volumes, and is written when it is created.
func TestAbsentObject(t *testing.T) {
	r := newRig(t)
	r.setSecret("there", "k", "1")
	pod := r.createPod("web-1", "node-1", secretVolume("late"), secretVolume("there"), optional(secretVolume("maybe")))
	r.start()
	r.eventuallyFails(pod, "late", `"default/late" not found`)
	r.eventuallyHas(pod, "there", "k", "1")
	r.eventuallyHas(pod, "maybe")
	if err := r.absent("pods", string(pod.UID), "volumes", "late"); err != nil {
		t.Errorf("volume that cannot be built: %v", err)
	}

	r.setSecret("late", "k", "2")
	r.eventuallyHas(pod, "late", "k", "2")
	r.eventually("status without an error", func() error {
		if got := r.failure(pod, "late"); got != "" {
			return fmt.Errorf("got error %q, want none", got)
		}
		return nil
	})
	r.setSecret("maybe", "k", "3")
	r.eventuallyHas(pod, "maybe", "k", "3")

	// Deleted again: the files of the required Secret stay, those of the optional one are removed.
	r.deleteSecret("late")
	r.deleteSecret("maybe")
	r.eventuallyFails(pod, "late", `"default/late" not found`)
	r.eventuallyHas(pod, "maybe")
	if err := r.has(pod, "late", "k", "2"); err != nil {
		t.Errorf("volume whose secret was deleted: %v", err)
	}
}

// TestBadVolumes: an invalid volume is reported with its cause, and writes no file.
func TestBadVolumes(t *testing.T) {
	r := newRig(t)
	r.setSecret("s", "k", "1")
	at := func(name, path string) corev1.Volume {
		v := secretVolume("s", corev1.KeyToPath{Key: "k", Path: "good"}, corev1.KeyToPath{Key: "k", Path: path})
		v.Name = name
		return v
	}
	bundle := corev1.Volume{Name: "bundle", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
		Sources: []corev1.VolumeProjection{{ClusterTrustBundle: &corev1.ClusterTrustBundleProjection{Path: "t"}}},
	}}}
	noKey := secretVolume("s", corev1.KeyToPath{Key: "none", Path: "p"})
	noKey.Name = "no-key"
	empty := corev1.Volume{Name: "empty", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}
	bad := []corev1.Volume{at("up", "../../x"), at("absolute", "/etc/x"), at("reserved", "..data/x"), bundle, noKey, at("Upper", "x")}
	pod := r.createPod("web-1", "node-1", append(bad, secretVolume("s"), empty)...)
	r.start()
	for volume, text := range map[string]string{
		"up": `contains ".."`, "absolute": "is absolute", "reserved": `starts with ".."`,
		"bundle": "clusterTrustBundle is not supported", "no-key": `has no key "none"`, "Upper": `volume name "Upper" is not valid`,
	} {
		r.eventuallyFails(pod, volume, text)
	}
	r.eventuallyHas(pod, "s", "k", "1")
	entries, err := os.ReadDir(filepath.Join(r.root, "pods", string(pod.UID), "volumes"))
	if err != nil || len(entries) != 1 || entries[0].Name() != "s" {
		t.Errorf("volumes on disk: got %v and error %v, want only s", entries, err)
	}
	if got := len(r.agent.Status()[pod.UID].Volumes); got != len(bad)+1 {
		t.Errorf("volumes in the status: got %d, want %d, without the emptyDir", got, len(bad)+1)
	}
}
