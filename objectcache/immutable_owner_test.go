// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/objectcache/resource"
	"github.com/refwatch/refwatch/test/apiserver"
	"github.com/refwatch/refwatch/test/clients"
)

// During an outage a second owner made the first one lose an immutable object that
// it had, even after the second owner was gone.
func TestIssue8OwnersKeepAnImmutableObject(t *testing.T) {
	tests := map[string]struct {
		fault func(*rig) (end func())
		limit time.Duration // of a Get while the new owner has its reference
	}{
		"outage": {func(r *rig) func() {
			r.refuse(unavailable())
			return func() { r.refuse(nil) }
		}, 0},
		"refused": {func(r *rig) func() {
			r.refuse(forbidden())
			return func() { r.refuse(nil) }
		}, 0},
		"outage that the gate has noticed": {func(r *rig) func() {
			for i := range 20 {
				r.AddReference(namespace, fmt.Sprint("other-", i), "pod")
			}
			synctest.Wait()
			r.refuse(unavailable())
			r.server.CloseStreams(nil)
			time.Sleep(time.Minute)
			return func() { r.refuse(nil) }
		}, 0},
		"server hangs": {func(r *rig) func() { return r.holdBack("list") }, time.Second},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			inBubble(t, objectcache.WatchOptions{ImmutableRecheck: -1}, func(t *testing.T, r *rig) {
				uid := r.create("tls", immutable).UID
				r.AddReference(namespace, "tls", "pod-1")
				r.within("tls", time.Second, uid)
				read := time.Now()
				end := test.fault(r)
				r.AddReference(namespace, "tls", "pod-2")
				r.within("tls", test.limit, uid)
				status, _ := r.Status(namespace, "tls")
				if !status.LastContact.Equal(read) || !status.Exists || status.UID != uid {
					t.Errorf("status: got %+v, want that of the previous state", status)
				}
				r.DeleteReference(namespace, "tls", "pod-2")
				began := time.Now()
				r.within("tls", 0, uid)
				if took := time.Since(began); took != 0 {
					t.Errorf("after the new owner is gone: Get took %v, want 0", took)
				}
				end()
				r.AddReference(namespace, "tls", "pod-3")
				r.within("tls", time.Minute, uid)
				time.Sleep(time.Minute)
				if got := r.phase("tls"); got != servingImmutable {
					t.Errorf("phase: got %s, want Immutable", got)
				}
			})
		})
	}
}

// A server that has refused reads for long is asked again for a new owner, but after its back-off. Owners that had the
// object keep it meanwhile.
func TestOwnersKeepAnImmutableObjectBeforeTheNextRefusal(t *testing.T) {
	inBubble(t, objectcache.WatchOptions{ImmutableRecheck: -1}, func(t *testing.T, r *rig) {
		uid := r.create("tls", immutable).UID
		r.AddReference(namespace, "tls", "pod-1")
		r.within("tls", time.Second, uid)
		r.refuse(forbidden())
		r.AddReference(namespace, "tls", "pod-2")
		for i := range 60 {
			time.Sleep(100 * time.Millisecond)
			r.AddReference(namespace, "tls", types.UID(fmt.Sprint("late-", i)))
			r.within("tls", 2*time.Second, uid)
			if got, err := r.TryGet(namespace, "tls"); i >= 20 && (err != nil || got.UID != uid) {
				t.Errorf("TryGet: got %v, %v, want UID %s", got, err, uid)
			}
		}
		r.refuse(nil)
	})
}

// A new owner that came soon after a refusal has the previous state when RefusalGrace has passed, and keeps it.
func TestNewOwnerAfterARefusal(t *testing.T) {
	inBubble(t, objectcache.WatchOptions{ImmutableRecheck: -1}, func(t *testing.T, r *rig) {
		uid := r.create("tls", immutable).UID
		r.AddReference(namespace, "tls", "pod-1")
		r.within("tls", time.Second, uid)
		r.refuse(forbidden())
		r.AddReference(namespace, "tls", "pod-2")
		for i := range 10 {
			time.Sleep(time.Minute) // the next attempt is then far away
			r.refusedJustNow("tls")
			r.AddReference(namespace, "tls", types.UID(fmt.Sprint("new-", i)))
			time.Sleep(2500 * time.Millisecond)
			if _, err := r.TryGet(namespace, "tls"); err != nil {
				t.Error(err)
			}
		}
		r.refuse(nil)
	})
}

