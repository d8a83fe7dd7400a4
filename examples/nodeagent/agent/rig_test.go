// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"

	"github.com/refwatch/refwatch/test/apiserver"
)

// timeout bounds each wait. A test that passes does not reach it.
const timeout = time.Minute

// rig is an API server, and an agent for the node "node-1" with a root folder. Objects are in the namespace "default".
type rig struct {
	*testing.T

	server *apiserver.Server
	client kubernetes.Interface
	root   string
	agent  *Agent
	stop   func() // stops the agent; a second call does nothing
}

// newRig starts a server. The agent is started by [rig.start].
func newRig(t *testing.T) *rig { return newRigWith(t, apiserver.Options{}) }

func newRigWith(t *testing.T, options apiserver.Options) *rig {
	server := apiserver.New(t, options)
	return &rig{T: t, server: server, client: server.Client(), root: t.TempDir()}
}

// start runs an agent on the rig's folder.
func (r *rig) start() {
	r.Helper()
	var err error
	if r.agent, err = New(Options{Client: r.server.Client(), NodeName: "node-1", RootDir: r.root}); err != nil {
		r.Fatal(err)
	}
	ctx, cancel := context.WithCancel(klog.NewContext(context.Background(), ktesting.NewLogger(r, ktesting.DefaultConfig)))
	done := make(chan error, 1)
	go func() { done <- r.agent.Run(ctx) }()
	r.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			r.Errorf("Run: got error %v, want none", err)
		}
	})
	r.Cleanup(r.stop)
}

// eventually waits until check succeeds. It calls check after every sync of the agent.
func (r *rig) eventually(what string, check func() error) {
	r.Helper()
	ctx, cancel := context.WithTimeout(r.Context(), timeout)
	defer cancel()
	for {
		changed := r.agent.Changed()
		err := check()
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

// eventuallySynced waits for the first sync of a pod.
func (r *rig) eventuallySynced(pod *corev1.Pod) {
	r.Helper()
	r.eventually(pod.Name+" synced", func() error {
		if _, ok := r.agent.Status()[pod.UID]; !ok {
			return errors.New("not synced")
		}
		return nil
	})
}

// eventuallyServer waits until holds returns true. It calls holds after every change of the server's counters.
func (r *rig) eventuallyServer(what string, holds func() bool) {
	r.Helper()
	ctx, cancel := context.WithTimeout(r.Context(), timeout)
	defer cancel()
	if err := r.server.WaitFor(ctx, holds); err != nil {
		r.Fatalf("%s: not observed within %v", what, timeout)
	}
}

// eventuallyHas waits until a volume has exactly these files, given as pairs of path and content.
func (r *rig) eventuallyHas(pod *corev1.Pod, volume string, pairs ...string) {
	r.Helper()
	r.eventually(pod.Name+"/"+volume, func() error { return r.has(pod, volume, pairs...) })
}

func (r *rig) has(pod *corev1.Pod, volume string, pairs ...string) error {
	var want []string
	for i := 0; i < len(pairs); i += 2 {
		want = append(want, pairs[i]+"="+pairs[i+1])
	}
	dir := r.path(pod, volume, "..data")
	top, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return err
	}
	var got []string
	err = filepath.WalkDir(top, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		got = append(got, strings.TrimPrefix(path, top+"/")+"="+string(data))
		return err
	})
	if err != nil {
		return err
	}
	if slices.Sort(want); !slices.Equal(got, want) {
		return fmt.Errorf("files: got %q, want %q", got, want)
	}
	return nil
}

// eventuallyFails waits until the status of a volume has an error with each of the texts.
func (r *rig) eventuallyFails(pod *corev1.Pod, volume string, texts ...string) {
	r.Helper()
	r.eventually(pod.Name+"/"+volume+" fails", func() error {
		got := r.failure(pod, volume)
		for _, text := range texts {
			if !strings.Contains(got, text) {
				return fmt.Errorf("status: got error %q, want one with %q", got, text)
			}
		}
		return nil
	})
}

// failure returns the text of a volume's error, or "".
func (r *rig) failure(pod *corev1.Pod, volume string) string {
	if err := r.agent.Status()[pod.UID].volume(volume).Err; err != nil {
		return err.Error()
	}
	return ""
}

// eventuallyGone waits until the folder and the status of a pod are removed.
func (r *rig) eventuallyGone(pod *corev1.Pod) {
	r.Helper()
	r.eventually(pod.Name+" gone", func() error {
		if _, ok := r.agent.Status()[pod.UID]; ok {
			return errors.New("it still has a status")
		}
		return r.absent("pods", string(pod.UID))
	})
}

// absent fails if a path below the root folder exists.
func (r *rig) absent(elements ...string) error {
	path := filepath.Join(append([]string{r.root}, elements...)...)
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return fmt.Errorf("%s exists, want no such file", path)
}

func (r *rig) path(pod *corev1.Pod, volume string, more ...string) string {
	return filepath.Join(append([]string{r.root, "pods", string(pod.UID), "volumes", volume}, more...)...)
}

func meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name}
}

// createPod creates a pod that is bound to a node.
func (r *rig) createPod(name, node string, volumes ...corev1.Volume) *corev1.Pod {
	r.Helper()
	pod, err := r.client.CoreV1().Pods(metav1.NamespaceDefault).Create(r.Context(), &corev1.Pod{
		ObjectMeta: meta(name),
		Spec: corev1.PodSpec{
			NodeName: node, Volumes: volumes, Containers: []corev1.Container{{Name: "main", Image: "registry.example/main:1"}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		r.Fatal(err)
	}
	return pod
}

func (r *rig) deletePod(name string) {
	r.Helper()
	if err := r.client.CoreV1().Pods(metav1.NamespaceDefault).Delete(r.Context(), name, metav1.DeleteOptions{}); err != nil {
		r.Fatal(err)
	}
}

// setSecret creates a Secret, or replaces its data.
func (r *rig) setSecret(name string, pairs ...string) {
	r.Helper()
	secret := &corev1.Secret{ObjectMeta: meta(name), Data: map[string][]byte{}}
	for i := 0; i < len(pairs); i += 2 {
		secret.Data[pairs[i]] = []byte(pairs[i+1])
	}
	secrets := r.client.CoreV1().Secrets(metav1.NamespaceDefault)
	_, err := secrets.Update(r.Context(), secret, metav1.UpdateOptions{})
	if err != nil {
		_, err = secrets.Create(r.Context(), secret, metav1.CreateOptions{})
	}
	if err != nil {
		r.Fatal(err)
	}
}

func (r *rig) deleteSecret(name string) {
	r.Helper()
	if err := r.client.CoreV1().Secrets(metav1.NamespaceDefault).Delete(r.Context(), name, metav1.DeleteOptions{}); err != nil {
		r.Fatal(err)
	}
}

// secretVolume returns a volume with the name of its Secret.
func secretVolume(name string, items ...corev1.KeyToPath) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
		Secret: &corev1.SecretVolumeSource{SecretName: name, Items: items},
	}}
}

func optional(volume corev1.Volume) corev1.Volume {
	volume.Secret.Optional = new(true)
	return volume
}
