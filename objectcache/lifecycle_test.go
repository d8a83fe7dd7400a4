// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/objectcache/resource"
	"github.com/refwatch/refwatch/test/apiserver"
)

func TestImmutableEndsItsStream(t *testing.T) {
	tests := map[string]func(r *rig){
		"from the start": func(r *rig) { r.create("tls", immutable); r.AddReference(namespace, "tls", "pod") },
		"without a Get":  func(r *rig) { r.AddReference(namespace, "tls", "pod"); r.create("tls", immutable) },
		"made so later": func(r *rig) {
			secret := r.create("tls")
			r.AddReference(namespace, "tls", "pod")
			r.mustGet("tls")
			immutable(secret)
			if _, err := r.client.CoreV1().Secrets(namespace).Update(r.t.Context(), secret, metav1.UpdateOptions{}); err != nil {
				r.t.Fatal(err)
			}
		},
	}
	for name, arrange := range tests {
		t.Run(name, func(t *testing.T) {
			inBubbles(t, objectcache.WatchOptions{}, func(t *testing.T, r *rig) {
				arrange(r)
				if got := r.streams("tls"); got != 0 {
					t.Errorf("streams: got %d, want 0", got)
				}
				if got := r.phase("tls"); got != servingImmutable {
					t.Errorf("phase: got %s, want Immutable", got)
				}
				r.refuse(unavailable())
				time.Sleep(2 * time.Hour)
				r.mustGet("tls")
			})
		})
	}
}

func TestWatchImmutable(t *testing.T) {
	inBubbles(t, objectcache.WatchOptions{WatchImmutable: true}, func(t *testing.T, r *rig) {
		r.create("tls", immutable)
		r.AddReference(namespace, "tls", "pod")
		r.mustGet("tls")
		r.AddReference(namespace, "tls", "other")
		if got := r.streams("tls"); got != 1 {
			t.Errorf("streams: got %d, want 1", got)
		}
		r.remove("tls")
		if _, err := r.get("tls", time.Second); !apierrors.IsNotFound(err) {
			t.Errorf("deleted: got %v, want NotFound", err)
		}
	})
}

// Peer bug 2: after an immutable object is deleted and created again, kubelet returns
// the old one to a new owner, and after a deletion too.
func TestPeerBug02_RecreatedImmutable(t *testing.T) {
	inBubbles(t, objectcache.WatchOptions{}, func(t *testing.T, r *rig) {
		old := r.create("tls", immutable)
		r.AddReference(namespace, "tls", "pod-1")
		if got := r.mustGet("tls"); got.UID != old.UID {
			t.Fatalf("got UID %s, want %s", got.UID, old.UID)
		}
		r.remove("tls")
		created := r.create("tls", immutable)
		r.AddReference(namespace, "tls", "pod-2")
		if got := r.mustGet("tls"); got.UID != created.UID {
			t.Errorf("new owner: got UID %s, want that of the new object, %s", got.UID, created.UID)
		}
		if got := r.streams("tls"); got != 0 {
			t.Errorf("streams: got %d, want 0: it is immutable again", got)
		}
		r.remove("tls")
		r.AddReference(namespace, "tls", "pod-3")
		if _, err := r.get("tls", time.Second); !apierrors.IsNotFound(err) {
			t.Errorf("a new owner after the deletion: got %v, want NotFound", err)
		}
	})
}

func TestGetAfterIdle(t *testing.T) {
	inBubbles(t, objectcache.WatchOptions{IdleTimeout: time.Minute}, func(t *testing.T, r *rig) {
		r.create("tls")
		r.AddReference(namespace, "tls", "pod")
		r.mustGet("tls")
		time.Sleep(2*time.Minute + time.Second)
		if streams, phase := r.streams("tls"), r.phase("tls"); streams != 0 || phase != objectcache.PhaseIdle {
			t.Fatalf("unused: got %d streams in phase %s, want none and Idle", streams, phase)
		}
		r.update("tls", "new")
		if got := r.mustGet("tls"); string(got.Data["password"]) != "new" {
			t.Errorf("after idling: got %q, want the new data", got.Data["password"])
		}
		if got := r.phase("tls"); got != servingNamed {
			t.Errorf("phase: got %s, want Serving", got)
		}
	})
}

