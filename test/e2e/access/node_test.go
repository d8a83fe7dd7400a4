// SPDX-License-Identifier: Apache-2.0

package access_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/refwatch/refwatch/manager"
	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/test/e2e"
)

const (
	node1     = "node-1"
	node1User = "system:node:" + node1
)

// refusalGrace is more than the Node authorizer's graph lags behind the pods, even on a busy machine. Each refusal
// takes that long.
const refusalGrace = 5 * time.Second

// createPod creates a pod bound to a node.
func (r *rig) createPod(name, node string, spec corev1.PodSpec) *corev1.Pod {
	r.Helper()
	spec.NodeName = node
	container := corev1.Container{Name: "main", Image: "registry.example/shop:1"}
	if len(spec.Containers) > 0 {
		container.Env, container.EnvFrom = spec.Containers[0].Env, spec.Containers[0].EnvFrom
	}
	spec.Containers = []corev1.Container{container}
	pod, err := r.admin.CoreV1().Pods(namespace).Create(r.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: spec,
	}, metav1.CreateOptions{})
	r.must(pod, err)
	return pod
}

// deletePod deletes a pod with a grace period of 0: there is no kubelet.
func (r *rig) deletePod(name string) {
	r.Helper()
	r.must(nil, r.admin.CoreV1().Pods(namespace).Delete(r.Context(), name, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}))
}

func (r *rig) createConfigMap(name string, immutable bool) {
	r.Helper()
	r.must(r.admin.CoreV1().ConfigMaps(namespace).Create(r.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Data:       map[string]string{"value": name}, Immutable: &immutable,
	}, metav1.CreateOptions{}))
}

// allReferences returns a pod that references Secrets and ConfigMaps in every way that the Node authorizer accepts:
// image pull secrets, environment, and volumes.
func allReferences() corev1.PodSpec {
	local := func(name string) corev1.LocalObjectReference { return corev1.LocalObjectReference{Name: name} }
	return corev1.PodSpec{
		ImagePullSecrets: []corev1.LocalObjectReference{local("pull")},
		Containers: []corev1.Container{{
			Env: []corev1.EnvVar{{Name: "V", ValueFrom: &corev1.EnvVarSource{
				SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: local("env"), Key: "value"},
			}}},
			EnvFrom: []corev1.EnvFromSource{
				{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: local("env")}},
				{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: local("missing"), Optional: new(true)}},
			},
		}},
		Volumes: []corev1.Volume{
			secretVolume("volume"),
			{Name: "map", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: local("volume")}}},
			{Name: "projected", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
				Sources: []corev1.VolumeProjection{
					{Secret: &corev1.SecretProjection{LocalObjectReference: local("projected")}},
					{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: local("projected")}},
				},
			}}},
		},
	}
}

// secretVolume returns a volume with the name of its Secret.
func secretVolume(name string) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: name}}}
}

// nodeRig has the managers of a node agent, with the credentials of the node.
type nodeRig struct {
	*rig

	secrets    *manager.Manager[*corev1.Secret]
	configMaps *manager.Manager[*corev1.ConfigMap]
}

func newNodeRig(t *testing.T) *nodeRig {
	r := newRig(t, e2e.Options{})
	client, options := e2e.Client(r, r.cluster.Node(node1)), objectcache.WatchOptions{RefusalGrace: refusalGrace}
	secrets, err := manager.NewSecrets(client, options)
	if err != nil {
		t.Fatal(err)
	}
	configMaps, err := manager.NewConfigMaps(client, options)
	if err != nil {
		t.Fatal(err)
	}
	return &nodeRig{rig: r, secrets: secrets, configMaps: configMaps}
}

// register registers a pod with both managers.
func (r *nodeRig) register(pod *corev1.Pod) {
	r.secrets.RegisterPod(pod)
	r.configMaps.RegisterPod(pod)
}

// TestNode: a node reads all objects that pods bound to it reference, and no others.
func TestNode(t *testing.T) {
	r := newNodeRig(t)
	for _, name := range []string{"pull", "env", "volume", "projected"} {
		r.createSecret(name, name)
	}
	for _, name := range []string{"env", "volume", "projected"} {
		r.createConfigMap(name, false)
	}
	r.createSecret("elsewhere", "canary")
	r.createSecret("unreferenced", "canary")
	r.createPod("far", "node-2", corev1.PodSpec{Volumes: []corev1.Volume{secretVolume("elsewhere")}})
	stopSecrets, stopConfigMaps := e2e.Run(r, r.secrets.Run), e2e.Run(r, r.configMaps.Run)

	pod := r.createPod("web", node1, allReferences())
	r.register(pod)
	r.checkAllReferences()

	// An owner without a pod on this node.
	other := manager.Owner{Name: "other", UID: "other"}
	r.secrets.SetReferences(other, keysOf([]string{"elsewhere", "unreferenced"})...)
	r.configMaps.SetReferences(other, keysOf([]string{"unreferenced"})...)
	var group errgroup.Group
	group.Go(func() error { return refused(t.Context(), r.secrets, "secrets", "elsewhere") })
	group.Go(func() error { return refused(t.Context(), r.secrets, "secrets", "unreferenced") })
	group.Go(func() error { return refused(t.Context(), r.configMaps, "configmaps", "unreferenced") })
	if err := group.Wait(); err != nil {
		t.Error(err)
	}
	r.setSecret("volume", "rotated")
	r.eventuallyValue(r.secrets, "volume", "rotated")
	r.checkForbidden()
	stopSecrets()
	stopConfigMaps()
	r.finish(node1User, allowList{objects: []string{
		"secrets/pull", "secrets/env", "secrets/missing", "secrets/volume", "secrets/projected",
		"configmaps/env", "configmaps/volume", "configmaps/projected",
		"secrets/elsewhere", "secrets/unreferenced", "configmaps/unreferenced", // of the other owner
	}})
}

