// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/objectcache/resource"
	"github.com/refwatch/refwatch/test/apiserver"
)

// synced returns a running store with some objects in memory, and "tls".
func synced(b *testing.B, options objectcache.StoreOptions, names ...string) objectcache.Store[*corev1.Secret] {
	return syncedBy(b, apiserver.New(b, apiserver.Options{}), options, names...)
}

func syncedBy(b *testing.B, server *apiserver.Server, options objectcache.StoreOptions, names ...string) objectcache.Store[*corev1.Secret] {
	client := server.Client()
	for _, name := range append(names, "tls") {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
		if _, err := client.CoreV1().Secrets(namespace).Create(b.Context(), secret, metav1.CreateOptions{}); err != nil {
			b.Fatal(err)
		}
	}
	store, err := objectcache.NewStore(resource.Secrets(client), options)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(runStore(context.WithoutCancel(b.Context()), b, store))
	for _, name := range append(names, "tls") {
		store.AddReference(namespace, name, "pod")
	}
	for _, name := range append(names, "tls") {
		if _, err := store.Get(b.Context(), namespace, name); err != nil {
			b.Fatal(err)
		}
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

// BenchmarkGetOfMany gets objects in a random order, with names of the caller's own.
func BenchmarkGetOfMany(b *testing.B) {
	for _, count := range []int{5000, 10_000} {
		b.Run(strconv.Itoa(count), func(b *testing.B) {
			names, asked := make([]string, count), make([]string, count)
			for i, j := range rand.Perm(count) {
				names[i] = fmt.Sprintf("secret-%05d", i)
				asked[j] = strings.Clone(names[i])
			}
			store, ctx := synced(b, objectcache.WatchOptions{}, names...), b.Context()
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				_, _ = store.Get(ctx, namespace, asked[i%count])
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

// BenchmarkStatuses yields the status of 5,000 objects.
func BenchmarkStatuses(b *testing.B) {
	names := make([]string, 4999)
	for i := range names {
		names[i] = fmt.Sprintf("secret-%05d", i)
	}
	store := synced(b, objectcache.WatchOptions{}, names...)
	b.ReportAllocs()
	for b.Loop() {
		for range store.Statuses() {
		}
	}
}

// BenchmarkChanges updates an object, which some loops over Changes follow. What it takes longer with more of them is
// what they cost.
func BenchmarkChanges(b *testing.B) {
	for _, followers := range []int{0, 1, 10, 100} {
		b.Run(strconv.Itoa(followers), func(b *testing.B) {
			server := apiserver.New(b, apiserver.Options{})
			store, client := syncedBy(b, server, objectcache.WatchOptions{}), server.Client().CoreV1().Secrets(namespace)
			ctx, cancel := context.WithCancel(b.Context())
			var seen, ended sync.WaitGroup
			seen.Add(followers) // the first state
			for range followers {
				ended.Go(func() {
					for range store.Changes(ctx) {
						seen.Done()
					}
				})
			}
			seen.Wait()
			secret, err := store.Get(ctx, namespace, "tls")
			for version := 0; b.Loop() && err == nil; version++ {
				seen.Add(followers)
				secret = secret.DeepCopy()
				secret.Data = map[string][]byte{"version": []byte(strconv.Itoa(version))}
				if secret, err = client.Update(ctx, secret, metav1.UpdateOptions{}); err == nil {
					_, err = store.GetWithOptions(ctx, namespace, "tls", objectcache.GetOptions{NotOlderThan: secret.ResourceVersion})
				}
				seen.Wait()
			}
			cancel()
			ended.Wait()
			if err != nil {
				b.Fatal(err)
			}
		})
	}
}

// BenchmarkGetAbsent gets an object that the server does not have, and one that cannot exist.
func BenchmarkGetAbsent(b *testing.B) {
	for _, name := range []string{"absent", "My_Secret"} {
		b.Run(name, func(b *testing.B) {
			store, ctx := synced(b, objectcache.WatchOptions{}), b.Context()
			store.AddReference(namespace, name, "pod")
			b.ReportAllocs()
			for b.Loop() {
				_, _ = store.Get(ctx, namespace, name)
			}
		})
	}
}
