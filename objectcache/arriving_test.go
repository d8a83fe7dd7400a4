// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"bytes"
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/test/apiserver"
)

// A server never ends initial events, and GETs hang. A list follows, also if the object changes all the time.
func TestChangingObjectWithoutABookmark(t *testing.T) {
	for _, changes := range []bool{false, true} {
		t.Run(fmt.Sprint("changes ", changes), func(t *testing.T) {
			inBubble(t, objectcache.WatchOptions{}, func(t *testing.T, r *rig) {
				r.server.Rewrite(apiserver.Rewriter{Event: func(_ context.Context, _ apiserver.Request, e watch.Event) []watch.Event {
					if e.Type == watch.Bookmark {
						return nil
					}
					return []watch.Event{e}
				}})
				r.server.Intercept(func(ctx context.Context, request apiserver.Request) *metav1.Status {
					if request.Verb == "get" {
						<-ctx.Done()
					}
					return nil
				})
				r.create("tls")
				r.AddReference(namespace, "tls", "pod")
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan struct{})
				go func() {
					defer close(done)
					for i := 0; changes && ctx.Err() == nil; i++ {
						r.update("tls", fmt.Sprint(i))
						sleepFor(ctx, 5*time.Second)
					}
				}()
				r.mustGetWithin("tls", 17*time.Second)
				cancel()
				<-done
			})
		})
	}
}

// A large object has changed while its stream was down. The comparison is answered, and the answer to the list after it
// is lost. A part of the first answer is none of the second.
func TestComparisonBeforeALostAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, apiserver.Options{InMemory: true, DisableWatchList: true}, objectcache.WatchOptions{})
		r.padding = bytes.Repeat([]byte("x"), 500_000)
		r.run()
		r.create("tls")
		r.AddReference(namespace, "tls", "pod")
		r.mustGetWithin("tls", time.Minute)
		time.Sleep(time.Minute)
		var lists atomic.Int32
		r.server.Intercept(func(ctx context.Context, request apiserver.Request) *metav1.Status {
			if request.Verb == "get" || request.Verb == "list" && lists.Add(1) == 2 {
				<-ctx.Done()
			}
			return nil
		})
		r.server.CloseStreams(nil)
		r.update("tls", "new")
		time.Sleep(2 * time.Second)
		began := time.Now()
		if _, err := r.demandFor(4*time.Minute, "tls", objectcache.GetOptions{Live: true}); err != nil || time.Since(began) > 20*time.Second {
			t.Errorf("got %v after %v, want the object within 20 s", err, time.Since(began))
		}
		r.stop()
	})
}
