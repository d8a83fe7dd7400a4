// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

func TestPodDefaults(t *testing.T) {
	f := newFixture(t, Options{})
	pod := newPod("a")
	pod.Status.Phase = corev1.PodRunning // ignored on creation
	pod.Spec.InitContainers = []corev1.Container{{Name: "init", Image: "registry.test:5000/app"}}
	pod.Spec.Volumes = []corev1.Volume{
		{Name: "s", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "s"}}},
		{Name: "c", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{}}},
		{Name: "p", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{}}},
	}
	got := f.createPod(pod)
	if got.Status.Phase != corev1.PodPending || got.Generation != 1 {
		t.Errorf("got phase %s, generation %d, want Pending, 1", got.Status.Phase, got.Generation)
	}
	spec := got.Spec
	if spec.RestartPolicy != corev1.RestartPolicyAlways || spec.DNSPolicy != corev1.DNSClusterFirst || spec.SchedulerName != "default-scheduler" ||
		*spec.TerminationGracePeriodSeconds != 30 || !*spec.EnableServiceLinks || spec.SecurityContext == nil {
		t.Errorf("got spec %+v, want the defaults", spec)
	}
	for i, mode := range []*int32{spec.Volumes[0].Secret.DefaultMode, spec.Volumes[1].ConfigMap.DefaultMode, spec.Volumes[2].Projected.DefaultMode} {
		if mode == nil || *mode != 0o644 {
			t.Errorf("got mode %v of volume %d, want 0644", mode, i)
		}
	}
	if got := spec.Containers[0]; got.ImagePullPolicy != corev1.PullIfNotPresent || got.TerminationMessagePath != "/dev/termination-log" {
		t.Errorf("got container %+v, want the defaults", got)
	}
	if got := spec.InitContainers[0].ImagePullPolicy; got != corev1.PullAlways {
		t.Errorf("image without tag: got pull policy %s, want Always", got)
	}
}

// TestPodStatusSubresource checks that an update changes only the spec, and an update of status only the status.
func TestPodStatusSubresource(t *testing.T) {
	f := newFixture(t, Options{})
	pods := f.client.CoreV1().Pods("default")
	pod := f.createPod(newPod("a"))
	pod.Status.Phase = corev1.PodRunning
	pod.Spec.Containers[0].Image = "registry.test/app:v2"
	bySpec, err := pods.Update(t.Context(), pod, metav1.UpdateOptions{})
	if err != nil || bySpec.Status.Phase != corev1.PodPending || bySpec.Spec.Containers[0].Image != "registry.test/app:v2" || bySpec.Generation != 2 {
		t.Errorf("update: got %v, %v, want the new spec, the old status, and generation 2", bySpec, err)
	}
	pod.ResourceVersion = ""
	pod.Spec.Containers[0].Image = "registry.test/app:v3"
	byStatus, err := pods.UpdateStatus(t.Context(), pod, metav1.UpdateOptions{})
	if err != nil || byStatus.Status.Phase != corev1.PodRunning || byStatus.Spec.Containers[0].Image != "registry.test/app:v2" || byStatus.Generation != 2 {
		t.Errorf("update of status: got %v, %v, want the new status, the old spec, and generation 2", byStatus, err)
	}
	byPatch, err := pods.Patch(t.Context(), "a", types.MergePatchType, []byte(`{"status":{"phase":"Failed"}}`), metav1.PatchOptions{}, "status")
	if err != nil || byPatch.Status.Phase != corev1.PodFailed {
		t.Errorf("patch of status: got %v, %v, want Failed", byPatch, err)
	}
}

