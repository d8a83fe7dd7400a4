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
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/refwatch/refwatch/objectcache"
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

// Gets that return the previous state expedite the read for a new owner: it follows soon when the server has recovered.
func TestNewOwnerHasTheObjectSoonAfterRefusals(t *testing.T) {
	inBubble(t, objectcache.WatchOptions{ImmutableRecheck: -1}, func(t *testing.T, r *rig) {
		for i := range 3 {
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

// A read that was requested before an owner was added may be older than the object
// that the owner needs. Get waits for the next read.
func TestNewOwnerDoesNotGetAnOlderRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second := watch.NewFake(), make(chan struct{})
		client := supported{fake.NewClientset()}
		client.PrependWatchReactor("secrets", func(clienttesting.Action) (bool, watch.Interface, error) {
			return true, first, nil
		})
		client.PrependReactor("list", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) {
			<-second
			return true, &corev1.SecretList{
				ListMeta: metav1.ListMeta{ResourceVersion: "9"},
				Items:    []corev1.Secret{{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "tls", UID: "new", ResourceVersion: "9"}}},
			}, nil
		})
		store := newStore(t, clients.FakeSecrets(client), objectcache.WatchOptions{})
		stop := runStore(t.Context(), t, store)
		store.AddReference(namespace, "tls", "pod-1")
		synctest.Wait()
		store.AddReference(namespace, "tls", "pod-2")
		var waiting []<-chan result
		for range 100 {
			waiting = append(waiting, (&rig{t: t, Store: store}).async(t.Context(), "tls"))
		}
		answer(first, "old", "5")
		close(second)
		for _, done := range waiting {
			if got := <-done; got.err != nil || got.secret.UID != "new" {
				t.Fatalf("got %v, %v, want the new object", got.secret, got.err)
			}
		}
		stop()
	})
}

// An immutable object is deleted while its stream is being ended. The event may still
// arrive or not; in both cases Get returns an object that exists.
func TestDeletionWhileUnwatching(t *testing.T) {
	for range 50 {
		synctest.Test(t, func(t *testing.T) {
			burst, read := watch.NewFakeWithChanSize(10, false), watch.NewFakeWithChanSize(10, false)
			answer(burst, "old", "5")
			gone := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "tls", UID: "old", ResourceVersion: "6"}}
			burst.Delete(gone)
			answer(read, "new", "9")
			watches := []*watch.FakeWatcher{burst, read}
			client := supported{fake.NewClientset()}
			client.PrependWatchReactor("secrets", func(clienttesting.Action) (bool, watch.Interface, error) {
				w := watches[0]
				watches = watches[1:]
				return true, w, nil
			})
			store := newStore(t, clients.FakeSecrets(client), objectcache.WatchOptions{})
			stop := runStore(t.Context(), t, store)
			store.AddReference(namespace, "tls", "pod")
			synctest.Wait()
			if got, err := store.Get(t.Context(), namespace, "tls"); err != nil || got.UID != "old" && got.UID != "new" {
				t.Errorf("got %v, %v, want the object of the first or of the second read", got, err)
			}
			stop()
		})
	}
}
