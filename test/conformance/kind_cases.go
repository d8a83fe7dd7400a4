// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"errors"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"

	"github.com/refwatch/refwatch/cache"
	"github.com/refwatch/refwatch/objectcache/resource"
	"github.com/refwatch/refwatch/test/clients"
)

func configMaps(s *suite) {
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "settings"}, Data: map[string]string{"colour": "blue"}}
	if _, err := s.admin.CoreV1().ConfigMaps(s.namespace).Create(s.ctx, object, metav1.CreateOptions{}); err != nil {
		s.Fatal(err)
	}
	got := getOne(s, resource.ConfigMaps(s.client), "settings")
	if got.Data["colour"] != "blue" {
		s.Errorf("got %v, want colour blue", got.Data)
	}
}

// anyKind gets a ServiceAccount over each kind of client.
func anyKind(s *suite) {
	object := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "builder"}}
	created, err := s.admin.CoreV1().ServiceAccounts(s.namespace).Create(s.ctx, object, metav1.CreateOptions{})
	if err != nil {
		s.Fatal(err)
	}
	key := types.NamespacedName{Namespace: s.namespace, Name: "builder"}
	path := corev1.SchemeGroupVersion.WithResource("serviceaccounts")
	wantUID(s, created.UID, getOneOf(s, resource.Typed[*corev1.ServiceAccount, *corev1.ServiceAccountList](s.client.CoreV1().RESTClient(), path), key))
	untyped, onlyMetadata, overREST := withoutTypes(s, path)
	wantKind(s, "ServiceAccount", created.UID, getOneOf(s, untyped, key))
	wantKind(s, "ServiceAccount", created.UID, getOneOf(s, overREST, key))
	wantUID(s, created.UID, getOneOf(s, onlyMetadata, key))
}

// clusterScoped gets the namespace of the case, which is in no namespace itself.
func clusterScoped(s *suite) {
	namespace, err := s.admin.CoreV1().Namespaces().Get(s.ctx, s.namespace, metav1.GetOptions{})
	if err != nil {
		s.Fatal(err)
	}
	key := types.NamespacedName{Name: s.namespace}
	path := corev1.SchemeGroupVersion.WithResource("namespaces")
	wantUID(s, namespace.UID, getOneOf(s, resource.Typed[*corev1.Namespace, *corev1.NamespaceList](s.client.CoreV1().RESTClient(), path).ClusterScoped(), key))
	untyped, onlyMetadata, overREST := withoutTypes(s, path)
	wantKind(s, "Namespace", namespace.UID, getOneOf(s, untyped.ClusterScoped(), key))
	wantKind(s, "Namespace", namespace.UID, getOneOf(s, overREST.ClusterScoped(), key))
	wantUID(s, namespace.UID, getOneOf(s, onlyMetadata.ClusterScoped(), key))
}

// withoutTypes returns a resource of core/v1 over client-go's clients without types, and
// over a REST client.
func withoutTypes(s *suite, path schema.GroupVersionResource) (
	untyped resource.Resource[*unstructured.Unstructured], onlyMetadata resource.Resource[*metav1.PartialObjectMetadata],
	overREST resource.Resource[*unstructured.Unstructured],
) {
	s.Helper()
	httpClient := s.httpClientFor(s.Config)
	dynamicClient, err1 := dynamic.NewForConfigAndClient(s.Config, httpClient)
	metadataClient, err2 := metadata.NewForConfigAndClient(s.Config, httpClient)
	if err := errors.Join(err1, err2); err != nil {
		s.Fatal(err)
	}
	overREST = resource.Typed[*unstructured.Unstructured, *unstructured.UnstructuredList](s.client.CoreV1().RESTClient(), path)
	return clients.Dynamic(dynamicClient, path), clients.Metadata(metadataClient, path), overREST
}

// getOne gets an object of the namespace from a new store of the resource.
func getOne[T cache.Object](s *suite, resource resource.Resource[T], name string) T {
	s.Helper()
	return getOneOf(s, resource, types.NamespacedName{Namespace: s.namespace, Name: name})
}

func getOneOf[T cache.Object](s *suite, resource resource.Resource[T], key types.NamespacedName) T {
	s.Helper()
	store := newStore(s, resource)
	defer s.start(store)()
	store.AddReference(key.Namespace, key.Name, "pod")
	object, err := store.Get(s.ctx, key.Namespace, key.Name)
	if err != nil {
		s.Fatalf("Get %s: %v", key, err)
	}
	return object
}

func wantUID(s *suite, want types.UID, got metav1.Object) {
	s.Helper()
	if got.GetUID() != want {
		s.Errorf("got UID %s, want %s", got.GetUID(), want)
	}
}

func wantKind(s *suite, kind string, uid types.UID, got *unstructured.Unstructured) {
	s.Helper()
	wantUID(s, uid, got)
	if got.GetKind() != kind || got.GetAPIVersion() != "v1" {
		s.Errorf("got %s of %s, want %s of v1", got.GetKind(), got.GetAPIVersion(), kind)
	}
}
