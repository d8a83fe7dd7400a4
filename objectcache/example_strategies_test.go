// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/objectcache/resource"
	"github.com/refwatch/refwatch/test/apiserver"
)

// startSecrets starts an API server with one Secret, "default/tls", and a store with any
// strategy.
func startSecrets(options objectcache.StoreOptions) (server *apiserver.Server, store objectcache.Store[*corev1.Secret], stop func()) {
	server, err := apiserver.Start(apiserver.Options{})
	if err != nil {
		panic(err)
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "tls"}, Data: map[string][]byte{"user": []byte("ada")}}
	if _, err := server.Client().CoreV1().Secrets("default").Create(context.Background(), secret, metav1.CreateOptions{}); err != nil {
		panic(err)
	}
	store, err = objectcache.NewStore(resource.Secrets(server.Client()), options)
	if err != nil {
		panic(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = store.Run(ctx) })
	return server, store, func() { cancel(); running.Wait(); server.Close() }
}

// reads counts the GETs that a server has received.
func reads(server *apiserver.Server) (count int) {
	for _, request := range server.Requests() {
		if request.Verb == "get" {
			count++
		}
	}
	return count
}

// A TTLStore reads an object once a minute at most, for a new owner, and for a Get that
// demands it.
func ExampleTTLStore() {
	server, store, stop := startSecrets(objectcache.TTLOptions{TTL: time.Minute, NotFoundTTL: time.Second})
	defer stop()
	ctx := context.Background()

	store.AddReference("default", "tls", "pod-1")
	for range 1000 {
		if _, err := store.Get(ctx, "default", "tls"); err != nil {
			panic(err)
		}
	}
	fmt.Println("1000 Gets:", reads(server), "request")

	store.AddReference("default", "tls", "pod-2")
	_, err := store.Get(ctx, "default", "tls")
	fmt.Println("a new owner:", reads(server), "requests,", err)

	secret, err := store.GetWithOptions(ctx, "default", "tls", objectcache.GetOptions{Live: true})
	fmt.Println("live:", reads(server), "requests,", string(secret.Data["user"]), err)
	// Output:
	// 1000 Gets: 1 request
	// a new owner: 2 requests, <nil>
	// live: 3 requests, ada <nil>
}

// A node agent honours the TTL that kube-controller-manager sets for its node, as
// kubelet does.
func ExampleTTLFromNode() {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: "node-1", Annotations: map[string]string{"node.alpha.kubernetes.io/ttl": "15"},
	}}
	options := objectcache.TTLOptions{
		TTLFunc: objectcache.TTLFromNode(func() (*corev1.Node, error) { return node, nil }), // of a lister
	}
	fmt.Println(options.TTLFunc())
	// Output: 15s true
}

// A DirectStore needs no references. Each Get is a request.
func ExampleDirectStore() {
	server, store, stop := startSecrets(objectcache.DirectOptions{})
	defer stop()

	for range 3 {
		secret, err := store.Get(context.Background(), "default", "tls")
		fmt.Println(string(secret.Data["user"]), err)
	}
	fmt.Println(reads(server), "requests")
	// Output:
	// ada <nil>
	// ada <nil>
	// ada <nil>
	// 3 requests
}
