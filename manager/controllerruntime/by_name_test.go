// SPDX-License-Identifier: Apache-2.0

package controllerruntime_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/refwatch/refwatch/test/apiserver"
)

// shopRig is the operator of Example_byName, which is running, in a bubble.
type shopRig struct {
	*rig

	seen events // "namespace/owner: value" of each reconcile
}

// withShop runs f with the operator. Of its options, set may change the selection of Secrets.
func withShop(t *testing.T, set func(*ctrl.Options), f func(t *testing.T, s *shopRig)) {
	t.Helper()
	onServer(t, func(t *testing.T, server *apiserver.Server) {
		options := managerOfShop(ctrl.Options{})
		if set != nil {
			set(&options)
		}
		mgr, err := ctrl.NewManager(server.Config(), options)
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
	withShop(t, nil, func(t *testing.T, s *shopRig) {
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

// The rights to list and watch the names that users may choose suffice, where the selection needs only the operator's
// own namespace. A name that is forbidden holds up no other, and calls the reconcile once it is granted.
func TestSecretsByNameNeedRightsForTheirNames(t *testing.T) {
	onlyOther := func(options *ctrl.Options) {
		for object, by := range options.Cache.ByObject {
			by.Namespaces = map[string]cache.Config{"other": {}}
			options.Cache.ByObject[object] = by
		}
	}
	withShop(t, onlyOther, func(t *testing.T, s *shopRig) {
		granted := func(name string) bool { return strings.HasPrefix(name, "user-") }
		allow := func(granted func(string) bool) {
			s.server.Authorize(func(r apiserver.Request) bool {
				reads := r.Verb == "list" || r.Verb == "watch"
				return r.Resource != "secrets" || r.Namespace == "other" && reads || reads && granted(r.Name) || r.Verb == "create"
			})
		}
		allow(granted)
		s.order(namespace, "first", "user-1")
		s.order(namespace, "second", "late-2")
		s.secretIn(namespace, "late-2", "2")
		s.secretIn(namespace, "user-1", "1")
		time.Sleep(time.Second)
		s.seen.want(t, "one name is forbidden", "default/first: absent", "default/first: 1")
		allow(func(string) bool { return true })
		time.Sleep(20 * time.Second)
		s.seen.wantEach(t, "granted", "default/second: 2")
	})
}
