// SPDX-License-Identifier: Apache-2.0

package manager_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/refwatch/refwatch/manager"
	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/test/apiserver"
)

// podOf returns a pod that pulls images with those secrets.
func podOf(uid types.UID, secrets ...string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "pod-" + string(uid), UID: uid}}
	for _, name := range secrets {
		pod.Spec.ImagePullSecrets = append(pod.Spec.ImagePullSecrets, corev1.LocalObjectReference{Name: name})
	}
	return pod
}

func key(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: "default", Name: name}
}

// countingStore is a store that counts, and tells when a count is wrong.
type countingStore struct {
	noStore

	t interface{ Errorf(string, ...any) }

	mu     sync.Mutex
	counts map[string]int // "ns/name owner"
	calls  []string       // "+ns/name owner" and "-ns/name owner"
}

func newCountingStore(t interface{ Errorf(string, ...any) }) *countingStore {
	return &countingStore{t: t, counts: map[string]int{}}
}

func (s *countingStore) AddReference(namespace, name string, uid types.UID) {
	s.count("+", namespace+"/"+name+" "+string(uid), 1)
}

func (s *countingStore) DeleteReference(namespace, name string, uid types.UID) {
	s.count("-", namespace+"/"+name+" "+string(uid), -1)
}

func (s *countingStore) count(sign, what string, delta int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, sign+what)
	switch s.counts[what] += delta; {
	case s.counts[what] == 0:
		delete(s.counts, what)
	case s.counts[what] != 1:
		s.t.Errorf("count of %s: got %d, want 0 or 1", what, s.counts[what])
	}
}

func (s *countingStore) Get(context.Context, string, string) (*corev1.Secret, error) {
	return nil, errors.New("no objects here")
}

// held returns what is referenced, in order.
func (s *countingStore) held() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []string
	for what := range s.counts {
		all = append(all, what)
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

func TestRegisterAndUnregister(t *testing.T) {
	type m = *manager.Manager[*corev1.Secret]
	tests := map[string]struct {
		steps []func(m)
		want  string
	}{
		"one pod":            {[]func(m){func(m m) { m.RegisterPod(podOf("1", "a", "b")) }}, "default/a 1, default/b 1"},
		"named twice":        {[]func(m){func(m m) { m.RegisterPod(podOf("1", "a", "a")) }}, "default/a 1"},
		"registered twice":   {[]func(m){func(m m) { m.RegisterPod(podOf("1", "a")); m.RegisterPod(podOf("1", "a")) }}, "default/a 1"},
		"other references":   {[]func(m){func(m m) { m.RegisterPod(podOf("1", "a", "b")); m.RegisterPod(podOf("1", "b", "c")) }}, "default/b 1, default/c 1"},
		"two pods":           {[]func(m){func(m m) { m.RegisterPod(podOf("1", "a")); m.RegisterPod(podOf("2", "a")) }}, "default/a 1, default/a 2"},
		"unregistered":       {[]func(m){func(m m) { m.RegisterPod(podOf("1", "a")); m.UnregisterPod(podOf("1")) }}, ""},
		"unregistered twice": {[]func(m){func(m m) { m.RegisterPod(podOf("1", "a")); m.UnregisterPod(podOf("1")); m.UnregisterPod(podOf("1")) }}, ""},
		"never registered":   {[]func(m){func(m m) { m.UnregisterPod(podOf("1", "a")) }}, ""},
		"same name, new UID": {[]func(m){func(m m) {
			p := podOf("1", "a")
			m.RegisterPod(p)
			q := podOf("2", "b")
			q.Name = p.Name
			m.RegisterPod(q)
		}}, "default/a 1, default/b 2"},
		"no references": {[]func(m){func(m m) { m.RegisterPod(podOf("1")); m.UnregisterPod(podOf("1")) }}, ""},
		"nil pods":      {[]func(m){func(m m) { m.RegisterPod(nil); m.UnregisterPod(nil) }}, ""},
		"no UID":        {[]func(m){func(m m) { p := podOf("", "a"); m.RegisterPod(p); p.Name = "other"; m.RegisterPod(p) }}, "default/a Pod/default/other, default/a Pod/default/pod-"},
		"another owner": {[]func(m){func(m m) { m.SetReferences(manager.Owner{UID: "gw"}, key("a"), key("a"), key("b")) }}, "default/a gw, default/b gw"},
		"another owner's less": {[]func(m){func(m m) {
			o := manager.Owner{UID: "gw"}
			m.SetReferences(o, key("a"), key("b"))
			m.SetReferences(o, key("b"))
		}}, "default/b gw"},
		"another owner's none": {[]func(m){func(m m) { o := manager.Owner{UID: "gw"}; m.SetReferences(o, key("a")); m.SetReferences(o) }}, ""},
		"across namespaces": {[]func(m){func(m m) {
			m.SetReferences(manager.Owner{UID: "gw"}, key("a"), types.NamespacedName{Namespace: "other", Name: "a"})
		}}, "default/a gw, other/a gw"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			store := newCountingStore(t)
			m := newManager(t, store, manager.VisitPodSecretNames)
			for _, step := range test.steps {
				step(m)
			}
			if got := store.held(); got != test.want {
				t.Errorf("references: got %q, want %q", got, test.want)
			}
		})
	}
}

