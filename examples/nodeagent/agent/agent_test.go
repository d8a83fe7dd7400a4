// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
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
		"a selector":      {Options{Client: client, NodeName: "a,b=c", RootDir: "/x"}, `node name "a,b=c" is not valid`},
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

// TestRunRefusesRoot: a root folder that cannot be used ends Run before the first request.
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

// TestPodLife takes a pod through its life: written, updated, shared with a second one, and removed.
func TestPodLife(t *testing.T) {
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
		t.Errorf("the pod that stays: %v", err)
	}
	key := types.NamespacedName{Namespace: metav1.NamespaceDefault, Name: "tls"}
	if got := r.server.OpenStreams("secrets", key); got != 1 {
		t.Errorf("open streams of the secret that is still referenced: got %d, want 1", got)
	}
	r.deletePod("web-2")
	r.eventuallyGone(web2)
	r.eventuallyServer("no stream of the secret that nobody references", func() bool { return r.server.OpenStreams("secrets", key) == 0 })
	if err := r.absent("pods", "far-1"); err != nil {
		t.Error(err)
	}
}

// TestRequests: the agent asks for the pods of its node and for the objects by name, and writes nothing.
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

// TestPodsEnd: a pod that has ended, and one whose name a new pod takes over, lose their folders.
func TestPodsEnd(t *testing.T) {
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

// TestRestart: an agent that starts over a folder removes what belongs to pods that went meanwhile, and
// brings the rest up to date.
func TestRestart(t *testing.T) {
	r := newRig(t)
	r.setSecret("s", "k", "1")
	stays := r.createPod("stays", "node-1", secretVolume("s"))
	goes := r.createPod("goes", "node-1", secretVolume("s"))
	r.start()
	r.eventuallyHas(stays, "s", "k", "1")
	r.eventuallyHas(goes, "s", "k", "1")
	r.stop()
	for _, pod := range []*corev1.Pod{stays, goes} {
		if err := r.has(pod, "s", "k", "1"); err != nil {
			t.Errorf("after Run returned: %s: %v", pod.Name, err)
		}
	}

	r.deletePod("goes")
	r.setSecret("s", "k", "2")
	r.start()
	r.eventuallyGone(goes)
	r.eventuallyHas(stays, "s", "k", "2")
}

// TestRestartUnchanged: where nothing has changed, a restart rewrites nothing.
func TestRestartUnchanged(t *testing.T) {
	r := newRig(t)
	r.setSecret("s", "k", "1")
	pod := r.createPod("web-1", "node-1", secretVolume("s"))
	r.start()
	r.eventuallyHas(pod, "s", "k", "1")
	before, _ := os.Readlink(r.path(pod, "s", "..data"))
	r.stop()
	r.start()
	r.eventually("sync", func() error {
		if _, ok := r.agent.Status()[pod.UID]; !ok {
			return errors.New("not synced")
		}
		return nil
	})
	if after, _ := os.Readlink(r.path(pod, "s", "..data")); after != before {
		t.Errorf("version: got %q, want %q still", after, before)
	}
}

// TestMissing: an object that is absent is reported, does not hold up anything else, and is used once it is
// there.
func TestMissing(t *testing.T) {
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
	r.eventually("the status is good again", func() error {
		if got := r.failure(pod, "late"); got != "" {
			return fmt.Errorf("got error %q, want none", got)
		}
		return nil
	})
	r.setSecret("maybe", "k", "3")
	r.eventuallyHas(pod, "maybe", "k", "3")

	// Deleted again: files of the one stay, those of the optional one go.
	r.deleteSecret("late")
	r.deleteSecret("maybe")
	r.eventuallyFails(pod, "late", `"default/late" not found`)
	r.eventuallyHas(pod, "maybe")
	if err := r.has(pod, "late", "k", "2"); err != nil {
		t.Errorf("volume whose secret was deleted: %v", err)
	}
}

// TestBadVolumes: what a pod must not ask for is refused with its cause, and nothing of it reaches the disk.
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
		t.Errorf("volumes in the status: got %d, want %d: an emptyDir is not this agent's", got, len(bad)+1)
	}
}

// TestForbidden: an object that the agent may not read is reported as such and holds up nobody else, not
// even with more such pods than there are workers; when it may be read, it is.
func TestForbidden(t *testing.T) {
	r := newRig(t)
	r.server.Intercept(func(_ context.Context, request apiserver.Request) *metav1.Status {
		if request.Resource == "secrets" && request.Name == "closed" {
			return &apierrors.NewForbidden(corev1.Resource("secrets"), "closed", errors.New("no relationship found")).ErrStatus
		}
		return nil
	})
	heal := func() { r.server.Intercept(nil) }
	r.checkOthersGoOn(heal, "is forbidden", "no relationship found")
}

// TestSlowServer: the same for an object about which the server says nothing at all.
func TestSlowServer(t *testing.T) {
	r := newRig(t)
	answers := make(chan struct{})
	r.server.Intercept(func(ctx context.Context, request apiserver.Request) *metav1.Status {
		if request.Resource == "secrets" && request.Name == "closed" {
			select {
			case <-answers:
			case <-ctx.Done():
			}
		}
		return nil
	})
	heal := sync.OnceFunc(func() { close(answers) })
	r.Cleanup(heal)
	r.checkOthersGoOn(heal, "not synced", errNotWaited.Error())
}

// checkOthersGoOn starts an agent with pods that use a Secret "closed", which cannot be had before heal, and
// looks that their other volume is there and "closed" is reported; and that all is well after heal.
func (r *rig) checkOthersGoOn(heal func(), reported ...string) {
	r.Helper()
	for _, name := range []string{"closed", "open"} {
		secret := &corev1.Secret{ObjectMeta: meta(name), StringData: map[string]string{"k": "1"}}
		if _, err := r.client.CoreV1().Secrets(secret.Namespace).Create(r.Context(), secret, metav1.CreateOptions{}); err != nil {
			r.Fatal(err)
		}
	}
	var pods []*corev1.Pod
	for i := range 2 * workers {
		pods = append(pods, r.createPod(fmt.Sprintf("web-%d", i), "node-1", secretVolume("closed"), secretVolume("open")))
	}
	r.start()
	for _, pod := range pods {
		r.eventuallyHas(pod, "open", "k", "1")
		r.eventuallyFails(pod, "closed", append(reported, "default/closed")...)
	}
	heal()
	for _, pod := range pods {
		r.eventuallyHas(pod, "closed", "k", "1")
	}
}
