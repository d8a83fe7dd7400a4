// SPDX-License-Identifier: Apache-2.0

package apiserver_test

import (
	"context"
	"fmt"
	"log"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/refwatch/refwatch/test/apiserver"
)

func newSecret(name string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, StringData: map[string]string{"user": "admin"}}
}

// This example runs a server and watches one Secret with the real clientset.
func Example() {
	server, err := apiserver.Start(apiserver.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	ctx := context.Background()
	secrets := server.Client().CoreV1().Secrets("default")

	watch, err := secrets.Watch(ctx, metav1.ListOptions{
		FieldSelector:        "metadata.name=db",
		SendInitialEvents:    new(true),
		ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
		AllowWatchBookmarks:  true,
	})
	if err != nil {
		log.Fatal(err)
	}
	defer watch.Stop()
	if _, err := secrets.Create(ctx, newSecret("db"), metav1.CreateOptions{}); err != nil {
		log.Fatal(err)
	}
	fmt.Println((<-watch.ResultChan()).Type) // the end of the state, which is empty
	fmt.Println((<-watch.ResultChan()).Type)
	fmt.Println(server.OpenStreams("secrets", types.NamespacedName{Namespace: "default", Name: "db"}))
	// Output:
	// BOOKMARK
	// ADDED
	// 1
}

// This example injects a fault: the server forbids one Secret.
func ExampleServer_Intercept() {
	server, err := apiserver.Start(apiserver.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	server.Intercept(func(_ context.Context, r apiserver.Request) *metav1.Status {
		if r.Resource != "secrets" || r.Name != "db" {
			return nil
		}
		status := apierrors.NewForbidden(corev1.Resource(r.Resource), r.Name, nil).Status()
		return &status
	})
	_, err = server.Client().CoreV1().Secrets("default").Get(context.Background(), "db", metav1.GetOptions{})
	fmt.Println(apierrors.IsForbidden(err))
	// Output:
	// true
}

// This example serves a custom resource and creates an object with the dynamic client.
func ExampleCustomResource() {
	server, err := apiserver.Start(apiserver.Options{CustomResources: []apiserver.CustomResource{
		{Group: "example.com", Version: "v1", Resource: "widgets", Kind: "Widget"},
	}})
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	client, err := dynamic.NewForConfig(server.Config())
	if err != nil {
		log.Fatal(err)
	}
	widgets := client.Resource(schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"})
	widget := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "Widget", "metadata": map[string]any{"name": "a"}, "size": int64(3),
	}}
	created, err := widgets.Namespace("default").Create(context.Background(), widget, metav1.CreateOptions{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(created.GetKind(), created.GetGeneration(), created.Object["size"])
	// Output:
	// Widget 1 3
}

// This example allows a client to list and watch one Secret by its name, as a Role with resourceNames does. The client
// asks first, and gets the answer that its requests get.
func ExampleServer_Authorize() {
	server, err := apiserver.Start(apiserver.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	server.Authorize(func(r apiserver.Request) bool {
		return r.Resource == "secrets" && r.Namespace == "default" && r.Name == "db" && (r.Verb == "list" || r.Verb == "watch")
	})
	ctx := context.Background()
	for _, name := range []string{"db", "other"} {
		review, err := server.Client().AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
			Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
				Verb: "list", Resource: "secrets", Namespace: "default", Name: name,
			}},
		}, metav1.CreateOptions{})
		if err != nil {
			log.Fatal(err)
		}
		_, err = server.Client().CoreV1().Secrets("default").List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + name})
		fmt.Println(name, review.Status.Allowed, apierrors.IsForbidden(err))
	}
	// Output:
	// db true false
	// other false true
}

// This example waits, without polling, for the requests of a client in another goroutine.
func ExampleServer_WaitFor() {
	server, err := apiserver.Start(apiserver.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	ctx := context.Background()
	done := make(chan struct{})
	go func() {
		defer close(done)
		if w, err := server.Client().CoreV1().Pods("").Watch(ctx, metav1.ListOptions{}); err == nil {
			w.Stop()
		}
	}()
	watched := func() bool { return len(server.Requests()) == 1 && server.TotalStreams() == 0 }
	if err := server.WaitFor(ctx, watched); err != nil {
		log.Fatal(err)
	}
	<-done
	fmt.Println(server.Requests()[0].Verb, server.Requests()[0].Resource)
	// Output:
	// watch pods
}

// A server that keeps little: an old watch has to begin again, and each needs a
// connection of its own.
func ExampleOptions() {
	server, err := apiserver.Start(apiserver.Options{HistoryLimit: 1, WatchBuffer: 1, DisableHTTP2: true})
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	ctx := context.Background()
	secrets := server.Client().CoreV1().Secrets("default")
	first, err := secrets.Create(ctx, newSecret("first"), metav1.CreateOptions{})
	if err != nil {
		log.Fatal(err)
	}
	for _, name := range []string{"second", "third", "fourth"} {
		if _, err := secrets.Create(ctx, newSecret(name), metav1.CreateOptions{}); err != nil {
			log.Fatal(err)
		}
	}
	watch, err := secrets.Watch(ctx, metav1.ListOptions{ResourceVersion: first.ResourceVersion})
	if err != nil {
		log.Fatal(err)
	}
	defer watch.Stop()
	event := <-watch.ResultChan()
	fmt.Println(event.Type, apierrors.IsResourceExpired(apierrors.FromObject(event.Object)))
	// Output: ERROR true
}

// With fewer streams on a connection, a client opens more connections.
func ExampleOptions_maxStreamsPerConnection() {
	server, err := apiserver.Start(apiserver.Options{MaxStreamsPerConnection: 2})
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	for range 5 {
		watch, err := server.Client().CoreV1().Secrets("default").Watch(context.Background(), metav1.ListOptions{})
		if err != nil {
			log.Fatal(err)
		}
		defer watch.Stop()
	}
	fmt.Println(server.OpenStreams("secrets", types.NamespacedName{Namespace: "default"}))
	// Output: 5
}