// checkAllReferences gets every object that the pod of [allReferences] references.
func (r *nodeRig) checkAllReferences() {
	r.Helper()
	var group errgroup.Group
	for _, name := range []string{"pull", "env", "volume", "projected"} {
		group.Go(func() error { return value(r.Context(), r.secrets, name, name) })
	}
	for _, name := range []string{"env", "volume", "projected"} {
		group.Go(func() error {
			configMap, err := r.configMaps.Get(r.Context(), namespace, name)
			if err == nil && configMap.Data["value"] != name {
				err = fmt.Errorf("value of config map %s: got %q, want %q", name, configMap.Data["value"], name)
			}
			return err
		})
	}
	group.Go(func() error {
		if _, err := r.secrets.Get(r.Context(), namespace, "missing"); !apierrors.IsNotFound(err) {
			return fmt.Errorf("Get of an optional secret that is missing: got error %w, want NotFound", err)
		}
		return nil
	})
	if err := group.Wait(); err != nil {
		r.Error(err)
	}
}

// checkForbidden sends requests that the library must not send: the server refuses them to a node.
func (r *nodeRig) checkForbidden() {
	r.Helper()
	config := r.cluster.Node(node1)
	config.UserAgent = manualAgent
	core := e2e.Client(r, config).CoreV1()
	_, err := core.Secrets(namespace).List(r.Context(), metav1.ListOptions{})
	r.wantForbidden("list of the namespace", err)
	_, err = core.Secrets("").List(r.Context(), metav1.ListOptions{})
	r.wantForbidden("list of the cluster", err)
	_, err = core.Secrets("").Watch(r.Context(), metav1.ListOptions{FieldSelector: "metadata.name=volume"})
	r.wantForbidden("watch of a name in all namespaces", err)
	_, err = core.ConfigMaps(namespace).Watch(r.Context(), metav1.ListOptions{LabelSelector: "a=b"})
	r.wantForbidden("watch by label", err)
	_, err = core.Secrets(namespace).Get(r.Context(), "elsewhere", metav1.GetOptions{})
	r.wantForbidden("get of another node's secret", err)
	_, err = core.Secrets(namespace).Update(r.Context(), secretOf("volume", "x"), metav1.UpdateOptions{})
	r.wantForbidden("update", err)
}

// TestNodeRightAfterBinding gets the objects of each pod right after the pod is bound, before the Node authorizer's
// graph has it.
func TestNodeRightAfterBinding(t *testing.T) {
	r := newNodeRig(t)
	r.createSecret("shared", "1")
	r.createConfigMap("settings", true)
	stopSecrets, stopConfigMaps := e2e.Run(r, r.secrets.Run), e2e.Run(r, r.configMaps.Run)
	allowed := allowList{objects: []string{"secrets/shared", "configmaps/settings"}}
	spec := corev1.PodSpec{
		Volumes: []corev1.Volume{secretVolume("shared")},
		Containers: []corev1.Container{{EnvFrom: []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{
			LocalObjectReference: corev1.LocalObjectReference{Name: "settings"},
		}}}}},
	}

	const pods = 20
	var slowest time.Duration
	for i := range pods {
		name := fmt.Sprint("own-", i)
		r.createSecret(name, name)
		allowed.objects = append(allowed.objects, "secrets/"+name)
		own := spec
		own.Volumes = append([]corev1.Volume{secretVolume(name)}, spec.Volumes...)
		pod := r.createPod(name, node1, own)
		bound := time.Now()
		r.register(pod)
		r.wantValue(r.secrets, name, name)
		r.wantValue(r.secrets, "shared", "1")
		slowest = max(slowest, time.Since(bound))
		if _, err := r.configMaps.Get(t.Context(), namespace, "settings"); err != nil {
			t.Errorf("shared config map, pod %d: %v", i, err)
		}
	}
	t.Logf("slowest of %d secrets: %v after its pod was bound", pods, slowest.Round(time.Millisecond))
	stopSecrets()
	stopConfigMaps()
	r.finish(node1User, allowed)
}

// TestNodeLosesAccess: an object that only a deleted pod referenced is refused.
func TestNodeLosesAccess(t *testing.T) {
	r := newNodeRig(t)
	r.createSecret("shared", "1")
	r.createSecret("own", "1")
	kept := r.createPod("kept", node1, corev1.PodSpec{Volumes: []corev1.Volume{secretVolume("shared")}})
	deleted := r.createPod("deleted", node1, corev1.PodSpec{Volumes: []corev1.Volume{secretVolume("shared"), secretVolume("own")}})
	stop := e2e.Run(r, r.secrets.Run)
	r.register(kept)
	r.register(deleted)
	r.wantValue(r.secrets, "shared", "1")
	r.wantValue(r.secrets, "own", "1")

	r.deletePod("deleted")
	r.secrets.UnregisterPod(deleted)
	r.awaitAllowed(node1User, []string{"system:nodes"}, "own", false)
	if _, err := r.secrets.Get(t.Context(), namespace, "own"); !errors.Is(err, objectcache.ErrNotRegistered) {
		t.Errorf("Get of an unreferenced secret: got error %v, want ErrNotRegistered", err)
	}
	r.secrets.SetReferences(manager.Owner{UID: "other"}, types.NamespacedName{Namespace: namespace, Name: "own"})
	if err := refused(t.Context(), r.secrets, "secrets", "own"); err != nil {
		t.Error(err)
	}
	r.setSecret("shared", "2")
	r.eventuallyValue(r.secrets, "shared", "2")
	stop()
	r.finish(node1User, allowList{objects: []string{"secrets/shared", "secrets/own"}})
}
