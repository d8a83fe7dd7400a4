// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/objectcache/access"
	"github.com/refwatch/refwatch/objectcache/resource"
	"github.com/refwatch/refwatch/test/apiserver"
)

// All objects of a namespace share one stream, if the user may list and watch the whole namespace.
func ExampleSharedOptions() {
	server, err := apiserver.Start(apiserver.Options{})
	if err != nil {
		panic(err)
	}
	defer server.Close()
	client, ctx := server.Client(), context.Background()
	reviews := client.AuthorizationV1().SelfSubjectAccessReviews()
	secrets := resource.Secrets(client)
	store, err := objectcache.NewWatchStore(secrets, objectcache.WatchOptions{Shared: objectcache.SharedOptions{
		Namespaces: []string{metav1.NamespaceDefault},
		Allowed: func(ctx context.Context, namespace string) (bool, error) {
			return access.AllowedNamespace(ctx, reviews, corev1.SchemeGroupVersion.WithResource("secrets"), namespace)
		},
		Threshold: 2,
	}})
	if err != nil {
		panic(err)
	}
	for _, name := range []string{"tls", "token", "other"} {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name}}
		if _, err := client.CoreV1().Secrets(metav1.NamespaceDefault).Create(ctx, secret, metav1.CreateOptions{}); err != nil {
			panic(err)
		}
	}
	store.AddReference(metav1.NamespaceDefault, "tls", "pod")
	store.AddReference(metav1.NamespaceDefault, "token", "pod")

	ctx, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- store.Run(ctx) }()
	for _, name := range []string{"tls", "token", "other"} {
		secret, err := store.Get(ctx, metav1.NamespaceDefault, name)
		if err != nil {
			fmt.Println(err)
			continue
		}
		fmt.Println(secret.Name)
	}
	namespace := types.NamespacedName{Namespace: metav1.NamespaceDefault}
	fmt.Println("streams of the namespace:", server.OpenStreams("secrets", namespace), "of all:", server.TotalStreams())
	stop()
	if err := <-ended; err != nil {
		panic(err)
	}
	// Output:
	// tls
	// token
	// secrets "default/other": not registered: no owner references the object: add a reference, or set AcquireOnGet
	// streams of the namespace: 1 of all: 1
}
