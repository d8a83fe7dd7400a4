// SPDX-License-Identifier: Apache-2.0

package reflector_test

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/refwatch/refwatch/cache"
	"github.com/refwatch/refwatch/reflector"
	"github.com/refwatch/refwatch/reflector/listwatch"
	"github.com/refwatch/refwatch/test/apiserver"
)

// A reflector keeps the slot of one Secret equal to the server. The slot notifies of its
// first state.
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
	slot := cache.NewSlot[*corev1.Secret](types.NamespacedName{Namespace: "default", Name: "tls"})
	r := reflector.New(listwatch.FromREST(secrets, "default", "tls"), slot, reflector.Options{Name: "secrets default/tls"})
	var running sync.WaitGroup
	running.Go(func() { r.Run(ctx) })

	for !slot.Load().Synced {
		changed := slot.Changed()
		if !slot.Load().Synced {
			<-changed
		}
	}
	fmt.Println(len(slot.Load().Object.Data), "key")

	cancel()
	running.Wait()
	// Output:
	// 1 key
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
	slot := cache.NewSlot[*corev1.Secret](types.NamespacedName{Namespace: "default", Name: "tls"})
	changed := make(chan struct{}, 1)
	r := reflector.New(listwatch.FromREST(secrets, "default", "tls"), slot, reflector.Options{OnChange: func() {
		select {
		case changed <- struct{}{}:
		default:
		}
	}})
	// until waits for the user of the Secret.
	until := func(user string) {
		for r.Status().Failures > 0 || !r.Status().Synced || string(slot.Load().Object.Data["user"]) != user {
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
