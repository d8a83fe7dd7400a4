// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"bytes"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/kubernetes"

	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/objectcache/resource"
	"github.com/refwatch/refwatch/test/apiserver"
	"github.com/refwatch/refwatch/test/network"
)

// Objects of 1 MB arrive with 1 Mbit/s on each connection: 8 s each, if nothing else does. No request ends while parts
// of its answer arrive.
func TestLargeObjectsOverASlowWay(t *testing.T) {
	for _, objects := range []int{1, 41} {
		for _, lists := range []bool{false, true} {
			for _, awaited := range []bool{false, true} {
				t.Run(fmt.Sprintf("%d objects, lists %v, callers wait %v", objects, lists, awaited), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { testLargeObjectsOverASlowWay(t, objects, lists, awaited) })
				})
			}
		}
	}
}

func testLargeObjectsOverASlowWay(t *testing.T, objects int, lists, awaited bool) {
	const size, bytesPerSecond = 1_000_000, 125_000
	r := &parkedRig{rig: &rig{t: t, server: apiserver.New(t, apiserver.Options{InMemory: true, TLS: true, DisableWatchList: lists})}}
	r.client, r.padding = r.server.Client(), bytes.Repeat([]byte("x"), size)
	config := r.server.Config()
	r.network = network.New(config.Dial)
	r.network.OnConnect(func(c *network.Conn) { c.Slow(bytesPerSecond) })
	config.Dial = r.network.Dial
	client, err := kubernetes.NewForConfig(resource.ConfigFor(config))
	if err != nil {
		t.Fatal(err)
	}
	gate := objectcache.NewGate(objectcache.GateOptions{})
	store := newStore(t, resource.Secrets(client), objectcache.WatchOptions{Gate: gate})
	r.Store = store
	r.run()
	var gets sync.WaitGroup
	began := time.Now()
	for i := range objects {
		name := fmt.Sprint("tls-", i)
		r.create(name)
		r.AddReference(namespace, name, "pod")
		if awaited {
			gets.Go(func() {
				if _, err := r.Get(t.Context(), namespace, name); err != nil {
					t.Error(err)
				}
			})
		}
	}
	synced := func() bool {
		stats := store.Stats()
		return stats.OpenStreams == objects && stats.FirstSync.Count == uint64(objects)
	}
	for !synced() && time.Since(began) < time.Hour {
		time.Sleep(100 * time.Millisecond)
		if cause := gate.Status().Cause; cause != nil {
			t.Fatalf("after %v the server is taken for down: %v", time.Since(began), cause)
		}
	}
	gets.Wait()
	took, opens := time.Since(began), store.Stats().Opens
	t.Logf("%v", took)
	if most := time.Duration(objects)*size/bytesPerSecond*time.Second + 10*time.Second; took > most {
		t.Errorf("%d objects have streams after %v, want %v at most", objects, took, most)
	}
	if opens["failed"] > 0 || opens["ended"] > 0 {
		t.Errorf("opens by reason: got %v, want first ones alone", opens)
	}
	r.stop()
	time.Sleep(2 * time.Minute)
}
