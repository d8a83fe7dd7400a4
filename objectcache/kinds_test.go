// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/refwatch/refwatch/cache"
	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/objectcache/resource"
	"github.com/refwatch/refwatch/test/apiserver"
	"github.com/refwatch/refwatch/test/clients"
)

// Clients without types work for any resource.
func TestClientsWithoutTypes(t *testing.T) {
	secrets := corev1.SchemeGroupVersion.WithResource("secrets")
	serves := map[string]func(t *testing.T, server *apiserver.Server, config *rest.Config){
		"dynamic": func(t *testing.T, server *apiserver.Server, config *rest.Config) {
			client, err := dynamic.NewForConfig(config)
			if err != nil {
				t.Fatal(err)
			}
			got := getThroughLife(t, server, clients.Dynamic(client, secrets))
			if data, ok := got.Object["data"].(map[string]any); got.GetKind() != "Secret" || !ok || data["password"] == nil {
				t.Error("got an object without kind or data, want the Secret")
			}
		},
		"metadata": func(t *testing.T, server *apiserver.Server, config *rest.Config) {
			client, err := metadata.NewForConfig(metadata.ConfigFor(config))
			if err != nil {
				t.Fatal(err)
			}
			getThroughLife(t, server, clients.Metadata(client, secrets))
		},
	}
	for name, serve := range serves {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := apiserver.New(t, apiserver.Options{InMemory: true})
				config := server.Config()
				config.QPS = -1
				serve(t, server, config)
			})
		})
	}
}

// getThroughLife gets a Secret from a store of the resource after its creation, its
// update and its deletion. It returns the update.
func getThroughLife[T cache.Object](t *testing.T, server *apiserver.Server, resource resource.Resource[T]) (last T) {
	t.Helper()
	client := server.Client().CoreV1().Secrets(namespace)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "tls"}, Data: map[string][]byte{"password": []byte("x")}}
	created, err := client.Create(t.Context(), secret, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	store := newStore(t, resource, objectcache.WatchOptions{})
	stop := runStore(t.Context(), t, store)
	defer stop()
	store.AddReference(namespace, "tls", "pod")
	if got, err := store.Get(t.Context(), namespace, "tls"); err != nil || got.GetUID() != created.UID {
		t.Fatalf("Get: got %v, want the Secret", err)
	}
	created.Labels = map[string]string{"now": "changed"}
	if _, err := client.Update(t.Context(), created, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
	if last, err = store.Get(t.Context(), namespace, "tls"); err != nil || last.GetLabels()["now"] != "changed" {
		t.Errorf("Get after the update: got labels %v, %v, want the new one", last.GetLabels(), err)
	}
	if err := client.Delete(t.Context(), "tls", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
	if _, err := store.Get(t.Context(), namespace, "tls"); !apierrors.IsNotFound(err) {
		t.Errorf("Get after the deletion: got %v, want NotFound", err)
	}
	return last
}
