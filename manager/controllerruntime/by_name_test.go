// SPDX-License-Identifier: Apache-2.0

package controllerruntime_test

import (
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/refwatch/refwatch/test/apiserver"
)

// shopRig is the operator of Example_byName, which is running, in a bubble.
type shopRig struct {
	*rig

	seen events // "namespace/owner: value" of each reconcile
}

// withShop runs f with the operator.
func withShop(t *testing.T, f func(t *testing.T, s *shopRig)) {
	t.Helper()
	onServer(t, func(t *testing.T, server *apiserver.Server) {
		mgr, err := ctrl.NewManager(server.Config(), managerOfShop(ctrl.Options{}))
		if err != nil {
			t.Fatal(err)
		}
		s := &shopRig{rig: &rig{t: t, server: server, client: server.Client()}}
		operator := &shop{reconcile: func(name types.NamespacedName, value string) { s.seen.add("%s: %s", name, value) }}
		if err := operator.SetupWithManager(mgr); err != nil {
			t.Fatal(err)
		}
		stop := start(t, mgr)
		time.Sleep(time.Second) // until its caches have synced
		f(t, s)
		stop()
	})
}

// order creates a custom resource that names a Secret.
func (s *shopRig) order(namespace, name, secret string) *corev1.ConfigMap {
	s.t.Helper()
	order := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Data: map[string]string{"secret": secret}}
	created, err := s.client.CoreV1().ConfigMaps(namespace).Create(s.t.Context(), order, metav1.CreateOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	synctest.Wait()
	return created
}

// secretIn creates or updates a Secret without labels.
func (s *shopRig) secretIn(namespace, name, value string) {
	s.t.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Data: map[string][]byte{"value": []byte(value)}}
	secrets := s.client.CoreV1().Secrets(namespace)
	if _, err := secrets.Create(s.t.Context(), secret, metav1.CreateOptions{}); err == nil {
		return
	}
	if _, err := secrets.Update(s.t.Context(), secret, metav1.UpdateOptions{}); err != nil {
		s.t.Fatal(err)
	}
}

// A Secret without the label that is created after the reconcile, rotated, deleted and created again calls the
// reconcile of each of its owners, in its namespace, without time passing. So do the Secrets with the label.
func TestSecretsByNameBesideASelectionHaveEvents(t *testing.T) {
	withShop(t, func(t *testing.T, s *shopRig) {
		began := time.Now()
		order := s.order(namespace, "order", "payment")
		s.order("other", "order", "payment")
		s.seen.want(t, "at first", "default/order: absent", "other/order: absent")
		time.Sleep(2 * time.Hour) // longer than IdleTimeout
		s.seen.clear()
		began = began.Add(2 * time.Hour)
		s.secretIn(namespace, "payment", "1")
		s.seen.want(t, "created later", "default/order: 1")
		s.secretIn("other", "payment", "2")
		s.seen.want(t, "created in another namespace", "other/order: 2")
		s.secretIn(namespace, "payment", "3")
		s.seen.want(t, "rotated", "default/order: 3")
		s.secretIn(namespace, "unknown", "4")
		s.seen.want(t, "a Secret that nobody names")
		s.remove("payment")
		s.seen.want(t, "deleted", "default/order: absent")
		s.secretIn(namespace, "payment", "5")
		s.seen.want(t, "created again", "default/order: 5")
		own := secretNamed("own", "6")
		own.Labels = map[string]string{"app.kubernetes.io/managed-by": "shop"}
		own.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: order.Name, UID: order.UID, Controller: new(true)}}
		if _, err := s.client.CoreV1().Secrets(namespace).Create(t.Context(), own, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		s.seen.want(t, "a Secret of the operator", "default/order: 5")
		if took := time.Since(began); took > time.Second {
			t.Errorf("took %v in all, want less than a second", took)
		}
		s.wantStreams("two by name, and two informers of Secrets and ConfigMaps", 4)
	})
}
