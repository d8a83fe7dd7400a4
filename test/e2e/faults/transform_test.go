// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/objectcache/resource"
	"github.com/refwatch/refwatch/test/e2e"
)

// A function of WithTransform blocks for some of the objects, while their streams are cut and while etcd is
// restored. It delays none of the others. After it has returned, the store agrees with the server.
func TestTransformBlocks(t *testing.T) {
	t.Parallel()
	cluster := e2e.New(t, e2e.Options{})
	largeOnes := 300
	if testing.Short() {
		largeOnes = 150
	}
	for _, test := range []struct{ objects, size int }{{many, 100}, {largeOnes, 100_000}} {
		t.Run(fmt.Sprintf("%d of %d bytes", test.objects, test.size), func(t *testing.T) {
			testTransformBlocks(t, cluster, test.objects, test.size)
		})
	}
}

func testTransformBlocks(t *testing.T, cluster *e2e.Cluster, n, size int) {
	const blocked = 100 // each half is more than the Gate opens at once
	fault := fmt.Sprintf("a function of WithTransform blocks for %d of %d objects of %d bytes", blocked, n, size)
	gate := objectcache.NewGate(objectcache.GateOptions{})
	r := newRig(t, cluster, fmt.Sprintf("transform-%d", size), nil, objectcache.WatchOptions{})
	unblock, work := r.transform(gate)
	names := r.prepareLarge(n, size)
	snapshot, err := cluster.Snapshot(r.Context())
	if err != nil {
		t.Fatal(err)
	}
	others := names[blocked:]
	events := names[:blocked/2] // the function has these before the streams are cut
	r.updateLarge(size, "blocks", events...)
	r.eventually(func() error { return work.with(events) })

	r.isolate()
	r.updateLarge(size, "blocks", names[len(events):blocked]...)
	r.updateLarge(size, "lost", others...)
	r.requests.reset()
	began := time.Now()
	r.reconnect()
	r.converged(others)
	r.eventually(func() error { return r.fresh(others, began) })
	r.observe(fault+", connections cut", "has what changed meanwhile", "each other object", time.Since(began))
	r.eventually(func() error { return work.with(names[:blocked]) })
	if cause := gate.Status().Cause; cause != nil {
		t.Errorf("after the connections were cut: got an outage with %v, want none", cause)
	}
	if sent := r.requests.sent.Load(); sent > int64(3*n) {
		t.Errorf("after the connections were cut: got %d requests, want %d at most", sent, 3*n)
	}

	r.isolate()
	if err := cluster.Restore(r.Context(), snapshot); err != nil {
		t.Fatal(err)
	}
	r.reconnect()
	r.observe(fault+", etcd restored", "converges although versions went back", "each other object", r.converged(others))

	unblock()
	r.observe(fault+", etcd restored", "converges when the function has returned", "every object", r.converged(names))
	r.updateLarge(size, "last", names...)
	r.converged(names)
}

// transform replaces the store by one whose Secrets lose their large data in a function that takes 2 ms. It blocks for
// the value "blocks" until unblock is called. at has the objects that it has blocked for.
func (r *rig) transform(gate *objectcache.Gate) (unblock func(), at *work) {
	r.Helper()
	r.stop()
	at = &work{}
	released := make(chan struct{})
	kind := resource.Secrets(r.client).WithTransform(func(s *corev1.Secret) *corev1.Secret {
		<-time.After(2 * time.Millisecond)
		if string(s.Data["value"]) == "blocks" {
			at.names.Store(s.Name, true)
			<-released
		}
		delete(s.Data, "large")
		return s
	})
	store, err := objectcache.NewWatchStore(kind, objectcache.WatchOptions{Gate: gate})
	if err != nil {
		r.Fatal(err)
	}
	r.store, r.stop = store, e2e.Run(r, store.Run)
	unblock = sync.OnceFunc(func() { close(released) })
	r.Cleanup(unblock) // before the store is stopped, which waits for the function
	return unblock, at
}

// work is the names of the objects that a function has blocked for.
type work struct{ names sync.Map }

// with returns nil if the function has blocked for each name.
func (w *work) with(names []string) error {
	for _, name := range names {
		if _, ok := w.names.Load(name); !ok {
			return fmt.Errorf("the function does not work with %s", name)
		}
	}
	return nil
}
