// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/test/apiserver"
	"github.com/refwatch/refwatch/test/testmain"
)

// When all connections break beside a tenth of the objects, for which no verb works and Gets wait, the others soon have
// streams again.
func TestHealthyObjectsWhoseConnectionsBreak(t *testing.T) {
	testmain.Long(t)
	for _, fault := range []string{"429", "500", "hangs"} {
		for _, n := range []int{10, 100} {
			if n > 10 && testmain.Race {
				continue // it takes long
			}
			t.Run(fmt.Sprintf("%s, %d sick", fault, n), func(t *testing.T) {
				withLines(t, objectcache.WatchOptions{OutageGrace: -1}, func(t *testing.T, r *lineRig) {
					r.server.Intercept(func(ctx context.Context, request apiserver.Request) *metav1.Status {
						if strings.HasPrefix(request.Name, "sick") && request.Verb != "create" {
							return readFaults[fault](ctx)
						}
						sleepFor(ctx, 200*time.Millisecond) // those that fail are answered first
						return nil
					})
					healthy := r.known("healthy", 9*n)
					ctx, cancel := context.WithCancel(t.Context())
					var gets sync.WaitGroup
					for _, name := range r.known("sick", n) {
						gets.Go(func() {
							for ctx.Err() == nil {
								_, _ = r.Get(ctx, namespace, name)
								sleepFor(ctx, 100*time.Millisecond)
							}
						})
					}
					for i := range 3 {
						time.Sleep(time.Minute)
						r.closeConnections()
						time.Sleep(30 * time.Second)
						if got := r.count(objectcache.StreamNamed, healthy); got != 9*n {
							t.Errorf("break %d: %d of %d healthy objects have streams after half a minute", i, got, 9*n)
						}
					}
					cancel()
					gets.Wait()
				})
			})
		}
	}
}

// Objects whose lists and watches are throttled for good are polled by GETs, also if many others of the resource keep
// the streams that they have.
func TestThrottledObjectsBesideOpenStreams(t *testing.T) {
	testmain.Long(t)
	for _, test := range []struct{ kept, cut int }{{30, 20}, {160, 100}, {160, 300}} {
		t.Run(fmt.Sprintf("%d kept, %d cut", test.kept, test.cut), func(t *testing.T) {
			inBubble(t, objectcache.WatchOptions{}, func(t *testing.T, r *rig) {
				r.known("kept", test.kept)
				names := r.known("cut", test.cut)
				r.failVerbs("429", "429", all)
				r.server.CloseStreams(func(request apiserver.Request) bool { return strings.HasPrefix(request.Name, "cut") })
				for _, name := range names {
					r.update(name, "new")
				}
				r.freshWithin(5*time.Minute, "new", names...)
				r.update(names[0], "live")
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				if _, err := r.GetWithOptions(ctx, namespace, names[0], objectcache.GetOptions{Live: true}); err != nil {
					t.Errorf("a live Get: %v", err)
				}
			})
		})
	}
}

// A Retry-After that was honored is not honored once more because the GET after it is refused.
func TestRefusedGetAfterARetryAfter(t *testing.T) {
	inBubble(t, objectcache.WatchOptions{}, func(t *testing.T, r *rig) {
		r.known("tls", 1)
		var throttled, refused, next time.Time
		var mu sync.Mutex
		r.server.Intercept(func(_ context.Context, request apiserver.Request) *metav1.Status {
			mu.Lock()
			defer mu.Unlock()
			switch {
			case request.Verb == "get" && refused.IsZero():
				refused = time.Now()
				return &forbidden().ErrStatus
			case !refused.IsZero() && next.IsZero():
				next = time.Now()
			case refused.IsZero():
				throttled = time.Now()
				return &apierrors.NewTooManyRequests("", 20).ErrStatus
			}
			return nil
		})
		r.server.CloseStreams(nil)
		time.Sleep(3 * time.Minute)
		mu.Lock()
		defer mu.Unlock()
		if refused.IsZero() || refused.Sub(throttled) < 20*time.Second || next.IsZero() || next.Sub(refused) > 18*time.Second {
			t.Errorf("throttled at %v, a GET refused at %v, the next request at %v: want 20 s or more, and 18 s at most", throttled, refused, next)
		}
	})
}

// Lists and watches of all known objects begin to fail at once, and GETs work. A Get that waits then is answered soon:
// one with Live, and one of a new name. Each probe of the outage is one request of another object.
func TestGetsAsAllRequestsBeginToFail(t *testing.T) {
	for _, n := range []int{2, 30, 100} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			inBubble(t, objectcache.WatchOptions{}, func(t *testing.T, r *rig) {
				for i := range n {
					r.referenced(fmt.Sprint("tls-", i))
				}
				time.Sleep(time.Minute)
				r.failVerbs("500", "500", all)
				r.server.CloseStreams(nil)
				r.update("tls-0", "new")
				began := time.Now()
				got, err := r.GetWithOptions(t.Context(), namespace, "tls-0", objectcache.GetOptions{Live: true})
				if took := time.Since(began); err != nil || valueOf(got) != "new" || took > 5*time.Second {
					t.Errorf("a live Get: got %q, %v after %v, want new within 5 s", valueOf(got), err, took)
				}
				r.create("first")
				r.AddReference(namespace, "first", "pod")
				r.mustGetWithin("first", 5*time.Second)
			})
		})
	}
}
