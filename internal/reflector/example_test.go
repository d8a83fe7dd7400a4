// SPDX-License-Identifier: Apache-2.0

package reflector_test

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/refwatch/refwatch/internal/reflector"
	"github.com/refwatch/refwatch/internal/reflector/listwatch"
	"github.com/refwatch/refwatch/test/apiserver"
)

// A reflector keeps a store of client-go equal to the server, here with one Secret.
func Example() {
	server, err := apiserver.Start(apiserver.Options{})
	if err != nil {
		panic(err)
	}
	defer server.Close()
	ctx, cancel := context.WithCancel(context.Background())
	tls := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "tls"}, Data: map[string][]byte{"tls.key": []byte("key")}}
	if _, err := server.Client().CoreV1().Secrets("default").Create(ctx, tls, metav1.CreateOptions{}); err != nil {
		panic(err)
	}

	secrets := &listwatch.RESTResource{
		Client:    server.Client().CoreV1().RESTClient(),
		Name:      "secrets",
		NewObject: func() runtime.Object { return &corev1.Secret{} },
		NewList:   func() runtime.Object { return &corev1.SecretList{} },
	}
	store := toolscache.NewStore(toolscache.MetaNamespaceKeyFunc)
	changed := make(chan struct{}, 1)
	r := reflector.New(listwatch.FromREST(secrets, "default", "tls"), store, reflector.Options{
		Name: "secrets default/tls", OnChange: notify(changed),
	})
	var running sync.WaitGroup
	running.Go(func() { r.Run(ctx) })

	for !r.Status().Synced {
		<-changed
	}
	fmt.Println(store.ListKeys())

	cancel()
	running.Wait()
	// Output:
	// [default/tls]
}

// notify returns a function for Options.OnChange, which must not block.
func notify(changed chan<- struct{}) func() {
	return func() {
		select {
		case changed <- struct{}{}:
		default:
		}
	}
}

// A program looks at a Secret now and then: it reads it, follows it for a while, and pauses.
func ExampleReflector_Read() {
	server, err := apiserver.Start(apiserver.Options{})
	if err != nil {
		panic(err)
	}
	defer server.Close()
	ctx, cancel := context.WithCancel(context.Background())
	client := server.Client().CoreV1().Secrets("default")
	tls := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "tls"}, Data: map[string][]byte{"user": []byte("ada")}}
	if _, err := client.Create(ctx, tls, metav1.CreateOptions{}); err != nil {
		panic(err)
	}

	secrets := &listwatch.RESTResource{
		Client:    server.Client().CoreV1().RESTClient(),
		Name:      "secrets",
		NewObject: func() runtime.Object { return &corev1.Secret{} },
		NewList:   func() runtime.Object { return &corev1.SecretList{} },
	}
	store := toolscache.NewStore(toolscache.MetaNamespaceKeyFunc)
	changed := make(chan struct{}, 1)
	r := reflector.New(listwatch.FromREST(secrets, "default", "tls"), store, reflector.Options{OnChange: notify(changed)})
	// until waits for the user of the Secret.
	until := func(user string) {
		is := func() bool {
			secret, exists, _ := store.GetByKey("default/tls")
			return exists && string(secret.(*corev1.Secret).Data["user"]) == user
		}
		for r.Status().Failures > 0 || !is() {
			<-changed
		}
		fmt.Println(user, "by a stream:", r.Status().Streaming)
	}
	r.Read()
	var running sync.WaitGroup
	running.Go(func() { r.Run(ctx) })
	until("ada")

	r.Follow()
	tls.Data["user"] = []byte("bob")
	if _, err := client.Update(ctx, tls, metav1.UpdateOptions{}); err != nil {
		panic(err)
	}
	until("bob")
	r.Pause()

	cancel()
	running.Wait()
	// Output:
	// ada by a stream: false
	// bob by a stream: true
}
