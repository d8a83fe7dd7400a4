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

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

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
	for _, fault := range []string{"403", "429", "500", "hangs"} {
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

// An object whose lists and watches work again has a stream an hour later at the latest, although those of others do
// not, and it was among the first that failed.
func TestHealedObjectBesideSickOnes(t *testing.T) {
	inBubble(t, objectcache.WatchOptions{}, func(t *testing.T, r *rig) {
		r.known("first", 3)
		r.known("other", 7)
		reads := r.failVerbs("500", "500", all)
		closeStreams := func(prefix string) {
			r.server.CloseStreams(func(request apiserver.Request) bool { return strings.HasPrefix(request.Name, prefix) })
		}
		closeStreams("first")
		time.Sleep(time.Minute)
		closeStreams("other")
		time.Sleep(20 * time.Minute)
		if got := r.count(objectcache.StreamPolled, []string{"first-0", "other-0"}); got != 2 || reads.Load() == 0 {
			t.Fatalf("got %d polled objects of two, and %d reads", got, reads.Load())
		}
		r.failVerbs("500", "500", func(name string) bool { return name != "first-0" })
		for range 62 {
			if time.Sleep(time.Minute); r.count(objectcache.StreamNamed, []string{"first-0"}) == 1 {
				return
			}
		}
		t.Error("the object has no stream an hour after it was well")
	})
}

// A GET of a Get that waits overtakes one whose answer is late: the state does not go back.
func TestHedgedReadOvertakesAPollingGet(t *testing.T) {
	for _, late := range []time.Duration{500 * time.Millisecond, 4 * time.Second} {
		t.Run(late.String(), func(t *testing.T) { testHedgedReadOvertakesAPollingGet(t, late) })
	}
}

func testHedgedReadOvertakesAPollingGet(t *testing.T, late time.Duration) {
	inBubble(t, objectcache.WatchOptions{}, func(t *testing.T, r *rig) {
		r.known("first", 2) // so the resource is read with GETs
		r.failVerbs("500", "500", all)
		r.server.CloseStreams(nil)
		time.Sleep(5 * time.Minute)
		r.create("tls")
		var gets atomic.Int64
		r.server.Rewrite(apiserver.Rewriter{Object: func(_ context.Context, q apiserver.Request, object runtime.Object) runtime.Object {
			if q.Verb == "get" && q.Name == "tls" && gets.Add(1) == 1 {
				time.Sleep(late)
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

// A GET that found the object deleted is dropped, because a hedged read beside it brought the object. It does not
// count: a Get with Live that began after the deletion waits for another one.
func TestLiveGetBesideAHedgedRead(t *testing.T) {
	inBubble(t, objectcache.WatchOptions{}, func(t *testing.T, r *rig) {
		r.create("tls")
		var gets atomic.Int64
		r.server.Intercept(func(_ context.Context, request apiserver.Request) *metav1.Status {
			switch request.Verb {
			case "watch":
				return &metav1.Status{Status: metav1.StatusFailure, Code: 501, Reason: metav1.StatusReasonMethodNotAllowed}
			case "list":
				time.Sleep(time.Second)
				return &apierrors.NewInternalError(fmt.Errorf("no")).ErrStatus
			case "get":
				if gets.Add(1) == 2 {
					time.Sleep(1500 * time.Millisecond)
				}
			}
			return nil
		})
		r.server.Rewrite(apiserver.Rewriter{Object: func(_ context.Context, q apiserver.Request, object runtime.Object) runtime.Object {
			if q.Verb == "get" && gets.Load() == 1 {
				time.Sleep(2 * time.Second)
			}
			return object
		}})
		r.AddReference(namespace, "tls", "pod")
		got := r.async(t.Context(), "tls")
		time.Sleep(500 * time.Millisecond)
		r.remove("tls")
		time.Sleep(100 * time.Millisecond)
		if object, err := r.demand("tls", objectcache.GetOptions{Live: true}); !apierrors.IsNotFound(err) {
			t.Errorf("a live Get after the deletion: got %v, %v, want NotFound", object, err)
		}
		<-got
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

// Some servers at the edge answer with lists and bookmarks that have no version, or "0". Nothing is known of their
// order, so they do not count, and GETs take their place: what is absent is reported so, and what changes is noticed.
func TestListsWithoutAVersion(t *testing.T) {
	for _, version := range []string{"", "0"} {
		t.Run(fmt.Sprintf("%q", version), func(t *testing.T) {
			inBubble(t, objectcache.WatchOptions{}, func(t *testing.T, r *rig) {
				r.server.Rewrite(apiserver.Rewriter{
					Object: func(_ context.Context, request apiserver.Request, object runtime.Object) runtime.Object {
						if list, err := meta.ListAccessor(object); err == nil && request.Verb == "list" {
							list.SetResourceVersion(version)
						}
						return object
					},
					Event: func(_ context.Context, _ apiserver.Request, event watch.Event) []watch.Event {
						if header, err := meta.Accessor(event.Object); err == nil && event.Type == watch.Bookmark {
							header.SetResourceVersion(version)
						}
						return []watch.Event{event}
					},
				})
				r.create("tls")
				for _, name := range []string{"tls", "absent"} {
					r.AddReference(namespace, name, "pod")
				}
				r.mustGetWithin("tls", 10*time.Second)
				if got, err := r.get("absent", 10*time.Second); !apierrors.IsNotFound(err) {
					t.Errorf("absent: got %v, %v, want NotFound", got, err)
				}
				status, _ := r.Status(namespace, "absent")
				if status.Phase != objectcache.PhaseAbsent || status.Stream != objectcache.StreamPolled || status.LastError == nil {
					t.Errorf("absent: got %+v, want that it is absent, is polled, and why", status)
				}
				for i := range 10 {
					r.update("tls", fmt.Sprint(i))
					r.freshWithin(20*time.Second, fmt.Sprint(i), "tls")
					time.Sleep(10 * time.Minute)
				}
			})
		})
	}
}

// If the server refuses list and watch, before or after a GET has brought the first state, GETs bring the changes.
func TestHedgedReadWhoseStreamIsRefused(t *testing.T) {
	for _, refused := range []time.Duration{0, 4 * time.Millisecond, 50 * time.Millisecond} {
		t.Run(refused.String(), func(t *testing.T) {
			inBubble(t, objectcache.WatchOptions{}, func(t *testing.T, r *rig) {
				r.create("tls")
				r.server.Intercept(func(ctx context.Context, request apiserver.Request) *metav1.Status {
					if request.Verb == "get" {
						sleepFor(ctx, 2*time.Millisecond)
						return nil
					}
					if request.Verb == "update" {
						return nil
					}
					sleepFor(ctx, refused)
					return &forbidden().ErrStatus
				})
				r.AddReference(namespace, "tls", "pod")
				r.mustGetWithin("tls", 5*time.Second)
				for i := range 10 {
					r.update("tls", fmt.Sprint(i))
					time.Sleep(20 * time.Second)
					r.wantValue("when list and watch are refused", "tls", fmt.Sprint(i))
				}
				status, _ := r.Status(namespace, "tls")
				if status.Phase != objectcache.PhaseServing || status.Stream != objectcache.StreamPolled || !apierrors.IsForbidden(status.LastError) {
					t.Errorf("status: got %+v, want an object that is served, is polled, and the refusal", status)
				}
				r.server.Intercept(nil)
				time.Sleep(10 * time.Minute)
				if status, _ = r.Status(namespace, "tls"); status.Stream != objectcache.StreamNamed {
					t.Errorf("when all is allowed: got %+v, want a stream", status)
				}
				r.update("tls", "new")
				synctest.Wait()
				r.wantValue("when it is allowed", "tls", "new")
			})
		})
	}
}
