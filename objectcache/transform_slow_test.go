// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/objectcache/resource"
	"github.com/refwatch/refwatch/test/apiserver"
)

// A Get returns what it has asked for, although the function takes longer than the state may be old.
func TestTransformIsSlowerThanMaxStaleness(t *testing.T) {
	for name, of := range map[string]struct {
		store objectcache.WatchOptions
		get   objectcache.GetOptions
	}{
		"of the store": {store: objectcache.WatchOptions{MaxStaleness: 2 * time.Second}},
		"of the Get":   {get: objectcache.GetOptions{MaxStaleness: 2 * time.Second}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, apiserver.Options{InMemory: true}, objectcache.WatchOptions{})
				var calls atomic.Int32
				r.Store = newStore(t, resource.Secrets(clientOf(t, r.server)).WithTransform(func(s *corev1.Secret) *corev1.Secret {
					calls.Add(1)
					time.Sleep(3 * time.Second)
					return s
				}), of.store)
				r.create("tls")
				r.run()
				r.AddReference(namespace, "tls", "pod")
				for range 3 {
					before, began := calls.Load(), time.Now()
					ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
					_, err := r.GetWithOptions(ctx, namespace, "tls", of.get)
					cancel()
					if got := calls.Load() - before; err != nil || got > 3 || time.Since(began) > 10*time.Second {
						t.Errorf("got %v after %v and %d calls, want the object after 10 s and 3 calls at most", err, time.Since(began), got)
					}
					time.Sleep(time.Minute)
				}
				r.stop()
			})
		})
	}
}

// Many Gets wait for the function, which blocks for the first object: no GETs are sent beside streams that the server
// has answered.
func TestNoGetsBesideTransform(t *testing.T) {
	for name, test := range map[string]struct {
		fails bool
		n     int
	}{"it is slow": {false, fewer(1000)}, "it fails for others": {true, fewer(1000)}, "of one object": {false, 1}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, apiserver.Options{InMemory: true}, objectcache.WatchOptions{})
				r.Store = newStore(t, resource.Secrets(clientOf(t, r.server)).WithTransform(func(s *corev1.Secret) *corev1.Secret {
					if test.fails && s.Name != "s0" {
						return nil
					}
					time.Sleep(10 * time.Second)
					return s
				}), objectcache.WatchOptions{})
				gets := r.slowOpenings(0)
				r.run()
				all := names(test.n)
				r.createAll(all...)
				r.reference(all...)
				var waiting sync.WaitGroup
				for _, name := range all {
					waiting.Go(func() {
						if _, err := r.get(name, 20*time.Second); test.fails == (err == nil) && name != "s0" {
							t.Errorf("%s: got %v", name, err)
						}
					})
				}
				waiting.Wait()
				if got := gets.Load(); got > 0 {
					t.Errorf("got %d GETs, want none", got)
				}
				r.stop()
			})
		})
	}
}

// A function may return an object that others read: no store writes to it.
func TestTransformReturnsASharedObject(t *testing.T) {
	var shared atomic.Pointer[corev1.Secret]
	returnShared := func(s *corev1.Secret) *corev1.Secret {
		s.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "test"}}
		shared.Store(s)
		return s
	}
	check := func(t *testing.T, when string) {
		t.Helper()
		if got := shared.Load(); got == nil || len(got.ManagedFields) != 1 {
			t.Errorf("%s: got %v, want the object as the function has returned it", when, got)
		}
	}
	withTransform(t, returnShared, func(t *testing.T, r *rig, _ bool) {
		r.create("tls")
		r.AddReference(namespace, "tls", "pod")
		r.mustGet("tls")
		check(t, "a read")
		r.update("tls", "1")
		synctest.Wait()
		check(t, "an event")
	})
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, apiserver.Options{InMemory: true}, objectcache.WatchOptions{})
		secrets := resource.Secrets(clientOf(t, r.server)).WithTransform(returnShared)
		store, err := objectcache.NewTTLStore(secrets, objectcache.TTLOptions{})
		if err != nil {
			t.Fatal(err)
		}
		stop := runStore(t.Context(), t, store)
		r.create("tls")
		store.AddReference(namespace, "tls", "pod")
		if _, err := store.Get(t.Context(), namespace, "tls"); err != nil {
			t.Error(err)
		}
		check(t, "a GET")
		stop()
	})
}

// The function fails for many objects. They cost no more requests than objects that the server refuses.
func TestTransformFailsForManyObjects(t *testing.T) {
	for name, lists := range map[string]bool{"WatchLists": false, "lists": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, apiserver.Options{InMemory: true, DisableWatchList: lists}, objectcache.WatchOptions{})
				r.Store = newStore(t, resource.Secrets(clientOf(t, r.server)).WithTransform(func(*corev1.Secret) *corev1.Secret {
					time.Sleep(3 * time.Second) // as a stream that lasts
					return nil
				}), objectcache.WatchOptions{})
				var requests atomic.Int64
				r.server.Intercept(func(_ context.Context, request apiserver.Request) *metav1.Status {
					if request.Verb == "list" || request.Verb == "watch" {
						requests.Add(1)
					}
					return nil
				})
				r.run()
				bad := prefixed("bad", fewer(1000))
				r.createAll(bad...)
				r.reference(bad...)
				time.Sleep(10 * time.Second)
				before := requests.Load()
				time.Sleep(time.Minute)
				if got := requests.Load() - before; got < 100 || got > 21*60 {
					t.Errorf("got %d requests in a minute, want 100 to 20 a second", got)
				}
				r.stop()
			})
		})
	}
}