func TestUsedObjectIsNotIdle(t *testing.T) {
	inBubbles(t, objectcache.WatchOptions{IdleTimeout: time.Minute}, func(t *testing.T, r *rig) {
		r.create("tls")
		r.AddReference(namespace, "tls", "pod")
		for range 60 {
			time.Sleep(50 * time.Second)
			r.mustGet("tls")
		}
		if got := r.opens("tls"); got > 3 {
			t.Errorf("opens in 50 minutes: got %d, want at most 3", got)
		}
	})
}

// An object is not idle while a Get waits longer than the IdleTimeout.
func TestObjectWithAWaitingGetIsNotIdle(t *testing.T) {
	inBubbles(t, objectcache.WatchOptions{IdleTimeout: 5 * time.Second}, func(t *testing.T, r *rig) {
		r.create("tls")
		release := r.holdBack("get", "watch", "list")
		r.AddReference(namespace, "tls", "pod")
		done := r.async(t.Context(), "tls")
		for range 50 {
			time.Sleep(time.Second)
			if got := r.phase("tls"); got == objectcache.PhaseIdle {
				t.Fatal("the object is idle")
			}
		}
		release()
		if got := <-done; got.err != nil {
			t.Errorf("got %v, want the object", got.err)
		}
	})
}

// Nor is one that has synced, while a Get waits for a newer state.
func TestObjectWithAWaitingLiveGetIsNotIdle(t *testing.T) {
	inBubbles(t, objectcache.WatchOptions{IdleTimeout: 5 * time.Second}, func(t *testing.T, r *rig) {
		r.referenced("tls")
		time.AfterFunc(50*time.Second, r.holdBack("watch", "list", "get"))
		go func() {
			for range 45 {
				time.Sleep(time.Second)
				if got := r.phase("tls"); got == objectcache.PhaseIdle || got == objectcache.PhaseSyncing {
					t.Errorf("got phase %s, want the known state", got)
				}
			}
		}()
		if _, err := r.demand("tls", objectcache.GetOptions{Live: true}); err != nil {
			t.Errorf("got %v, want the object", err)
		}
	})
}

// Peer bug 4: in kubelet the time of the last access starts at zero, so the first idle
// scan stops an object that was just registered.
func TestPeerBug04_IdleClockStartsAtTheReference(t *testing.T) {
	inBubbles(t, objectcache.WatchOptions{IdleTimeout: time.Minute}, func(t *testing.T, r *rig) {
		r.create("tls")
		r.AddReference(namespace, "tls", "pod")
		time.Sleep(59 * time.Second)
		if got := r.streams("tls"); got != 1 {
			t.Errorf("before the first minute is over: got %d streams, want 1", got)
		}
		r.AddReference(namespace, "tls", "other")
		time.Sleep(59 * time.Second)
		if got := r.streams("tls"); got != 1 {
			t.Errorf("less than a minute after a new reference: got %d streams, want 1", got)
		}
	})
}

// Peer bug 9: kubelet's restarted reflector requests its old version. A server that
// lags refuses it as too large, and a compacted one as expired.
func TestPeerBug09_RestartReadsConsistently(t *testing.T) {
	inBubbles(t, objectcache.WatchOptions{IdleTimeout: time.Minute}, func(t *testing.T, r *rig) {
		r.create("tls")
		r.AddReference(namespace, "tls", "pod")
		r.mustGet("tls")
		time.Sleep(5 * time.Minute)
		r.mustGet("tls")
		for _, request := range r.server.Requests() {
			if version := request.Query.Get("resourceVersion"); request.Verb == "watch" && version != "" {
				t.Errorf("restarted at version %q, want a consistent read", version)
			}
		}
	})
}

