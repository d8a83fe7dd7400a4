// SPDX-License-Identifier: Apache-2.0

package manager_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/refwatch/refwatch/manager"
	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/objectcache/access"
	"github.com/refwatch/refwatch/test/apiserver"
)

// podOfNames returns a pod that references a Secret in each way that the API server accepts any name in.
func podOfNames(uid types.UID, volume, projected, pull, env string) *corev1.Pod {
	optional := true
	reference := func(name string) corev1.LocalObjectReference { return corev1.LocalObjectReference{Name: name} }
	pod := podOf(uid, pull)
	pod.Spec.Containers = []corev1.Container{{EnvFrom: []corev1.EnvFromSource{
		{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: reference(env), Optional: &optional}},
	}}}
	pod.Spec.Volumes = []corev1.Volume{
		{Name: "volume", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: volume, Optional: &optional}}},
		{Name: "projected", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
			{Secret: &corev1.SecretProjection{LocalObjectReference: reference(projected), Optional: &optional}},
			{Secret: &corev1.SecretProjection{LocalObjectReference: reference("tls")}},
		}}}},
	}
	return pod
}

// A pod that names Secrets which cannot exist is synced, and so is the whole manager. They are absent to its owners,
// with every strategy that keeps something, and need no permission.
func TestPodWithNamesThatCannotExist(t *testing.T) {
	for name, options := range map[string]objectcache.StoreOptions{"watch": objectcache.WatchOptions{}, "TTL": objectcache.TTLOptions{}} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, options, func(t *testing.T, m *manager.Manager[*corev1.Secret], server *apiserver.Server) {
				tls := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "tls"}}
				if _, err := server.Client().CoreV1().Secrets("default").Create(t.Context(), tls, metav1.CreateOptions{}); err != nil {
					t.Fatal(err)
				}
				before := len(server.Requests())
				m.RegisterPod(podOfNames("1", "My_Secret", "UPPER", "pull secret", "env.Secret"))
				owner := manager.Owner{Kind: "Pod", Namespace: "default", Name: "pod-1", UID: "1"}
				if err := m.WaitForOwner(t.Context(), owner); err != nil {
					t.Errorf("WaitForOwner: got %v, want nil", err)
				}
				if err := m.WaitForSync(t.Context()); err != nil || !m.HasSynced() || !m.OwnerHasSynced(owner) {
					t.Errorf("got %v from WaitForSync, HasSynced %t and OwnerHasSynced %t, want a synced manager", err, m.HasSynced(), m.OwnerHasSynced(owner))
				}
				names := []string{"My_Secret", "UPPER", "env.Secret", "pull secret"}
				for _, name := range names {
					_, err := m.GetFor(t.Context(), owner, "default", name)
					if !apierrors.IsNotFound(err) || !errors.Is(err, objectcache.ErrInvalidName) || !m.HasSynced(key(name)) {
						t.Errorf("%s: got %v, and synced %t; want NotFound and ErrInvalidName of a synced object", name, err, m.HasSynced(key(name)))
					}
					if got := m.OwnersOf("default", name); !slices.Equal(got, []manager.Owner{owner}) {
						t.Errorf("owners of %s: got %v, want the pod", name, got)
					}
				}
				roles, err := access.Roles("agent", m.Access())
				if err != nil || len(roles) != 1 || !slices.Equal(roles[0].Rules[0].ResourceNames, []string{"tls"}) {
					t.Errorf("roles: got %+v and %v, want one of tls", roles, err)
				}
				for _, request := range server.Requests()[before:] {
					if request.Name != "tls" {
						t.Errorf("got the request %+v", request)
					}
				}
				m.UnregisterPod(podOf("1"))
				if got := m.Stats(); got.Objects != 0 || got.References != 0 {
					t.Errorf("unregistered: got %d objects and %d references, want none", got.Objects, got.References)
				}
			})
		})
	}
}

// Changes yields such an object once to its owners. A policy decides about it as about any other.
func TestChangesOfNamesThatCannotExist(t *testing.T) {
	inBubble(t, objectcache.WatchOptions{}, func(t *testing.T, m *manager.Manager[*corev1.Secret], _ *apiserver.Server) {
		got := map[string]int{}
		go func() {
			for change, owners := range m.Changes(t.Context()) {
				got[fmt.Sprint(change.Key.Name, " ", len(owners), " ", errors.Is(change.Err, objectcache.ErrInvalidName))]++
			}
		}()
		denied := errors.New("denied")
		m.SetReferencePolicy(func(_ manager.Owner, key types.NamespacedName) error {
			if key.Name == "Denied" {
				return denied
			}
			return nil
		})
		gateway := manager.Owner{Kind: "Gateway", Name: "web"}
		m.SetReferences(gateway, key("My_Secret"), key("Denied"))
		time.Sleep(time.Hour)
		synctest.Wait()
		if len(got) != 1 || got["My_Secret 1 true"] != 1 {
			t.Errorf("changes: got %v, want one of My_Secret", got)
		}
		if _, err := m.GetFor(t.Context(), gateway, "default", "Denied"); !errors.Is(err, denied) || errors.Is(err, objectcache.ErrInvalidName) {
			t.Errorf("GetFor: got %v, want what the policy says", err)
		}
		if !m.HasSynced() || !m.OwnerHasSynced(gateway) {
			t.Error("the manager has not synced")
		}
	})
}

// A key without a namespace is a mistake of the program, and no absence: neither the manager nor the owner syncs.
func TestKeyWithoutNamespaceIsNotSynced(t *testing.T) {
	inBubble(t, objectcache.WatchOptions{}, func(t *testing.T, m *manager.Manager[*corev1.Secret], _ *apiserver.Server) {
		gateway := manager.Owner{Kind: "Gateway", Name: "web"}
		m.SetReferences(gateway, types.NamespacedName{Name: "tls"})
		for name, err := range map[string]error{"WaitForSync": m.WaitForSync(t.Context()), "WaitForOwner": m.WaitForOwner(t.Context(), gateway)} {
			if !errors.Is(err, objectcache.ErrInvalidName) || apierrors.IsNotFound(err) {
				t.Errorf("%s: got %v, want ErrInvalidName alone", name, err)
			}
		}
		if m.HasSynced() || m.OwnerHasSynced(gateway) {
			t.Error("got a manager that has synced")
		}
		if _, err := m.GetFor(t.Context(), gateway, "", "tls"); !errors.Is(err, objectcache.ErrInvalidName) || apierrors.IsNotFound(err) {
			t.Errorf("GetFor: got %v, want ErrInvalidName alone", err)
		}
	})
}
