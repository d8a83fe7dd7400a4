// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/objectcache/resource"
	"github.com/refwatch/refwatch/test/apiserver"
)

// A job needs a ConfigMap once, when it starts. Each job gets the ConfigMap as it is at
// that moment, and no stream stays open.
func ExampleWatchStore_AddReadOnceReference() {
	ctx, cancel := context.WithCancel(context.Background())
	server, err := apiserver.Start(apiserver.Options{})
	if err != nil {
		panic(err)
	}
	defer server.Close()
	configMaps := server.Client().CoreV1().ConfigMaps("default")
	settings := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "settings"}, Data: map[string]string{"colour": "blue"}}
	if _, err := configMaps.Create(ctx, settings, metav1.CreateOptions{}); err != nil {
		panic(err)
	}

	store, err := objectcache.NewWatchStore(resource.ConfigMaps(server.Client()), objectcache.WatchOptions{})
	if err != nil {
		panic(err)
	}
	var running sync.WaitGroup
	running.Go(func() { _ = store.Run(ctx) })

	store.AddReadOnceReference("default", "settings", "job-1")
	config, err := store.Get(ctx, "default", "settings")
	fmt.Println(config.Data["colour"], err)

	settings.Data["colour"] = "green"
	if _, err := configMaps.Update(ctx, settings, metav1.UpdateOptions{}); err != nil {
		panic(err)
	}
	store.AddReadOnceReference("default", "settings", "job-2")
	config, err = store.Get(ctx, "default", "settings")
	fmt.Println(config.Data["colour"], err)
	status, _ := store.Status("default", "settings")
	fmt.Println(status.Phase, status.Reason)

	cancel()
	running.Wait()
	// Output:
	// blue <nil>
	// green <nil>
	// Serving ReadOnce
}