// Peer bug 16: kubelet scans all objects under its write lock. Here each object goes
// idle at its own time, exact to the millisecond.
func TestPeerBug16_NoScan(t *testing.T) {
	inBubbles(t, objectcache.WatchOptions{IdleTimeout: time.Minute}, func(t *testing.T, r *rig) {
		const count = 20
		for i := range count {
			r.AddReference(namespace, fmt.Sprintf("tls-%d", i), "pod")
			time.Sleep(1234 * time.Millisecond)
		}
		began := time.Now().Add(-count * 1234 * time.Millisecond)
		for i := range count {
			name := fmt.Sprintf("tls-%d", i)
			due := began.Add(time.Duration(i) * 1234 * time.Millisecond).Add(time.Minute)
			time.Sleep(time.Until(due) - time.Millisecond)
			if got := r.phase(name); got != absentNamed {
				t.Errorf("%s just before its time: got %s, want Absent", name, got)
			}
			time.Sleep(2 * time.Millisecond)
			if got := r.phase(name); got != objectcache.PhaseIdle {
				t.Errorf("%s just after its time: got %s, want Idle", name, got)
			}
		}
	})
}

func TestStatusAndStatuses(t *testing.T) {
	beforeRun(t, objectcache.WatchOptions{IdleTimeout: time.Hour}, func(t *testing.T, r *rig) {
		created := r.create("tls")
		r.AddReference(namespace, "tls", "b")
		r.AddReference(namespace, "tls", "a")
		r.AddReference(namespace, "absent", "a")
		if got := r.phase("tls"); got != objectcache.PhasePending {
			t.Errorf("before Run: got %s, want Pending", got)
		}
		release := r.holdBack("watch")
		r.run()
		if got := r.phase("tls"); got != objectcache.PhaseSyncing {
			t.Errorf("before the answer: got %s, want Syncing", got)
		}
		release()
		synctest.Wait()
		all := map[string]objectcache.Status{}
		for status := range r.Statuses() {
			all[status.Key.Name] = status
		}
		got := all["tls"]
		if len(all) != 2 || got.Phase != objectcache.PhaseServing || !got.Exists || got.UID != created.UID ||
			got.ResourceVersion != created.ResourceVersion || fmt.Sprint(got.Owners) != "[a b]" || got.LastContact.IsZero() {
			t.Errorf("Statuses: got %+v, want both, and tls as created", all)
		}
		if got := all["absent"]; got.Exists || got.UID != "" || got.Phase != objectcache.PhaseAbsent {
			t.Errorf("absent: got %+v, want it watched and absent", got)
		}
		if _, ok := r.Status(namespace, "stranger"); ok {
			t.Error("not referenced: got a status, want none")
		}
		for range r.Statuses() {
			break // leaving early must not deadlock
		}
	})
}

// Typed takes the REST client of a clientset for a kind that has no constructor of its own.
func TestTypedOfAClientset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := apiserver.New(t, apiserver.Options{InMemory: true})
		client := server.Client()
		account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "builder"}}
		if _, err := client.CoreV1().ServiceAccounts(namespace).Create(t.Context(), account, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		resource := resource.Typed[*corev1.ServiceAccount, *corev1.ServiceAccountList](client.CoreV1().RESTClient(), corev1.SchemeGroupVersion.WithResource("serviceaccounts"))
		store := newStore(t, resource, objectcache.WatchOptions{})
		stop := runStore(t.Context(), t, store)
		store.AddReference(namespace, "builder", "pod")
		store.AddReference(namespace, "system:odd", "pod")
		got, err := store.Get(t.Context(), namespace, "builder")
		if err != nil || got.Name != "builder" {
			t.Errorf("got %v, %v, want the service account", got, err)
		}
		if _, err := store.Get(t.Context(), namespace, "system:odd"); !apierrors.IsNotFound(err) {
			t.Errorf("name with a colon: got %v, want NotFound", err)
		}
		if synctest.Wait(); server.OpenStreams("serviceaccounts", types.NamespacedName{Namespace: namespace, Name: "builder"}) != 1 {
			t.Error("streams on the server: want 1")
		}
		stop()
	})
}
