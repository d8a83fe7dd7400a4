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
	"github.com/refwatch/refwatch/reflector/listwatch"
	"github.com/refwatch/refwatch/test/e2e"
)

// etcd is restored from an older copy: versions go back. The streams' own versions are now from the future, or, if
// the server has overtaken them meanwhile, mean something else. What one stream proves of it must serve all of them.
func TestRestore(t *testing.T) {
	for _, watchList := range []bool{true, false} {
		t.Run(fmt.Sprintf("watchList=%v", watchList), func(t *testing.T) {
			if !watchList && testing.Short() {
				t.Skip("takes minutes")
			}
			cluster := e2e.New(t, e2e.Options{DisableWatchList: !watchList})
			t.Run("behind", func(t *testing.T) { testRestore(t, cluster, watchList, false) })
			t.Run("overtaken", func(t *testing.T) { testRestore(t, cluster, watchList, true) })
		})
	}
}

func testRestore(t *testing.T, cluster *e2e.Cluster, watchList, overtaken bool) {
	fault, namespace := "etcd restored", "behind"
	if overtaken {
		fault, namespace = fault+", then written past", "overtaken"
	}
	if !watchList {
		fault += ", list+watch"
	}
	r := newRig(t, cluster, namespace, nil, objectcache.WatchOptions{})
	names := r.create(many)
	r.put("sealed", "first", immutable)
	snapshot, err := cluster.Snapshot(r.Context())
	if err != nil {
		t.Fatal(err)
	}
	r.change(names)
	r.remove("sealed")
	r.put("sealed", "second", immutable)
	r.reference("sealed")
	all := append(names, "sealed")
	r.converged(all)
	followed := r.follow()
	slot := r.reflect(names[0])
	epoch := slot.Load().Epoch

	r.eventually(func() error { return streams(r.Context(), cluster, len(names)+1) }) // and none of what is immutable
	took, began := r.restore(fault, snapshot, names, overtaken)
	r.observe(fault, "converges though versions went back", "every object", took)
	want := r.onServer()
	r.eventually(func() error { return slotAgrees(slot, epoch, want[names[0]]) })
	r.observe(fault, "noticed by a reflector with a gate of its own", "a new epoch", time.Since(began))
	r.eventually(func() error { return followed.newest(names, want) })
	r.observe(fault, "Changes delivers it", "newest state of each", time.Since(began))

	r.store.AddReference(r.namespace, "sealed", "another owner")
	ctx, cancel := context.WithTimeout(r.Context(), patience)
	defer cancel()
	asked := time.Now()
	if got, err := r.store.Get(ctx, r.namespace, "sealed"); err != nil || describe(got) != describe(want["sealed"]) {
		t.Errorf("immutable, for a new owner: got %s and error %v, want %s", describe(got), err, describe(want["sealed"]))
	}
	r.observe(fault, "an immutable object is read again for a new owner", "that of the restored server", time.Since(asked))
	r.converged(all)
}

// Ten thousand streams learn of a restore, and a new reference does not wait for them.
func TestRestoreWithTenThousand(t *testing.T) {
	if testing.Short() || raceDetector {
		t.Skip("takes minutes, and more goroutines than the race detector bears")
	}
	const fault = "etcd restored"
	cluster := e2e.New(t, e2e.Options{})
	r := newRig(t, cluster, "behind", nil, objectcache.WatchOptions{})
	r.patience = 10 * time.Minute
	names := r.create(10 * many)
	snapshot, err := cluster.Snapshot(r.Context())
	if err != nil {
		t.Fatal(err)
	}
	r.change(names)
	r.converged(names)
	took, _ := r.restore(fault, snapshot, names, false)
	r.observe(fault, "converges though versions went back", "every object", took)
}

// restore takes the cluster back to the snapshot while the store is cut off, and lets the store back in. It returns when
// that was, and how long after it every object agreed with the server. A reference that is new at that moment is got.
func (r *rig) restore(fault string, snapshot *e2e.Snapshot, names []string, overtaken bool) (took time.Duration, began time.Time) {
	r.Helper()
	r.isolate()
	if err := r.cluster.Restore(r.Context(), snapshot); err != nil {
		r.Fatal(err)
	}
	if overtaken {
		for i := range 2 * len(names) / writers { // more writes than were lost
			r.update(fmt.Sprint(i), names[1:1+writers]...) // and not the first, whose version is to go back
		}
	}
	r.put("new", "first")
	r.reconnect()
	began = time.Now()
	r.reference("new")
	got := make(chan time.Duration, 1)
	go func() { got <- r.served("new") }()
	took = r.converged(names)
	r.observe(fault, "a new reference's first Get meanwhile", "the object", <-got)
	return took, began
}

// served is how long a Get takes that waits until it has the object.
func (r *rig) served(name string) time.Duration {
	r.Helper()
	began := time.Now()
	ctx, cancel := context.WithTimeout(r.Context(), r.patience)
	defer cancel()
	if _, err := r.store.Get(ctx, r.namespace, name); err != nil {
		r.Errorf("%s: got error %v, want none", name, err)
	}
	return time.Since(began)
}

// reflect runs a reflector of one object, whose slot shows more than a store does, and waits until it has synced.
func (r *rig) reflect(name string) *cache.Slot[*corev1.Secret] {
	r.Helper()
	slot := cache.NewSlot(types.NamespacedName{Namespace: r.namespace, Name: name}, cache.SlotOptions[*corev1.Secret]{})
	selector := fields.OneTermEqualSelector(metav1.ObjectNameField, name)
	source := toolscache.NewListWatchFromClient(r.client.CoreV1().RESTClient(), "secrets", r.namespace, selector)
	single := reflector.New(listwatch.FromListerWatcher(source), slot, reflector.Options{})
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
	return slot
}

// slotAgrees returns nil if the slot holds what the server has, in a later epoch than that before versions went back.
func slotAgrees(slot *cache.Slot[*corev1.Secret], before uint64, want *corev1.Secret) error {
	state := slot.Load()
	if describe(state.Object) != describe(want) {
		return fmt.Errorf("got %s in the slot, want %s", describe(state.Object), describe(want))
	}
	if state.Epoch <= before {
		return fmt.Errorf("got epoch %d in the slot, want a later one than %d", state.Epoch, before)
	}
	return nil
}
