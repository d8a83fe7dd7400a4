// SPDX-License-Identifier: Apache-2.0

package controllerruntime

import (
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/objectcache/resource"
)

// The lease of an object whose deletion has not reached handlers is kept, so that it
// reaches them. From then on IdleTimeout runs.
func TestLeaseUntilHandlersKnowTheDeletion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clients, err := kubernetes.NewForConfig(&rest.Config{Host: "http://localhost"})
		if err != nil {
			t.Fatal(err)
		}
		store, err := objectcache.NewWatchStore(resource.TypedFunc(clients.CoreV1().RESTClient(), corev1.SchemeGroupVersion.WithResource("secrets"),
			func() client.Object { return &corev1.Secret{} }, func() runtime.Object { return &corev1.SecretList{} }), objectcache.WatchOptions{})
		if err != nil {
			t.Fatal(err)
		}
		held, key := newLeases(store), types.NamespacedName{Namespace: "default", Name: "one"}
		held.release(held.acquire(key), nil)
		rule := retention{handlers: true, idle: time.Minute, absent: time.Hour}
		steps := []struct {
			name string
			do   func()
			want int
		}{
			{"handlers know the object", func() { held.observe(key, true) }, 1},
			{"a day later", func() { time.Sleep(24 * time.Hour) }, 1},
			{"handlers know the deletion", func() { held.observe(key, false) }, 1},
			{"before IdleTimeout", func() { time.Sleep(59 * time.Second) }, 1},
			{"observed again", func() { held.observe(key, false) }, 1},
			{"after IdleTimeout", func() { time.Sleep(time.Second) }, 0},
		}
		for _, step := range steps {
			step.do()
			held.sweep(rule)
			if got := len(held.keys()); got != step.want {
				t.Errorf("%s: got %d leases, want %d", step.name, got, step.want)
			}
		}
		held.observe(key, true) // without a lease it does nothing
	})
}

// A cache that has stopped starts no goroutine: nothing would wait for it.
func TestStoppedCacheStartsNothing(t *testing.T) {
	c, started := &Cache{}, make(chan bool, 2)
	c.goLocked(func() { started <- true })
	c.running.Wait()
	c.stop()
	c.goLocked(func() { started <- true })
	c.running.Wait()
	if got := len(started); got != 1 {
		t.Errorf("got %d goroutines, want that before the end", got)
	}
}
