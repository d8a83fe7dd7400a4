// SPDX-License-Identifier: Apache-2.0

package manager_test

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/refwatch/refwatch/cache"
	"github.com/refwatch/refwatch/manager"
	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/objectcache/resource"
	"github.com/refwatch/refwatch/test/apiserver"
	"github.com/refwatch/refwatch/test/clients"
)

// syncOne runs a store until an object has synced.
func syncOne[T cache.Object](t *testing.T, store *objectcache.WatchStore[T]) {
	t.Helper()
	m, err := manager.New[T](store, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer run(t.Context(), t, m)()
	m.SetReferences(manager.Owner{Kind: "Gateway", Namespace: "default", Name: "web"}, key("tls"))
	if err := m.WaitForSync(t.Context()); err != nil {
		t.Error(err)
	}
}

// No watch asks for compression, whichever client sends it and whoever reads it: kube-apiserver 1.37 grants it for the
// life of the stream. Lists ask for it.
func TestWatchesAreNotCompressed(t *testing.T) {
	secrets := corev1.SchemeGroupVersion.WithResource("secrets")
	typed := func(t *testing.T, client kubernetes.Interface, err error) {
		store, err2 := objectcache.NewWatchStore(resource.Secrets(client), objectcache.WatchOptions{})
		if err := errors.Join(err, err2); err != nil {
			t.Fatal(err)
		}
		syncOne(t, store)
	}
	tests := map[string]func(t *testing.T, config *rest.Config){
		"ClientFor": func(t *testing.T, config *rest.Config) {
			client, err := manager.ClientFor(config)
			typed(t, client, err)
		},
		"ClientFor, over net/http": func(t *testing.T, config *rest.Config) {
			config, err := clients.NetHTTP(config)
			client, err2 := manager.ClientFor(config)
			typed(t, client, errors.Join(err, err2))
		},
		"a client of client-go": func(t *testing.T, config *rest.Config) {
			client, err := kubernetes.NewForConfig(config)
			typed(t, client, err)
		},
		"a dynamic client": func(t *testing.T, config *rest.Config) {
			client, err := dynamic.NewForConfig(resource.ConfigFor(config))
			store, err2 := objectcache.NewWatchStore(clients.Dynamic(client, secrets), objectcache.WatchOptions{})
			if err := errors.Join(err, err2); err != nil {
				t.Fatal(err)
			}
			syncOne(t, store)
		},
		"a metadata client": func(t *testing.T, config *rest.Config) {
			client, err := metadata.NewForConfig(resource.ConfigFor(config))
			store, err2 := objectcache.NewWatchStore(clients.Metadata(client, secrets), objectcache.WatchOptions{})
			if err := errors.Join(err, err2); err != nil {
				t.Fatal(err)
			}
			syncOne(t, store)
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			server := apiserver.New(t, apiserver.Options{TLS: true})
			config := server.Config()
			client := kubernetes.NewForConfigOrDie(config)
			secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "tls"}}
			if _, err := client.CoreV1().Secrets("default").Create(t.Context(), secret, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			if _, err := client.CoreV1().Secrets("default").List(t.Context(), metav1.ListOptions{}); err != nil {
				t.Fatal(err)
			}
			server.Authorize(func(request apiserver.Request) bool { return request.Verb != "get" }) // or a GET may sync the store first
			test(t, config)
			watches := 0
			for _, request := range server.Requests() {
				switch got := request.AcceptEncoding; request.Verb {
				case "watch":
					if watches++; got != "identity" {
						t.Errorf("Accept-Encoding of a watch: got %q, want identity", got)
					}
				case "list":
					if got != "gzip" {
						t.Errorf("Accept-Encoding of a list: got %q, want gzip", got)
					}
				}
			}
			if watches == 0 {
				t.Error("watches: got none")
			}
		})
	}
}
