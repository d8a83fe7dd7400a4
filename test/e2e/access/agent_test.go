// SPDX-License-Identifier: Apache-2.0

package access_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"

	"github.com/refwatch/refwatch/examples/nodeagent/agent"
	"github.com/refwatch/refwatch/examples/nodeagent/volume"
	"github.com/refwatch/refwatch/manager"
	"github.com/refwatch/refwatch/test/e2e"
)

// agentRig runs the example's node agent with the credentials of its node.
type agentRig struct {
	*rig

	root  string
	agent *agent.Agent
	stop  func()
}

func (r *agentRig) start() {
	r.Helper()
	client, err := manager.ClientFor(r.cluster.Node(node1))
	r.must(client, err)
	r.agent, err = agent.New(agent.Options{Client: client, NodeName: node1, RootDir: r.root})
	r.must(r.agent, err)
	r.stop = e2e.Run(r, func(ctx context.Context) error { // without logs: the test causes errors on purpose
		return r.agent.Run(klog.NewContext(ctx, ktesting.NewLogger(ktesting.NopTL{}, ktesting.DefaultConfig)))
	})
}

// eventuallySynced waits until check returns nil. It calls check after every sync of the agent.
func (r *agentRig) eventuallySynced(what string, check func(context.Context) error) {
	r.Helper()
	ctx, cancel := context.WithTimeout(r.Context(), timeout)
	defer cancel()
	for {
		// Take the channel first: a sync during check is not missed.
		changed := r.agent.Changed()
		err := check(ctx)
		if err == nil {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			r.Fatalf("%s: not observed within %v; last error: %v", what, timeout, err)
		}
	}
}

// eventuallyMatches waits until the agent's files match the server: every volume of the node's pods has the files of
// its objects or is reported, and no other pod has a folder.
func (r *agentRig) eventuallyMatches(what string) {
	r.Helper()
	r.eventuallySynced(what, func(ctx context.Context) error {
		pods, err := r.admin.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=" + node1})
		if err != nil {
			return err
		}
		for i := range pods.Items {
			for j := range pods.Items[i].Spec.Volumes {
				if err := r.volumeMatches(ctx, &pods.Items[i], &pods.Items[i].Spec.Volumes[j]); err != nil {
					return fmt.Errorf("pod %s, volume %s: %w", pods.Items[i].Name, pods.Items[i].Spec.Volumes[j].Name, err)
				}
			}
		}
		folders, err := os.ReadDir(filepath.Join(r.root, "pods"))
		if err == nil && len(folders) != len(pods.Items) {
			err = fmt.Errorf("got %d folders, want one for each of %d pods", len(folders), len(pods.Items))
		}
		return err
	})
}

func (r *agentRig) volumeMatches(ctx context.Context, pod *corev1.Pod, v *corev1.Volume) error {
	want, wantErr := volume.Build(ctx, pod, v, serverGetter{r.rig})
	reported := r.reported(pod, v.Name)
	if wantErr != nil {
		if reported == nil {
			return fmt.Errorf("the agent reports no error, want one: %w", wantErr)
		}
		return nil
	}
	if reported != nil {
		return fmt.Errorf("the server has all objects, but the agent reports: %w", reported)
	}
	got, err := files(r.path(pod, v.Name))
	same := func(a, b volume.File) bool { return a.Mode == b.Mode && bytes.Equal(a.Data, b.Data) }
	if err == nil && !maps.EqualFunc(got, want, same) {
		err = fmt.Errorf("got files %v, want %v", got, want)
	}
	return err
}

// reported returns the error of a volume in the agent's status.
func (r *agentRig) reported(pod *corev1.Pod, name string) error {
	for _, v := range r.agent.Status()[pod.UID].Volumes {
		if v.Name == name {
			return v.Err
		}
	}
	return errors.New("not synced yet")
}

func (r *agentRig) path(pod *corev1.Pod, name string) string {
	return filepath.Join(r.root, "pods", string(pod.UID), "volumes", name)
}

// wantFile reads a file as a container does.
func (r *agentRig) wantFile(pod *corev1.Pod, volume, file, want string) {
	r.Helper()
	if got, err := os.ReadFile(filepath.Join(r.path(pod, volume), file)); err != nil || string(got) != want {
		r.Errorf("pod %s, file %s of volume %s: got %q and error %v, want %q", pod.Name, file, volume, got, err, want)
	}
}

// wantGone fails the test if a pod has a folder.
func (r *agentRig) wantGone(pod *corev1.Pod) {
	r.Helper()
	if _, err := os.Lstat(filepath.Join(r.root, "pods", string(pod.UID))); !errors.Is(err, fs.ErrNotExist) {
		r.Errorf("folder of pod %s: got error %v, want ErrNotExist", pod.Name, err)
	}
}

// files reads the current version of a volume.
func files(dir string) (volume.Payload, error) {
	root, err := filepath.EvalSymlinks(filepath.Join(dir, "..data"))
	if err != nil {
		return nil, err
	}
	found := volume.Payload{}
	err = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		data, err := os.ReadFile(path)
		found[strings.TrimPrefix(path, root+"/")] = volume.File{Data: data, Mode: int32(info.Mode())}
		return err
	})
	return found, err
}

