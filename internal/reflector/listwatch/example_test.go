// SPDX-License-Identifier: Apache-2.0

package listwatch_test

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/refwatch/refwatch/internal/reflector/listwatch"
	"github.com/refwatch/refwatch/test/apiserver"
)

// A Source of all Secrets with a label, over a clientset.
func ExampleFromListerWatcher() {
	server, err := apiserver.Start(apiserver.Options{})
	if err != nil {
		panic(err)
	}
	defer server.Close()
	secrets := server.Client().CoreV1().Secrets("default")
	source := listwatch.FromListerWatcher(&toolscache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			options.LabelSelector = "app=shop"
			return secrets.List(ctx, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options.LabelSelector = "app=shop"
			return secrets.Watch(ctx, options)
		},
	})
	list, err := source.List(context.Background(), metav1.ListOptions{})
	fmt.Printf("%T, %v\n", list, err)
	// Output:
	// *v1.SecretList, <nil>
}
