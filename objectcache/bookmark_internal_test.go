// SPDX-License-Identifier: Apache-2.0

package objectcache

import (
	"context"
	"math/rand/v2"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/workqueue"

	"github.com/refwatch/refwatch/objectcache/resource"
	"github.com/refwatch/refwatch/test/apiserver"
	"github.com/refwatch/refwatch/test/pushed"
)

// Bookmarks of a quiet object make its state younger, and reach no follower. The first one of a resource, which teaches
// their form, is decoded.
func TestBookmarksReachNoFollower(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := apiserver.New(t, apiserver.Options{InMemory: true, TLS: true})
		secrets := server.Client().CoreV1().Secrets(testKey.Namespace)
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: testKey.Name}}
		if _, err := secrets.Create(t.Context(), secret, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		client, err := kubernetes.NewForConfig(resource.ConfigFor(server.Config()))
		if err != nil {
			t.Fatal(err)
		}
		s, err := NewWatchStore(resource.Secrets(client), WatchOptions{})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- s.Run(ctx) }()
		s.AddReference(testKey.Namespace, testKey.Name, "pod")
		time.Sleep(90 * time.Second) // the first bookmark
		queue := workqueue.NewTyped[types.NamespacedName]()
		s.addSubscriber(queue)
		for queue.Len() > 0 { // the first state
			key, _ := queue.Get()
			queue.Done(key)
		}
		time.Sleep(10 * time.Minute)
		if got := queue.Len(); got != 0 {
			t.Error("a follower was notified of a bookmark")
		}
		if age := time.Since(s.contact(s.entry(testKey))); age > 90*time.Second {
			t.Errorf("the state is %v old, want a minute at most", age)
		}
		s.removeSubscriber(queue)
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// A Get that waits is woken by a bookmark: it may be what it waits for.
func TestBookmarkIsNotTakenFromAWaiter(t *testing.T) {
	s := newTestStore(t, WatchOptions{})
	s.AddReference(testKey.Namespace, testKey.Name, "pod")
	e := s.entry(testKey)
	w := e.watch.Load()
	for _, test := range []struct {
		when    string
		waiters int32
		watch   *objectWatch[*corev1.Secret]
		want    bool
	}{
		{"quiet", 0, w, true},
		{"a Get waits", 1, w, false},
		{"the watch was replaced", 0, nil, false},
	} {
		e.waiters.Store(test.waiters)
		e.watch.Store(test.watch)
		if got := w.TakeBookmark("7"); got != test.want {
			t.Errorf("%s: got %v, want %v", test.when, got, test.want)
		}
	}
	e.waiters.Store(0)
	e.watch.Store(w)
	s.DeleteReference(testKey.Namespace, testKey.Name, "pod")
	waitForBackground(s)
}

// A Get that demands a version returns when a bookmark brings it, whichever of the two comes first. A wake-up that was
// lost would cost 100 ms and another stream.
func TestBookmarkWakesAGet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inPushedStore(t, WatchOptions{}, func(s *WatchStore[*corev1.Secret], source *pushed.Server) {
			synctest.Wait()
			random := rand.New(rand.NewPCG(1, 2))
			for range 500 {
				_, server := source.Versions()
				version, began := strconv.Itoa(server+1), time.Now()
				var gets sync.WaitGroup
				for range 1 + random.IntN(3) {
					gets.Go(func() {
						if _, err := s.GetWithOptions(t.Context(), testKey.Namespace, testKey.Name, GetOptions{NotOlderThan: version}); err != nil {
							t.Error(err)
						}
					})
				}
				for range random.IntN(8) {
					runtime.Gosched()
				}
				source.Bookmark()
				gets.Wait()
				if took := time.Since(began); took > 0 || source.Opens() != 1 {
					t.Errorf("version %s: a Get took %v, and there were %d streams; want no time and one", version, took, source.Opens())
					break
				}
			}
		})
	})
}