// serverGetter is a [volume.Getter] that reads from the server, without a cache.
type serverGetter struct{ *rig }

func (g serverGetter) Secret(ctx context.Context, namespace, name string) (*corev1.Secret, error) {
	return g.admin.CoreV1().Secrets(namespace).Get(ctx, name, metav1.GetOptions{})
}

func (g serverGetter) ConfigMap(ctx context.Context, namespace, name string) (*corev1.ConfigMap, error) {
	return g.admin.CoreV1().ConfigMaps(namespace).Get(ctx, name, metav1.GetOptions{})
}

// settingsVolume returns a projected volume with an immutable ConfigMap and an optional Secret.
func settingsVolume() corev1.Volume {
	return corev1.Volume{Name: "settings", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
		Sources: []corev1.VolumeProjection{
			{ConfigMap: &corev1.ConfigMapProjection{
				LocalObjectReference: corev1.LocalObjectReference{Name: "settings"},
				Items:                []corev1.KeyToPath{{Key: "value", Path: "map/currency", Mode: new(int32(0o600))}},
			}},
			{Secret: &corev1.SecretProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "extra"}, Optional: new(true)}},
		},
	}}}
}

// TestAgent runs the node agent with a node's rights only, while pods and objects change.
func TestAgent(t *testing.T) {
	r := &agentRig{rig: newRig(t, e2e.Options{}), root: t.TempDir()}
	for _, name := range []string{"tls", "db", "elsewhere"} {
		r.createSecret(name, "1")
	}
	r.createConfigMap("settings", true)
	web1 := r.createPod("web-1", node1, corev1.PodSpec{Volumes: []corev1.Volume{secretVolume("tls"), settingsVolume()}})
	web2 := r.createPod("web-2", node1, corev1.PodSpec{Volumes: []corev1.Volume{secretVolume("tls"), settingsVolume()}})
	worker := r.createPod("worker", node1, corev1.PodSpec{Volumes: []corev1.Volume{secretVolume("db"), secretVolume("late")}})
	r.createPod("far", "node-2", corev1.PodSpec{Volumes: []corev1.Volume{secretVolume("elsewhere")}})

	r.start()
	r.eventuallyMatches("pods created before the agent started")
	r.wantFile(web1, "tls", "value", "1")
	r.wantFile(web2, "settings", "map/currency", "settings")
	if err := r.reported(worker, "late"); err == nil || !strings.Contains(err.Error(), `secrets "shop/late" not found`) {
		t.Errorf("volume of a missing secret: got error %v, want that it is not found", err)
	}
	r.eventually("no watch of an immutable object, and one of a shared object", func(context.Context) error {
		open := strings.Join(r.requests(node1User).open, "\n")
		if strings.Contains(open, "/configmaps?") || strings.Count(open, "metadata.name%3Dtls") != 1 {
			return fmt.Errorf("open watches:\n%s", open)
		}
		return nil
	})

	r.createSecret("late", "2")
	r.eventuallyMatches("a missing secret was created")
	r.wantFile(worker, "late", "value", "2")
	r.setSecret("tls", "3")
	r.eventuallyMatches("a shared secret was rotated")
	r.wantFile(web1, "tls", "value", "3")
	r.wantFile(web2, "tls", "value", "3")
	r.createSecret("extra", "4")
	r.eventuallyMatches("an optional secret was created")
	r.wantFile(web1, "settings", "value", "4")
	added := r.createPod("added", node1, corev1.PodSpec{Volumes: []corev1.Volume{secretVolume("db"), settingsVolume()}})
	r.eventuallyMatches("a pod was bound")
	r.wantFile(added, "db", "value", "1")
	r.deletePod("worker")
	r.eventuallyMatches("a pod was deleted")
	r.wantGone(worker)

	r.stop()
	r.deletePod("web-2")
	r.setSecret("tls", "5")
	r.wantFile(web1, "tls", "value", "3") // no agent runs
	r.start()
	r.eventuallyMatches("the agent was started again")
	r.wantGone(web2)
	r.wantFile(web1, "tls", "value", "5")
	r.stop()

	r.finish(node1User, allowList{node: node1, objects: []string{
		"secrets/tls", "secrets/db", "secrets/late", "secrets/extra", "configmaps/settings",
	}})
}

// A pod's folder has the pod's UID as its name: a recreated pod gets a new folder.
func TestAgentRecreatedPod(t *testing.T) {
	r := &agentRig{rig: newRig(t, e2e.Options{}), root: t.TempDir()}
	r.createSecret("tls", "1")
	spec := corev1.PodSpec{Volumes: []corev1.Volume{secretVolume("tls")}}
	uids := map[types.UID]bool{}
	r.start()
	for range 3 {
		pod := r.createPod("web", node1, spec)
		r.eventuallyMatches("a pod was created with the same name")
		r.wantFile(pod, "tls", "value", "1")
		if uids[pod.UID] {
			t.Errorf("pod UID %s: got it twice, want a new one", pod.UID)
		}
		uids[pod.UID] = true
		r.deletePod("web")
		r.eventuallyMatches("the pod was deleted")
		r.wantGone(pod)
	}
	r.stop()
	r.finish(node1User, allowList{node: node1, objects: []string{"secrets/tls"}})
}
