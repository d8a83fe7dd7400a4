// SPDX-License-Identifier: Apache-2.0

package docs_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/refwatch/refwatch/manager"
	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/test/apiserver"
)

// The recipes of docs/guides/node-agents.md.

// newestSecret returns a Secret as it is on the server after the pod came.
func (a *agent) newestSecret(ctx context.Context, pod *corev1.Pod, name string) (*corev1.Secret, error) {
	a.secrets.RegisterPod(pod)
	return a.secrets.GetWithOptions(ctx, pod.Namespace, name, objectcache.GetOptions{Live: true})
}

// secretOfVersion returns a Secret that includes a write, of which the caller knows the resource version.
func (a *agent) secretOfVersion(ctx context.Context, pod *corev1.Pod, name, version string) (*corev1.Secret, error) {
	return a.secrets.GetWithOptions(ctx, pod.Namespace, name, objectcache.GetOptions{NotOlderThan: version})
}

// volumeChanged references the Secrets that a CSI driver needs on the node for a PersistentVolume, in any namespace.
func (a *agent) volumeChanged(volume *corev1.PersistentVolume) {
	var keys []types.NamespacedName
	if csi := volume.Spec.CSI; csi != nil {
		refs := []*corev1.SecretReference{csi.NodeStageSecretRef, csi.NodePublishSecretRef, csi.NodeExpandSecretRef}
		for _, ref := range refs {
			if ref != nil {
				keys = append(keys, types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name})
			}
		}
	}
	a.secrets.SetReferences(volumeOwner(volume), keys...)
}

func (a *agent) volumeGone(volume *corev1.PersistentVolume) {
	a.secrets.SetReferences(volumeOwner(volume))
}

func volumeOwner(volume *corev1.PersistentVolume) manager.Owner {
	return manager.Owner{Kind: "PersistentVolume", Name: volume.Name, UID: volume.UID}
}

// newHubSecrets returns a manager for a hub at the edge, which the agent reaches in place of the API server.
func newHubSecrets(hub *rest.Config) (*manager.Manager[*corev1.Secret], error) {
	client, err := manager.ClientFor(hub)
	if err != nil {
		return nil, err
	}
	return manager.NewSecrets(client, objectcache.TTLOptions{TTL: 30 * time.Second})
}

// A new pod reads the newest Secret, although another pod has an older state in memory, and a PersistentVolume names a
// Secret of another namespace.
func TestNodeAgentRecipes(t *testing.T) {
	server, secret := serveSecret()
	defer server.Close()
	a, err := newAgent(server.Config())
	check(t, err)
	defer a.queue.ShutDown()
	defer runManager(t, a.secrets)()
	a.secrets.RegisterPod(newPod())
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := a.secrets.Get(ctx, "shop", "tls"); err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		secret.Data["version"] = []byte(fmt.Sprint(i))
		if secret, err = server.Client().CoreV1().Secrets("shop").Update(ctx, secret, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		next := newPod()
		next.UID = types.UID(fmt.Sprint(i))
		newest := func() (*corev1.Secret, error) { return a.secretOfVersion(ctx, next, "tls", secret.ResourceVersion) }
		if i < 3 { // further reads begin a second apart
			newest = func() (*corev1.Secret, error) { return a.newestSecret(ctx, next, "tls") }
		}
		if got, err := newest(); err != nil || got.ResourceVersion != secret.ResourceVersion {
			t.Fatalf("Get: got %v, want version %s", err, secret.ResourceVersion)
		}
	}

	volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "data", UID: "1"}}
	volume.Spec.CSI = &corev1.CSIPersistentVolumeSource{NodeStageSecretRef: &corev1.SecretReference{Namespace: "default", Name: "storage"}}
	a.volumeChanged(volume)
	if err := a.secrets.WaitForOwner(ctx, volumeOwner(volume)); err != nil {
		t.Error(err)
	}
	if _, ok := a.secrets.Status("default", "storage"); !ok {
		t.Error("the Secret of the volume is not referenced")
	}
	a.volumeGone(volume)
	if _, ok := a.secrets.Status("default", "storage"); ok {
		t.Error("the Secret of a volume that is gone is referenced")
	}
}

// A hub that answers with JSON only, whose events are all ADDED, which sends no bookmarks, and whose versions are no
// numbers, or missing: the managers of the guide read from it, and see changes.
func TestEdgeHub(t *testing.T) {
	for _, prefix := range []string{"", "v1-", "none"} {
		var data atomic.Int64
		hub := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			object := corev1.Secret{
				TypeMeta:   metav1.TypeMeta{Kind: "Secret", APIVersion: "v1"},
				ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "tls", UID: "1", ResourceVersion: fmt.Sprint(prefix, 1+data.Load())},
				Data:       map[string][]byte{"version": []byte(fmt.Sprint(data.Load()))},
			}
			if prefix == "none" {
				object.ResourceVersion = ""
			}
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(object)
		}))
		secrets, err := newHubSecrets(&rest.Config{Host: hub.URL})
		check(t, err)
		stop := runManager(t, secrets)
		secrets.RegisterPod(newPod())
		for i := range 3 {
			data.Store(int64(i))
			got, err := secrets.GetWithOptions(t.Context(), "shop", "tls", objectcache.GetOptions{Live: true})
			if err != nil || string(got.Data["version"]) != fmt.Sprint(i) {
				t.Errorf("versions %q: Get: got %v, want version %d", prefix, err, i)
			}
		}
		stop()
		hub.Close()
	}
}

// runManager runs a manager until the returned function is called, which waits for its end.
func runManager(t *testing.T, secrets *manager.Manager[*corev1.Secret]) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- secrets.Run(ctx) }()
	return func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// readAll reads objects once, and ends: a command needs no manager and no references.
func readAll(ctx context.Context, config *rest.Config, keys []types.NamespacedName, use func(*corev1.ConfigMap)) error {
	client, err := manager.ClientFor(config)
	if err != nil {
		return err
	}
	configMaps, err := manager.NewConfigMaps(client, objectcache.DirectOptions{})
	if err != nil {
		return err
	}
	for _, key := range keys {
		configMap, err := configMaps.Get(ctx, key.Namespace, key.Name)
		if err != nil {
			return err
		}
		use(configMap)
	}
	return nil
}

// A command reads fifty ConfigMaps once.
func TestReadOnceInACommand(t *testing.T) {
	server := apiserver.New(t, apiserver.Options{})
	var keys []types.NamespacedName
	for i := range 50 {
		key := types.NamespacedName{Namespace: "default", Name: fmt.Sprint("settings-", i)}
		object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: key.Name}}
		if _, err := server.Client().CoreV1().ConfigMaps(key.Namespace).Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		keys = append(keys, key)
	}
	count := 0
	if err := readAll(t.Context(), server.Config(), keys, func(*corev1.ConfigMap) { count++ }); err != nil || count != 50 {
		t.Errorf("got %d ConfigMaps and %v, want 50", count, err)
	}
}
