// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/objectcache/resource"
	"github.com/refwatch/refwatch/test/apiserver"
)

// synced returns a running store with one object in memory.
func synced(b *testing.B, options objectcache.StoreOptions) objectcache.Store[*corev1.Secret] {
	server := apiserver.New(b, apiserver.Options{})
	client := server.Client()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "tls"}}
	if _, err := client.CoreV1().Secrets(namespace).Create(b.Context(), secret, metav1.CreateOptions{}); err != nil {
		b.Fatal(err)
	}
	store, err := objectcache.NewStore(resource.Secrets(client), options)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(runStore(context.WithoutCancel(b.Context()), b, store))
	store.AddReference(namespace, "tls", "pod")
	if _, err := store.Get(b.Context(), namespace, "tls"); err != nil {
		b.Fatal(err)
	}
	return store
}

// strategies are the stores whose Get comes from memory.
var strategies = map[string]objectcache.StoreOptions{"watch": objectcache.WatchOptions{}, "TTL": objectcache.TTLOptions{TTL: time.Hour}}

func BenchmarkGet(b *testing.B) {
	for name, options := range strategies {
		b.Run(name, func(b *testing.B) {
			store, ctx := synced(b, options), b.Context()
			b.ReportAllocs()
			for b.Loop() {
				_, _ = store.Get(ctx, namespace, "tls")
			}
		})
	}
}

func BenchmarkGetParallel(b *testing.B) {
	for name, options := range strategies {
		b.Run(name, func(b *testing.B) {
			store, ctx := synced(b, options), b.Context()
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					_, _ = store.Get(ctx, namespace, "tls")
				}
			})
		})
	}
}

func BenchmarkReferenceAgain(b *testing.B) {
	store := synced(b, objectcache.WatchOptions{})
	b.ReportAllocs()
	for b.Loop() {
		store.AddReference(namespace, "tls", "other")
		store.DeleteReference(namespace, "tls", "other")
	}
}
