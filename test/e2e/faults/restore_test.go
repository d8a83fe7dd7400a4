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

	"github.com/refwatch/refwatch/internal/reflector"
	"github.com/refwatch/refwatch/internal/reflector/listwatch"
	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/test/e2e"
	"github.com/refwatch/refwatch/test/storetest"
	"github.com/refwatch/refwatch/test/testmain"
)

// etcd is restored from a snapshot: versions go back. The streams' versions are now newer than the server's, or, if
// later writes have overtaken them, belong to other states. One stream that notices the restore must notify all others.
func TestRestore(t *testing.T) {
	t.Parallel()
	for _, watchList := range []bool{true, false} {
		t.Run(fmt.Sprintf("watchList=%v", watchList), func(t *testing.T) {
			if !watchList && testing.Short() {
				t.Skip("takes minutes")
			}
			cluster := e2e.New(t, e2e.Options{DisableWatchList: !watchList})
			t.Run("not overtaken", func(t *testing.T) { testRestore(t, cluster, watchList, false) })
			t.Run("overtaken", func(t *testing.T) { testRestore(t, cluster, watchList, true) })
		})
	}
}

func testRestore(t *testing.T, cluster *e2e.Cluster, watchList, overtaken bool) {
	fault, namespace := "etcd restored", "restored"
	if overtaken {
		fault, namespace = fault+" and overtaken by writes", "overtaken"
	}
	if !watchList {
		fault += ", list+watch"
	}
	r := newRig(t, cluster, namespace, nil, objectcache.WatchOptions{})
	names := r.create(many)
	r.put("immutable", "first", immutable)
	snapshot, err := cluster.Snapshot(r.Context())
	if err != nil {
		t.Fatal(err)
	}
	r.change(names)
	r.remove("immutable")
	r.put("immutable", "second", immutable)
	r.reference("immutable")
	all := append(names, "immutable")
	r.converged(all)
	subscriber := r.subscribe()
	slot := r.reflect(names[0])
	epoch := slot.Load().Epoch

	r.eventually(func() error { return streams(r.Context(), cluster, len(names)+1) }) // none for the immutable Secret
	took, began := r.restore(fault, snapshot, names, overtaken)
	r.observe(fault, "converges although versions went back", "every object", took)
	want := r.onServer()
	r.eventually(func() error { return slotAgrees(slot, epoch, want[names[0]]) })
	r.observe(fault, "noticed by a reflector with its own Gate", "a new epoch", time.Since(began))
	r.eventually(func() error { return subscriber.newest(names, want) })
	r.observe(fault, "Changes yields the restored state", "newest state of each", time.Since(began))

	r.store.AddReference(r.namespace, "immutable", "another owner")
	ctx, cancel := context.WithTimeout(r.Context(), timeout)
	defer cancel()
	requested := time.Now()
	if got, err := r.store.Get(ctx, r.namespace, "immutable"); err != nil || describe(got) != describe(want["immutable"]) {
		t.Errorf("immutable, for a new owner: got %s and error %v, want %s", describe(got), err, describe(want["immutable"]))
	}
	r.observe(fault, "an immutable object is read again for a new owner", "the restored object", time.Since(requested))
	r.converged(all)
}

// Ten thousand streams recover from a restore, and a new reference does not wait for them.
func TestRestoreWithTenThousand(t *testing.T) {
	if testing.Short() || testmain.Race {
		t.Skip("takes minutes, and more goroutines than the race detector supports")
	}
	const fault = "etcd restored"
	cluster := e2e.New(t, e2e.Options{})
	r := newRig(t, cluster, "restored", nil, objectcache.WatchOptions{})
	r.timeout = 10 * time.Minute
	names := r.create(10 * many)
	snapshot, err := cluster.Snapshot(r.Context())
	if err != nil {
		t.Fatal(err)
	}
	r.change(names)
	r.converged(names)
	took, _ := r.restore(fault, snapshot, names, false)
	r.observe(fault, "converges although versions went back", "every object", took)
}

// restore disconnects the store, restores the snapshot, and reconnects the store. It returns the time of that, and how
// long after it every object agreed with the server. It also gets an object that is referenced at that time.
func (r *rig) restore(fault string, snapshot *e2e.Snapshot, names []string, overtaken bool) (took time.Duration, began time.Time) {
	r.Helper()
	r.isolate()
	if err := r.cluster.Restore(r.Context(), snapshot); err != nil {
		r.Fatal(err)
	}
	if overtaken {
		for i := range 2 * len(names) / writers { // more writes than were lost
			r.update(fmt.Sprint(i), names[1:1+writers]...) // not the first: its version must go back
		}
	}
	r.put("new", "first")
	r.reconnect()
	began = time.Now()
	r.reference("new")
	got := make(chan time.Duration, 1)
	go func() { got <- r.served("new") }()
	took = r.converged(names)
	r.observe(fault, "first Get of a new reference meanwhile", "the object", <-got)
	return took, began
}

// served gets an object, and returns how long that took.
func (r *rig) served(name string) time.Duration {
	r.Helper()
	began := time.Now()
	ctx, cancel := context.WithTimeout(r.Context(), r.timeout)
	defer cancel()
	if _, err := r.store.Get(ctx, r.namespace, name); err != nil {
		r.Errorf("%s: got error %v, want none", name, err)
	}
	return time.Since(began)
}

// reflect runs a reflector of one object and waits until it has synced. Its slot has the epoch, which a store does not
// show.
func (r *rig) reflect(name string) *storetest.Slot[*corev1.Secret] {
	r.Helper()
	slot := storetest.NewSlot[*corev1.Secret](types.NamespacedName{Namespace: r.namespace, Name: name})
	selector := fields.OneTermEqualSelector(metav1.ObjectNameField, name)
	source := toolscache.NewListWatchFromClient(r.client.CoreV1().RESTClient(), "secrets", r.namespace, selector)
	single := reflector.New(listwatch.FromListerWatcher(source), slot, reflector.Options{})
	e2e.Run(r, func(ctx context.Context) error { single.Run(ctx); return nil })
	want := r.onServer()[name]
	r.eventually(func() error {
		if got := slot.Load(); describe(got.Object) != describe(want) {
			return fmt.Errorf("got %s in the slot, want %s", describe(got.Object), describe(want))
		}
		return nil
	})
	return slot
}

// slotAgrees returns nil if the slot holds the server's object, in a later epoch than before the restore.
func slotAgrees(slot *storetest.Slot[*corev1.Secret], before uint64, want *corev1.Secret) error {
	state := slot.Load()
	if describe(state.Object) != describe(want) {
		return fmt.Errorf("got %s in the slot, want %s", describe(state.Object), describe(want))
	}
	if state.Epoch <= before {
		return fmt.Errorf("got epoch %d in the slot, want a later one than %d", state.Epoch, before)
	}
	return nil
}
