// SPDX-License-Identifier: Apache-2.0

package reflector_test

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/refwatch/refwatch/reflector"
	"github.com/refwatch/refwatch/test/apiserver"
)

// A reflector keeps a store of client-go equal to the ConfigMaps of a namespace.
func Example() {
	server, err := apiserver.Start(apiserver.Options{})
	if err != nil {
		panic(err)
	}
	defer server.Close()
	ctx, cancel := context.WithCancel(context.Background())
	settings := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "settings"}}
	if _, err := server.Client().CoreV1().ConfigMaps("default").Create(ctx, settings, metav1.CreateOptions{}); err != nil {
		panic(err)
	}

	configMaps := toolscache.NewListWatchFromClient(server.Client().CoreV1().RESTClient(), "configmaps", "default", fields.Everything())
	store := toolscache.NewStore(toolscache.MetaNamespaceKeyFunc)
	changed := make(chan struct{}, 1)
	r := reflector.New(configMaps, store, reflector.Options{
		Name: "configmaps", ExpectedType: &corev1.ConfigMap{},
		OnChange: func() {
			select { // it must not block
			case changed <- struct{}{}:
			default:
			}
		},
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
	// [default/settings]
}
