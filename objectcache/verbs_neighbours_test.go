// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/test/apiserver"
	"github.com/refwatch/refwatch/test/testmain"
)

// count returns how many of the objects have a stream of a type.
func (r *rig) count(of objectcache.StreamType, names []string) (n int) {
	r.t.Helper()
	for _, name := range names {
		if status, _ := r.Status(namespace, name); status.Stream == of {
			n++
		}
	}
	return n
}

// known creates objects, references them, and waits until they are known.
func (r *rig) known(prefix string, n int) (names []string) {
	r.t.Helper()
	for i := range n {
		names = append(names, fmt.Sprint(prefix, "-", i))
		r.create(names[i])
		r.AddReference(namespace, names[i], "pod")
	}
	time.Sleep(time.Minute)
	return names
}

// Objects that were polled by GETs have streams again, an hour after all works at the latest, however many there are.
func TestStreamsComeBackAfterGets(t *testing.T) {
	testmain.Long(t)
	for fault := range readFaults {
		for _, n := range []int{1, 4, 40} {
			t.Run(fmt.Sprintf("%s, %d objects", fault, n), func(t *testing.T) {
				inBubble(t, objectcache.WatchOptions{}, func(t *testing.T, r *rig) {
					names := r.known("tls", n)
					r.failVerbs(fault, fault, all)
					r.server.CloseStreams(nil)
					time.Sleep(20 * time.Minute)
					if got := r.count(objectcache.StreamPolled, names); got != n {
						t.Errorf("polled: got %d of %d objects", got, n)
					}
					r.server.Intercept(nil)
					for range 65 {
						if time.Sleep(time.Minute); r.count(objectcache.StreamNamed, names) == n {
							return
						}
					}
					t.Errorf("an hour after all works: %d of %d objects have streams", r.count(objectcache.StreamNamed, names), n)
				})
			})
		}
	}
}

// After an outage of all verbs streams are soon back, although GETs may work first.
func TestStreamsComeBackAfterAnOutage(t *testing.T) {
	testmain.Long(t)
	for fault, within := range map[string]time.Duration{"403": time.Minute, "500": 2 * time.Minute, "hangs": 10 * time.Minute} {
		for _, n := range []int{1, 20} {
			t.Run(fmt.Sprintf("%s, %d objects", fault, n), func(t *testing.T) {
				inBubble(t, objectcache.WatchOptions{}, func(t *testing.T, r *rig) {
					names := r.known("tls", n)
					for range 5 {
						r.server.Intercept(func(ctx context.Context, request apiserver.Request) *metav1.Status {
							return readFaults[fault](ctx)
						})
						r.server.CloseStreams(nil)
						time.Sleep(10 * time.Minute)
						r.server.Intercept(nil)
						time.Sleep(within)
						if got := r.count(objectcache.StreamNamed, names); got != n {
							t.Fatalf("%v after the outage: %d of %d objects have streams", within, got, n)
						}
						time.Sleep(time.Hour)
					}
				})
			})
		}
	}
}

// Objects that fail take no stream from others of their resource.
func TestHealthyObjectsBesideSickOnes(t *testing.T) {
	testmain.Long(t)
	for _, fault := range []string{"403", "500", "hangs"} {
		for _, n := range []int{2, 50} {
			t.Run(fmt.Sprintf("%s, %d sick", fault, n), func(t *testing.T) {
				inBubble(t, objectcache.WatchOptions{}, func(t *testing.T, r *rig) {
					r.known("sick", n)
					healthy := r.known("healthy", max(10, n))
					r.failVerbs(fault, fault, func(name string) bool { return strings.HasPrefix(name, "sick") })
					r.server.CloseStreams(nil)
					time.Sleep(time.Minute)
					polled := 0
					for range 90 { // streams end after half an hour
						time.Sleep(time.Minute)
						polled += r.count(objectcache.StreamPolled, healthy)
					}
					if polled > 0 {
						t.Errorf("healthy objects were polled for %d minutes together", polled)
					}
				})
			})
		}
	}
}