// A re-registration adds before it deletes: what is needed before and after
// never drops to zero.
func TestReregistrationAddsFirst(t *testing.T) {
	store := newCountingStore(t)
	m := newManager(t, store, manager.VisitPodSecretNames)
	m.RegisterPod(podOf("1", "a", "b", "c"))
	store.calls = nil
	m.RegisterPod(podOf("1", "b", "c", "d", "e"))
	want := "+default/d 1 +default/e 1 -default/a 1"
	if got := strings.Join(store.calls, " "); got != want {
		t.Errorf("calls: got %q, want %q", got, want)
	}
}

// Peer bug 12: a pod that its caller changes between Register and Unregister
// leaks its reference in kubelet.
func TestPeerBug12_MutatedPodLeaksNothing(t *testing.T) {
	store := newCountingStore(t)
	m := newManager(t, store, manager.VisitPodSecretNames)
	pod := podOf("1", "a")
	m.RegisterPod(pod)
	pod.Spec.ImagePullSecrets[0].Name = "b"
	m.RegisterPod(pod)
	pod.Spec.ImagePullSecrets[0].Name = "c"
	m.UnregisterPod(pod)
	if got := store.held(); got != "" {
		t.Errorf("references: got %q, want none", got)
	}

	keys := []types.NamespacedName{key("b"), key("a")}
	m.SetReferences(manager.Owner{UID: "gw"}, keys...)
	if keys[0] != key("b") {
		t.Error("SetReferences reordered its caller's keys")
	}
	keys[0], keys[1] = key("x"), key("y")
	m.SetReferences(manager.Owner{UID: "gw"})
	if got := store.held(); got != "" {
		t.Errorf("references: got %q, want none", got)
	}
}

func TestConcurrentOwners(t *testing.T) {
	store := newCountingStore(t)
	m := newManager(t, store, manager.VisitPodSecretNames)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			uid := types.UID(fmt.Sprint(i % 4)) // two goroutines to a pod
			for j := range 100 {
				m.RegisterPod(podOf(uid, "a", fmt.Sprint("s", j%3)))
				m.UnregisterPod(podOf(uid))
			}
		})
	}
	all.Wait()
	if got := store.held(); got != "" {
		t.Errorf("references: got %q, want none", got)
	}
}

// The whole way, over the wire: pods in, objects out.
func TestPodsInObjectsOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := apiserver.New(t, apiserver.Options{InMemory: true})
		client := server.Client()
		for _, name := range []string{"a", "b"} {
			secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}}
			if _, err := client.CoreV1().Secrets("default").Create(t.Context(), secret, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		m, err := manager.NewSecrets(client, objectcache.WatchOptions{})
		if err != nil {
			t.Fatal(err)
		}
		// Both before Run: with streams open, "a" may sync, and its change be yielded, between the two.
		m.RegisterPod(podOf("1", "a"))
		m.RegisterPod(podOf("2", "a", "missing"))
		var running sync.WaitGroup
		running.Go(func() { _ = m.Run(ctx) })
		changes := make(chan string, 100)
		running.Go(func() {
			for change, owners := range m.Changes(ctx) {
				changes <- fmt.Sprint(change.Key.Name, " ", change.Deleted, " ", owners)
			}
		})
		if got, err := m.Get(ctx, "default", "a"); err != nil || got.Name != "a" {
			t.Errorf("a: got %v, %v, want the secret", got, err)
		}
		if _, err := m.Get(ctx, "default", "b"); !errors.Is(err, objectcache.ErrNotRegistered) {
			t.Errorf("b: got %v, want ErrNotRegistered", err)
		}
		if _, err := m.Get(ctx, "default", "missing"); !apierrors.IsNotFound(err) {
			t.Errorf("missing: got %v, want NotFound", err)
		}
		if got, want := <-changes, "a false [{Pod default pod-1 1} {Pod default pod-2 2}]"; got != want {
			t.Errorf("change: got %q, want %q", got, want)
		}
		m.UnregisterPod(podOf("1"))
		m.UnregisterPod(podOf("2"))
		synctest.Wait()
		if got := server.TotalStreams(); got != 0 {
			t.Errorf("streams after the last pod: got %d, want 0", got)
		}
		cancel()
		running.Wait()
	})
}

func TestConfigMaps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		yes := true
		server := apiserver.New(t, apiserver.Options{InMemory: true})
		client := server.Client()
		settings := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "settings"}, Immutable: &yes, Data: map[string]string{"colour": "blue"}}
		if _, err := client.CoreV1().ConfigMaps("default").Create(t.Context(), settings, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		m, err := manager.NewConfigMaps(client, objectcache.WatchOptions{})
		if err != nil {
			t.Fatal(err)
		}
		var running sync.WaitGroup
		running.Go(func() { _ = m.Run(ctx) })
		pod := podOf("1")
		pod.Spec.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
			LocalObjectReference: corev1.LocalObjectReference{Name: "settings"},
		}}}}
		m.RegisterPod(pod)
		if got, err := m.Get(ctx, "default", "settings"); err != nil || got.Data["colour"] != "blue" {
			t.Errorf("got %v, %v, want the config map", got, err)
		}
		if synctest.Wait(); server.TotalStreams() != 0 {
			t.Errorf("streams: got %d, want none: it is immutable", server.TotalStreams())
		}
		cancel()
		running.Wait()
	})
}
