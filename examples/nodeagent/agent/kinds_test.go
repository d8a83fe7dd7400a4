// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"io/fs"
	"os"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestConfigMap writes and updates a ConfigMap with text, bytes and modes. Its stream ends with the pod.
func TestConfigMap(t *testing.T) {
	r := newRig(t)
	configMaps := r.client.CoreV1().ConfigMaps(metav1.NamespaceDefault)
	c, err := configMaps.Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: meta("app"), Data: map[string]string{"a.yaml": "a: 1"}, BinaryData: map[string][]byte{"b.png": {0x89, 0xff, 0x00}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	pod := r.createPod("web-1", "node-1", corev1.Volume{Name: "app", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
		LocalObjectReference: corev1.LocalObjectReference{Name: "app"},
		Items:                []corev1.KeyToPath{{Key: "a.yaml", Path: "conf/a.yaml"}, {Key: "b.png", Path: "b.png", Mode: new(int32(0o604))}},
		DefaultMode:          new(int32(0o440)),
	}}})
	r.start()
	r.eventuallyHas(pod, "app", "conf/a.yaml", "a: 1", "b.png", "\x89\xff\x00")
	for name, want := range map[string]fs.FileMode{"conf/a.yaml": 0o440, "b.png": 0o604, "conf": fs.ModeDir | 0o755} {
		// Below ..data: the visible links are created a moment later.
		info, err := os.Stat(r.path(pod, "app", "..data", name))
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode() != want {
			t.Errorf("%s: got mode %v, want %v", name, info.Mode(), want)
		}
	}
	c.BinaryData["b.png"] = []byte{1}
	if _, err := configMaps.Update(t.Context(), c, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	r.eventuallyHas(pod, "app", "conf/a.yaml", "a: 1", "b.png", "\x01")
	r.deletePod("web-1")
	r.eventuallyGone(pod)
	key := types.NamespacedName{Namespace: metav1.NamespaceDefault, Name: "app"}
	r.eventuallyServer("no stream of the ConfigMap", func() bool { return r.server.OpenStreams("configmaps", key) == 0 })
}

// TestProjected changes the sources of a projected volume: the pod's labels, without a change of an object, and an
// optional Secret.
func TestProjected(t *testing.T) {
	r := newRig(t)
	r.setSecret("s", "k", "1")
	maybe := &corev1.SecretProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "maybe"}, Optional: new(true)}
	labels := &corev1.ObjectFieldSelector{FieldPath: "metadata.labels"}
	pod := r.createPod("web-1", "node-1", corev1.Volume{Name: "all", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
		Sources: []corev1.VolumeProjection{
			{Secret: &corev1.SecretProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "s"}}},
			{Secret: maybe},
			{DownwardAPI: &corev1.DownwardAPIProjection{Items: []corev1.DownwardAPIVolumeFile{{Path: "pod/labels", FieldRef: labels}}}},
		},
	}}})
	r.start()
	r.eventuallyHas(pod, "all", "k", "1", "pod/labels", "")

	pod.Labels = map[string]string{"tier": "front"}
	pod, err := r.client.CoreV1().Pods(pod.Namespace).Update(t.Context(), pod, metav1.UpdateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	r.eventuallyHas(pod, "all", "k", "1", "pod/labels", `tier="front"`)
	r.setSecret("maybe", "m", "2")
	r.eventuallyHas(pod, "all", "k", "1", "m", "2", "pod/labels", `tier="front"`)
	r.deleteSecret("maybe")
	r.eventuallyHas(pod, "all", "k", "1", "pod/labels", `tier="front"`)
}

// TestImmutable: an immutable Secret is on disk while no stream is open. A pod that is created after the Secret was
// recreated gets the new one.
func TestImmutable(t *testing.T) {
	r := newRig(t)
	create := func(content string) {
		t.Helper()
		secret := &corev1.Secret{ObjectMeta: meta("s"), StringData: map[string]string{"k": content}, Immutable: new(true)}
		if _, err := r.client.CoreV1().Secrets(secret.Namespace).Create(t.Context(), secret, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	create("1")
	first := r.createPod("first", "node-1", secretVolume("s"))
	r.start()
	r.eventuallyHas(first, "s", "k", "1")
	key := types.NamespacedName{Namespace: metav1.NamespaceDefault, Name: "s"}
	r.eventuallyServer("no stream", func() bool { return r.server.OpenStreams("secrets", key) == 0 })

	r.deleteSecret("s")
	create("2")
	second := r.createPod("second", "node-1", secretVolume("s"))
	r.eventuallyHas(second, "s", "k", "2")
}
