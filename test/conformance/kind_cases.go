// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/refwatch/refwatch/cache"
	"github.com/refwatch/refwatch/objectcache"
)

func configMaps(s *suite) {
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "settings"}, Data: map[string]string{"colour": "blue"}}
	if _, err := s.admin.CoreV1().ConfigMaps(s.namespace).Create(s.ctx, object, metav1.CreateOptions{}); err != nil {
		s.Fatal(err)
	}
	got := getOne(s, objectcache.ConfigMaps(s.client), "settings")
	if got.Data["colour"] != "blue" {
		s.Errorf("got %v, want colour blue", got.Data)
	}
}

func anyKind(s *suite) {
	object := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "builder"}}
	created, err := s.admin.CoreV1().ServiceAccounts(s.namespace).Create(s.ctx, object, metav1.CreateOptions{})
	if err != nil {
		s.Fatal(err)
	}
	resource := objectcache.NewResource(s.client.CoreV1().ServiceAccounts, corev1.SchemeGroupVersion.WithResource("serviceaccounts"))
	if got := getOne(s, resource, "builder"); got.UID != created.UID {
		s.Errorf("got UID %s, want %s", got.UID, created.UID)
	}
}

// getOne gets one object from a new store of the resource.
func getOne[T cache.Object](s *suite, resource objectcache.Resource[T], name string) T {
	s.Helper()
	store := newStore(s, resource)
	defer s.start(store)()
	store.AddReference(s.namespace, name, "pod")
	object, err := store.Get(s.ctx, s.namespace, name)
	if err != nil {
		s.Fatalf("Get %s: %v", name, err)
	}
	return object
}
