// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"

	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/objectcache/resource"
	"github.com/refwatch/refwatch/test/apiserver"
)

// The function blocks for many objects whose streams are opened again. That is no outage: those of others are opened
// beside them.
func TestTransformBlocksForManyObjects(t *testing.T) {
	logger := ktesting.NewLogger(ktesting.NopTL{}, ktesting.NewConfig(ktesting.BufferLogs(true), ktesting.Verbosity(2)))
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, apiserver.Options{InMemory: true}, objectcache.WatchOptions{})
		b := newBlocker(t, r, objectcache.WatchOptions{})
		r.stop = runStore(klog.NewContext(t.Context(), logger), t, r.Store)
		bad, others := prefixed("bad", 300), names(10)
		r.createAll(append(bad, others...)...)
		r.reference(append(bad, others...)...)
		time.Sleep(10 * time.Second)
		b.block("bad")
		r.server.CloseStreams(nil)
		for _, name := range others {
			r.update(name, "1")
		}
		time.Sleep(time.Second)
		r.wantValues("a second later", "1", others...)
		b.unblock()
		r.stop()
	})
	if log := logText(logger); strings.Contains(log, "Outage") {
		t.Errorf("got an outage in the log, want none: %s", log)
	}
}

func prefixed(prefix string, n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprint(prefix, i))
	}
	return all
}

// The function blocks in the reads of many objects whose streams have become silent. The silent streams of others are
// compared with lists, as promised.
func TestTransformBlocksForManySilentStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, apiserver.Options{InMemory: true, BookmarkInterval: 24 * time.Hour}, objectcache.WatchOptions{})
		b := newBlocker(t, r, objectcache.WatchOptions{})
		r.run()
		bad, others := prefixed("bad", 40), names(4)
		r.createAll(append(bad, others...)...)
		r.reference(append(bad, others...)...)
		time.Sleep(10 * time.Second)
		b.block("bad")
		time.Sleep(5 * time.Minute)
		r.server.Rewrite(apiserver.Rewriter{Event: func(context.Context, apiserver.Request, watch.Event) []watch.Event { return nil }})
		for _, name := range others {
			r.update(name, "1")
		}
		r.server.Rewrite(apiserver.Rewriter{})
		time.Sleep(4*time.Minute + 30*time.Second)
		r.wantValues("after four and a half minutes", "1", others...)
		b.unblock()
		r.stop()
	})
}

// A state is as old as the answer of the server, and not as its way through the function.
func TestTransformBlocksAndTheStateGetsOld(t *testing.T) {
	for name, lists := range map[string]bool{"an event": false, "a list": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, apiserver.Options{InMemory: true, DisableWatchList: lists}, objectcache.WatchOptions{})
				b := newBlocker(t, r, objectcache.WatchOptions{MaxStaleness: time.Minute})
				r.create("tls")
				r.run()
				if lists {
					b.block("tls")
				}
				r.AddReference(namespace, "tls", "pod")
				time.Sleep(10 * time.Second)
				b.block("tls")
				if !lists {
					r.update("tls", "1")
				}
				r.down.Store(&unavailable().ErrStatus)
				r.server.Intercept(func(_ context.Context, request apiserver.Request) *metav1.Status {
					return &unavailable().ErrStatus
				})
				r.server.CloseStreams(nil)
				time.Sleep(time.Hour)
				b.unblock()
				time.Sleep(time.Second)
				if got, err := r.get("tls", time.Second); err == nil {
					t.Errorf("got %v, which is an hour old, want an error", got)
				}
				r.stop()
			})
		})
	}
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
				bad := prefixed("bad", 1000)
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