// A GET of a Get that waits overtakes one whose answer is late: the state does not go back.
func TestHedgedReadOvertakesAPollingGet(t *testing.T) {
	inBubble(t, objectcache.WatchOptions{}, func(t *testing.T, r *rig) {
		r.known("first", 1)
		r.failVerbs("500", "500", all)
		r.server.CloseStreams(nil)
		time.Sleep(5 * time.Minute)
		r.create("tls")
		var gets atomic.Int64
		r.server.Rewrite(apiserver.Rewriter{Object: func(_ context.Context, q apiserver.Request, object runtime.Object) runtime.Object {
			if q.Verb == "get" && q.Name == "tls" && gets.Add(1) == 1 {
				time.Sleep(500 * time.Millisecond)
			}
			return object
		}})
		r.AddReference(namespace, "tls", "pod")
		got := r.async(t.Context(), "tls")
		time.Sleep(time.Millisecond)
		r.update("tls", "new")
		<-got
		last := ""
		for range 3000 {
			time.Sleep(10 * time.Millisecond)
			object, err := r.TryGet(namespace, "tls")
			if err != nil || last == "new" && string(object.Data["password"]) != "new" {
				t.Fatalf("after %q: got %v, %v", last, object, err)
			}
			last = string(object.Data["password"])
		}
		if last != "new" {
			t.Errorf("got %q, want the newest object", last)
		}
	})
}

// The Retry-After of a request does not pace the GETs that take its place.
func TestRetryAfterDoesNotPaceGets(t *testing.T) {
	inBubble(t, objectcache.WatchOptions{}, func(t *testing.T, r *rig) {
		r.known("tls", 1)
		var gets atomic.Int64
		r.server.Intercept(func(_ context.Context, request apiserver.Request) *metav1.Status {
			switch request.Verb {
			case "get":
				gets.Add(1)
			case "list", "watch":
				return &apierrors.NewTooManyRequests("", 60).ErrStatus
			}
			return nil
		})
		r.server.CloseStreams(nil)
		time.Sleep(15 * time.Minute)
		gets.Store(0)
		time.Sleep(10 * time.Minute)
		if got := gets.Load(); got < 40 {
			t.Errorf("GETs in 10 minutes: got %d, want one every 15 s", got)
		}
	})
}

// A Get that demands a write of its own learns that the object was deleted after it: an absence by GET has no version.
func TestNotOlderThanOfAPolledObject(t *testing.T) {
	inBubble(t, objectcache.WatchOptions{}, func(t *testing.T, r *rig) {
		name := r.known("tls", 1)[0]
		r.failVerbs("500", "500", all)
		r.server.CloseStreams(nil)
		time.Sleep(5 * time.Minute)
		written := r.update(name, "x")
		r.remove(name)
		got, err := r.demand(name, objectcache.GetOptions{NotOlderThan: written.ResourceVersion})
		if !apierrors.IsNotFound(err) {
			t.Errorf("got %v, %v, want NotFound", got, err)
		}
	})
}

// GETs that fail, whatever with, give way to lists and WatchLists that work again, also after GETs were what worked.
func TestGetsFailAndOthersHeal(t *testing.T) {
	for name, answer := range map[string]*apierrors.StatusError{
		"401": apierrors.NewUnauthorized("no"), "403": forbidden(), "500": apierrors.NewInternalError(fmt.Errorf("no")),
	} {
		for _, worked := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, worked before %v", name, worked), func(t *testing.T) {
				inBubble(t, objectcache.WatchOptions{}, func(t *testing.T, r *rig) {
					r.create("tls")
					r.AddReference(namespace, "tls", "pod")
					if worked {
						r.failVerbs("500", "500", all)
						r.server.CloseStreams(nil)
						time.Sleep(2 * time.Hour)
					}
					var healed atomic.Bool
					r.server.Intercept(func(_ context.Context, request apiserver.Request) *metav1.Status {
						switch {
						case request.Verb == "get":
							return &answer.ErrStatus
						case request.Verb != "update" && !healed.Load():
							return &unavailable().ErrStatus
						}
						return nil
					})
					r.server.CloseStreams(nil)
					time.Sleep(10 * time.Minute)
					healed.Store(true)
					r.update("tls", "new")
					r.freshWithin(3*time.Minute, "new", "tls")
				})
			})
		}
	}
}
