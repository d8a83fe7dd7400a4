// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/objectcache/resource"
	"github.com/refwatch/refwatch/test/apiserver"
)

// A client of ConfigFor needs no goroutine for a quiet stream. BlockingStreams gives each
// stream its goroutines back; nothing else changes.
func ExampleWatchOptions_blockingStreams() {
	server, err := apiserver.Start(apiserver.Options{})
	if err != nil {
		panic(err)
	}
	defer server.Close()
	ctx, cancel := context.WithCancel(context.Background())
	secrets := server.Client().CoreV1().Secrets("default")
	tls := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "tls"}, Data: map[string][]byte{"user": []byte("ada")}}
	if _, err := secrets.Create(ctx, tls, metav1.CreateOptions{}); err != nil {
		panic(err)
	}

	client, err := kubernetes.NewForConfig(resource.ConfigFor(server.Config()))
	if err != nil {
		panic(err)
	}
	store, err := objectcache.NewWatchStore(resource.Secrets(client), objectcache.WatchOptions{BlockingStreams: true})
	if err != nil {
		panic(err)
	}
	var running sync.WaitGroup
	running.Go(func() { _ = store.Run(ctx) })

	store.AddReference("default", "tls", "pod-1")
	for change := range store.Changes(ctx) {
		user := string(change.Object.Data["user"])
		fmt.Println(user)
		if user == "bob" {
			break
		}
		tls.Data["user"] = []byte("bob")
		if _, err := secrets.Update(ctx, tls, metav1.UpdateOptions{}); err != nil {
			panic(err)
		}
	}
	cancel()
	running.Wait()
	// Output:
	// ada
	// bob
}
