// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/refwatch/refwatch/cache"
	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/reflector"
	"github.com/refwatch/refwatch/test/e2e"
)

// etcd is restored from an older copy: versions go back. The streams' own versions are now from the future, or, if
// the server has overtaken them meanwhile, mean something else.
func TestRestore(t *testing.T) {
	for _, watchList := range []bool{true, false} {
		t.Run(fmt.Sprintf("watchList=%v", watchList), func(t *testing.T) {
			if !watchList && testing.Short() {
				t.Skip("takes a minute")
			}
			cluster := e2e.New(t, e2e.Options{DisableWatchList: !watchList})
			t.Run("behind", func(t *testing.T) { testRestore(t, cluster, watchList, false) })
			t.Run("overtaken", func(t *testing.T) { testRestore(t, cluster, watchList, true) })
		})
	}
}

// overtaking is how many writes a restored server makes before anybody reads from it: more than were lost.
const overtaking = 100

func testRestore(t *testing.T, cluster *e2e.Cluster, watchList, overtaken bool) {
	fault, namespace := "etcd restored", "behind"
	if overtaken {
		fault, namespace = fault+", then written past", "overtaken"
	}
	if !watchList {
		fault += ", list+watch"
	}
	r := newRig(t, cluster, namespace, nil, objectcache.WatchOptions{})
	names := r.create(11)
	r.put("sealed", "first", immutable)
	snapshot, err := cluster.Snapshot(r.Context())
	if err != nil {
		t.Fatal(err)
	}
	r.change(names)
	r.remove("sealed")
	r.put("sealed", "second", immutable)
	r.store.AddReference(r.namespace, "sealed", owner)
	all := append(names, "sealed")
	r.converged(all)
	followed := r.follow()
	slot, single := r.reflect(names[0])

	r.eventually(func() error { return streams(r.Context(), cluster, len(names)+1) }) // and none of what is immutable
	r.isolate()
	if err := cluster.Restore(r.Context(), snapshot); err != nil {
		t.Fatal(err)
	}
	if overtaken {
		for i := range overtaking {
			r.update(fmt.Sprint(i), names[1])
		}
	}
	r.reconnect()
	began := time.Now()
	took := r.converged(names)
	observe(t, fault, "converges though versions went back", "11 objects", took)
	want := r.onServer()
	r.eventually(func() error { return slotAgrees(slot, single, want[names[0]]) })
	observe(t, fault, "noticed", "a new epoch", time.Since(began))
	r.eventually(func() error { return followed.newest(names, want) })
	observe(t, fault, "Changes tells of it", "newest state of each", time.Since(began))

	r.store.AddReference(r.namespace, "sealed", "another owner")
	ctx, cancel := context.WithTimeout(r.Context(), patience)
	defer cancel()
	asked := time.Now()
	if got, err := r.store.Get(ctx, r.namespace, "sealed"); err != nil || describe(got) != describe(want["sealed"]) {
		t.Errorf("immutable, for a new owner: got %s and error %v, want %s", describe(got), err, describe(want["sealed"]))
	}
	observe(t, fault, "an immutable object is read afresh for a new owner", "that of the restored server", time.Since(asked))
	r.converged(all)
}

// reflect runs a reflector of one object, which tells more of itself than a store does, and waits until it has synced.
func (r *rig) reflect(name string) (*cache.Slot[*corev1.Secret], *reflector.Reflector) {
	r.Helper()
	slot := cache.NewSlot(types.NamespacedName{Namespace: r.namespace, Name: name}, cache.SlotOptions[*corev1.Secret]{})
	selector := fields.OneTermEqualSelector(metav1.ObjectNameField, name)
	source := toolscache.NewListWatchFromClient(r.client.CoreV1().RESTClient(), "secrets", r.namespace, selector)
	single := reflector.New(reflector.FromListerWatcher(source), slot, reflector.Options{})
	ctx, cancel := context.WithCancel(r.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		single.Run(ctx)
	}()
	r.Cleanup(func() { cancel(); <-done })
	want := r.onServer()[name]
	r.eventually(func() error {
		if got := slot.Load(); describe(got.Object) != describe(want) {
			return fmt.Errorf("got %s in the slot, want %s", describe(got.Object), describe(want))
		}
		return nil
	})
	return slot, single
}

// slotAgrees returns nil if the slot holds what the server says, and it is known that versions have gone back.
func slotAgrees(slot *cache.Slot[*corev1.Secret], single *reflector.Reflector, want *corev1.Secret) error {
	state, status := slot.Load(), single.Status()
	if describe(state.Object) != describe(want) {
		return fmt.Errorf("got %s in the slot, want %s", describe(state.Object), describe(want))
	}
	if state.Epoch == 0 {
		return fmt.Errorf("got epoch %d in the slot and %d in the reflector, want a later one", state.Epoch, status.Epochs)
	}
	return nil
}
