// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/test/apiserver"
)

// serveSecret is startSecrets for a store that watches.
func serveSecret(options objectcache.WatchOptions) (*apiserver.Server, *objectcache.WatchStore[*corev1.Secret], func()) {
	server, store, stop := startSecrets(options)
	return server, store.(*objectcache.WatchStore[*corev1.Secret]), stop
}

// A program reads its own write, whenever the event arrives.
func ExampleWatchStore_GetWithOptions() {
	server, store, stop := serveSecret(objectcache.WatchOptions{})
	defer stop()
	ctx := context.Background()
	store.AddReference("default", "tls", "controller")

	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "tls"}, Data: map[string][]byte{"user": []byte("grace")}}
	written, err := server.Client().CoreV1().Secrets("default").Update(ctx, secret, metav1.UpdateOptions{})
	if err != nil {
		panic(err)
	}
	read, err := store.GetWithOptions(ctx, "default", "tls", objectcache.GetOptions{NotOlderThan: written.ResourceVersion})
	fmt.Println(string(read.Data["user"]), err)
	// Output: grace <nil>
}

// TryGet serves a hot path that may not wait. The first call asks for the object.
func ExampleWatchStore_TryGet() {
	_, store, stop := serveSecret(objectcache.WatchOptions{})
	defer stop()

	_, err := store.TryGet("default", "tls")
	fmt.Println(errors.Is(err, objectcache.ErrNotRegistered))
	store.AddReference("default", "tls", "controller")
	if _, err = store.Get(context.Background(), "default", "tls"); err != nil {
		panic(err)
	}
	secret, err := store.TryGet("default", "tls")
	fmt.Println(string(secret.Data["user"]), err)
	// Output:
	// true
	// ada <nil>
}

// With AcquireOnGet a Get needs no registration: it takes a reference for a while.
func ExampleWatchOptions_acquireOnGet() {
	_, store, stop := serveSecret(objectcache.WatchOptions{AcquireOnGet: time.Minute})
	defer stop()

	secret, err := store.Get(context.Background(), "default", "tls")
	fmt.Println(string(secret.Data["user"]), err)
	status, _ := store.Status("default", "tls")
	fmt.Println(status.Owners)
	// Output:
	// ada <nil>
	// [refwatch/lease]
}