// refusedJustNow waits until the server has refused a read just now.
func (r *rig) refusedJustNow(name string) {
	for {
		status, _ := r.Status(namespace, name)
		if time.Since(status.LastErrorTime) < 200*time.Millisecond {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// Get returns the previous state to a new owner, and Changes yields it, when RefusalGrace has passed, although no
// attempt ends then.
func TestPreviousStateAfterRefusalGrace(t *testing.T) {
	const grace = 5 * time.Second
	inBubble(t, objectcache.WatchOptions{ImmutableRecheck: -1, RefusalGrace: grace}, func(t *testing.T, r *rig) {
		uid := r.create("tls", immutable).UID
		r.AddReference(namespace, "tls", "pod-1")
		r.within("tls", time.Second, uid)
		subscriber := r.subscribe()
		defer subscriber.stop()
		r.refuse(forbidden())
		r.AddReference(namespace, "tls", "pod-2")
		refused := time.Now()
		time.Sleep(time.Second)
		release := r.holdBack("list")
		r.refuse(nil)
		subscriber.seen()
		r.AddReference(namespace, "tls", "pod-3")
		want(t, "before RefusalGrace has passed", subscriber.seen())
		time.Sleep(2200 * time.Millisecond)
		get := r.async(t.Context(), "tls")
		time.Sleep(time.Until(refused.Add(grace + 10*time.Millisecond)))
		select {
		case got := <-get:
			if got.err != nil {
				t.Error(got.err)
			}
		default:
			t.Error("Get waits after RefusalGrace")
		}
		if seen := subscriber.seen(); len(seen) != 1 {
			t.Errorf("after RefusalGrace: got %q, want the object", seen)
		}
		if _, err := r.TryGet(namespace, "tls"); err != nil {
			t.Error(err)
		}
		release()
	})
}

// Gets that return the previous state expedite the read for a new owner: it follows soon when the server has recovered.
func TestNewOwnerHasTheObjectSoonAfterRefusals(t *testing.T) {
	inBubble(t, objectcache.WatchOptions{ImmutableRecheck: -1}, func(t *testing.T, r *rig) {
		for i := range 5 {
			name := fmt.Sprint("tls-", i)
			uid := r.create(name, immutable).UID
			r.AddReference(namespace, name, "pod-1")
			r.within(name, time.Second, uid)
			r.remove(name)
			uid = r.create(name, immutable).UID
			r.refuse(forbidden())
			r.AddReference(namespace, name, "pod-2")
			waits := func() bool {
				time.Sleep(100 * time.Millisecond)
				got, err := r.get(name, time.Minute)
				if err != nil {
					t.Fatal(err)
				}
				return got.UID != uid
			}
			for range 600 {
				waits()
			}
			r.refuse(nil)
			began := time.Now()
			for waits() {
			}
			if took := time.Since(began); took > 2*time.Second {
				t.Errorf("the new owner got the object %v after the server had recovered, want 2s at most", took)
			}
		}
	})
}

// With a new owner every 80 ms, and reads of 100 ms, an immutable object never
// synced. One read serves all owners that were added before it began.
func TestIssue8ManyNewOwners(t *testing.T) {
	const read, pace, count = 100 * time.Millisecond, 80 * time.Millisecond, 750
	inBubble(t, objectcache.WatchOptions{}, func(t *testing.T, r *rig) {
		uids := []types.UID{r.create("tls", immutable).UID}
		r.AddReference(namespace, "tls", "pod")
		r.within("tls", time.Second, uids[0])
		r.server.Intercept(func(_ context.Context, request apiserver.Request) *metav1.Status {
			if request.Verb == "list" {
				time.Sleep(read)
			}
			return nil
		})
		before, began := r.reads("tls"), time.Now()
		for i := range count {
			if i == count/2 {
				r.remove("tls")
				uids = append(uids, r.create("tls", immutable).UID)
			}
			r.AddReference(namespace, "tls", types.UID(fmt.Sprint(i)))
			go func(oldest int) {
				began := time.Now()
				got, err := r.get("tls", time.Minute)
				if took := time.Since(began); took > 4*read { // 250 ms between two reads, the read, and a margin
					t.Errorf("owner %d: Get took %v, want it to wait for the next read", i, took)
				}
				if oldest == 0 && apierrors.IsNotFound(err) {
					return // between the deletion and the creation
				}
				if err != nil || !slices.Contains(uids[oldest:], got.UID) {
					t.Errorf("owner %d: got %v, %v, want UID %s", i, got, err, uids[oldest:])
				}
			}(len(uids) - 1)
			time.Sleep(pace)
		}
		time.Sleep(time.Second)
		if got, most := r.reads("tls")-before, int(time.Since(began)/read); got > most {
			t.Errorf("reads: got %d in %v, want at most %d", got, time.Since(began), most)
		}
		r.server.Intercept(nil)
	})
}

// An owner that is added while a read is under way needs the next one, also if the server has read the object for the
// first already.
func TestNewOwnerDuringALateRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		late := &lateTransport{}
		r := newRig(t, apiserver.Options{InMemory: true}, objectcache.WatchOptions{})
		r.Store = newStore(t, resource.Secrets(late.client(r)), objectcache.WatchOptions{})
		r.run()
		r.referenced("tls", immutable)
		release := late.hold()
		r.AddReference(namespace, "tls", "pod-1")
		synctest.Wait() // the server has read the object
		r.remove("tls")
		uid := r.create("tls", immutable).UID
		r.AddReference(namespace, "tls", "pod-2")
		got := r.async(t.Context(), "tls")
		release()
		if result := <-got; result.err != nil || result.secret.UID != uid {
			t.Errorf("got %v, %v, want the object after the reference", result.secret, result.err)
		}
		r.stop()
	})
}

// A broken stream is resumed. A server that lags may then send the object from before
// it was created again, which the new owner must not get.
func TestIssue8NewOwnerAtALaggingServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := watch.NewFake()
		client := supported{fake.NewClientset()}
		opens := 0
		client.PrependWatchReactor("secrets", func(action clienttesting.Action) (bool, watch.Interface, error) {
			w := watch.NewFakeWithChanSize(2, false)
			switch version := action.(clienttesting.WatchActionImpl).ListOptions.ResourceVersion; {
			case opens == 0:
				w = first
			case version != "":
				answer(w, "old", "6") // the state before the deletion
			default:
				answer(w, "new", "9")
			}
			opens++
			return true, w, nil
		})
		r := rigOf(t, clients.FakeSecrets(client), objectcache.WatchOptions{})
		r.AddReference(namespace, "tls", "pod-1")
		synctest.Wait()
		first.Add(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "tls", UID: "old", ResourceVersion: "5"}})
		first.Action(watch.Bookmark, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
			ResourceVersion: "5", Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"},
		}})
		synctest.Wait()
		r.AddReference(namespace, "tls", "pod-2")
		first.Stop()
		time.Sleep(time.Minute)
		r.within("tls", time.Second, "new")
		r.stop()
	})
}
