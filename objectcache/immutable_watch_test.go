// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/test/clients"
)

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
