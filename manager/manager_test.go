// SPDX-License-Identifier: Apache-2.0

package manager_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/refwatch/refwatch/manager"
	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/test/apiserver"
)

// The manager serves the objects of registered pods from an API server.
func TestRegisterPodThenGet(t *testing.T) {
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
		// Both before Run: else the change of "a" might be yielded between the two.
		m.RegisterPod(podOf("1", "a"))
		m.RegisterPod(podOf("2", "a", "missing"))
		stop := run(ctx, t, m)
		var running sync.WaitGroup
		changes := make(chan string, 100)
		running.Go(func() {
			for change, owners := range m.Changes(ctx) {
				changes <- fmt.Sprint(change.Key.Name, " ", change.Err, " ", owners)
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
		got, want := []string{<-changes, <-changes}, []string{
			"a <nil> [{Pod default pod-1 1} {Pod default pod-2 2}]",
			`missing secrets "default/missing" not found [{Pod default pod-2 2}]`,
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("changes: got %q, want %q", got, want)
		}
		m.UnregisterPod(podOf("1"))
		m.UnregisterPod(podOf("2"))
		synctest.Wait()
		if got := server.TotalStreams(); got != 0 {
			t.Errorf("streams after the last pod: got %d, want 0", got)
		}
		cancel()
		running.Wait()
		stop()
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
		m, err := manager.NewConfigMaps(client, objectcache.WatchOptions{})
		if err != nil {
			t.Fatal(err)
		}
		stop := run(t.Context(), t, m)
		pod := podOf("1")
		pod.Spec.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
			LocalObjectReference: corev1.LocalObjectReference{Name: "settings"},
		}}}}
		m.RegisterPod(pod)
		if got, err := m.Get(t.Context(), "default", "settings"); err != nil || got.Data["colour"] != "blue" {
			t.Errorf("got %v, %v, want the config map", got, err)
		}
		if synctest.Wait(); server.TotalStreams() != 0 {
			t.Errorf("streams: got %d, want none: it is immutable", server.TotalStreams())
		}
		stop()
	})
}