func TestPodUpdateRefuses(t *testing.T) {
	f := newFixture(t, Options{})
	f.createPod(newPod("a"))
	for name, change := range map[string]func(*corev1.Pod){
		"node":           func(p *corev1.Pod) { p.Spec.NodeName = "n" },
		"another volume": func(p *corev1.Pod) { p.Spec.Volumes = []corev1.Volume{{Name: "v"}} },
		"a container": func(p *corev1.Pod) {
			p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "b", Image: "b"})
		},
		"no image": func(p *corev1.Pod) { p.Spec.Containers[0].Image = "" },
		"bad name": func(p *corev1.Pod) { p.Spec.Containers[0].Name = "A" },
		"no name":  func(p *corev1.Pod) { p.Spec.Containers[0].Name = "" },
	} {
		t.Run(name, func(t *testing.T) {
			pod := newPod("a")
			change(pod)
			if _, err := f.client.CoreV1().Pods("default").Update(t.Context(), pod, metav1.UpdateOptions{}); !apierrors.IsInvalid(err) {
				t.Errorf("got %v, want Invalid", err)
			}
		})
	}
}

// TestBinding checks that a watch of the pods of one node receives a pod when it is bound to the node.
func TestBinding(t *testing.T) {
	f := newFixture(t, Options{})
	pods := f.client.CoreV1().Pods("default")
	f.createPod(newPod("a"))
	options := watchList()
	options.FieldSelector = "spec.nodeName=n1"
	w, err := f.client.CoreV1().Pods("").Watch(t.Context(), options)
	check(t, err)
	defer w.Stop()
	expect(t, w, watch.Bookmark)
	binding := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Target: corev1.ObjectReference{Kind: "Node", Name: "n1"}}
	check(t, pods.Bind(t.Context(), binding, metav1.CreateOptions{}))
	if got := expect(t, w, watch.Added).Object.(*corev1.Pod); got.Spec.NodeName != "n1" {
		t.Errorf("got node %q, want n1", got.Spec.NodeName)
	}
	binding.Target.Name = "n2"
	if err := pods.Bind(t.Context(), binding, metav1.CreateOptions{}); !apierrors.IsConflict(err) || !strings.Contains(err.Error(), `already assigned to node "n1"`) {
		t.Errorf("got %v, want a conflict", err)
	}
	check(t, pods.Delete(t.Context(), "a", metav1.DeleteOptions{}))
	expect(t, w, watch.Deleted)
	binding.Name = "b"
	if err := pods.Bind(t.Context(), binding, metav1.CreateOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("got %v, want NotFound", err)
	}
	const path = "/api/v1/namespaces/default/pods/a/binding"
	for name, test := range map[string]struct {
		method, body string
		code         int
	}{
		"no target": {http.MethodPost, `{}`, 400},
		"malformed": {http.MethodPost, `{`, 400},
		"a get":     {http.MethodGet, ``, 405},
	} {
		if got := f.do(test.method, path, test.body); got.code != test.code {
			t.Errorf("%s: got %d %s, want %d", name, got.code, got.body, test.code)
		}
	}
}

func TestNodes(t *testing.T) {
	f := newFixture(t, Options{})
	nodes := f.client.CoreV1().Nodes()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Status: corev1.NodeStatus{Phase: corev1.NodeRunning}}
	created, err := nodes.Create(t.Context(), node, metav1.CreateOptions{})
	if err != nil || created.Status.Phase != corev1.NodeRunning || created.Namespace != "" {
		t.Fatalf("got %v, %v, want the node with its status", created, err)
	}
	created.Spec.Unschedulable, created.Status.Phase = true, corev1.NodePending
	bySpec, err := nodes.Update(t.Context(), created, metav1.UpdateOptions{})
	if err != nil || !bySpec.Spec.Unschedulable || bySpec.Status.Phase != corev1.NodeRunning || bySpec.Generation != 0 {
		t.Errorf("got %v, %v, want only the spec changed, and no generation", bySpec, err)
	}
	bySpec.Spec.Unschedulable, bySpec.Status.Phase = false, corev1.NodePending
	byStatus, err := nodes.UpdateStatus(t.Context(), bySpec, metav1.UpdateOptions{})
	if err != nil || !byStatus.Spec.Unschedulable || byStatus.Status.Phase != corev1.NodePending {
		t.Errorf("got %v, %v, want only the status changed", byStatus, err)
	}
	list, err := nodes.List(t.Context(), metav1.ListOptions{FieldSelector: "spec.unschedulable=true,metadata.name=n"})
	if err != nil || len(list.Items) != 1 {
		t.Errorf("got %v, %v, want the node", list, err)
	}
}
