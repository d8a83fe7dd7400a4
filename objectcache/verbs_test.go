// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/test/apiserver"
	"github.com/refwatch/refwatch/test/testmain"
)

// readFaults are how requests for the state fail for good.
var readFaults = map[string]func(context.Context) *metav1.Status{
	"400": func(context.Context) *metav1.Status { return &apierrors.NewBadRequest("no").ErrStatus },
	"403": func(context.Context) *metav1.Status { return &forbidden().ErrStatus },
	"429": func(context.Context) *metav1.Status { return &apierrors.NewTooManyRequests("", 1).ErrStatus },
	"500": func(context.Context) *metav1.Status {
		return &apierrors.NewInternalError(fmt.Errorf("cannot decrypt")).ErrStatus
	},
	"hangs": func(ctx context.Context) *metav1.Status { <-ctx.Done(); return nil },
}

// failVerbs makes lists and watches of names that match fail for good, each in its way. With "403|hangs", half of the
// names meet each. It counts the reads.
func (r *rig) failVerbs(list, watch string, matches func(name string) bool) (reads *atomic.Int64) {
	reads = &atomic.Int64{}
	var mu sync.Mutex
	random := rand.New(rand.NewPCG(1, 0))
	r.server.Intercept(func(ctx context.Context, request apiserver.Request) *metav1.Status {
		fault := ""
		switch request.Verb {
		case "list":
			fault = list
		case "watch":
			fault = watch
		case "get":
		default:
			return nil
		}
		mu.Lock()
		well := r.halfSick && random.Uint64()%2 == 0
		mu.Unlock()
		reads.Add(1)
		if one, other, ok := strings.Cut(fault, "|"); ok {
			if fault = one; request.Name[len(request.Name)-1]%2 == 1 {
				fault = other
			}
		}
		sleepFor(ctx, r.delay)
		if fail := readFaults[fault]; fail != nil && matches(request.Name) && !well {
			return fail(ctx)
		}
		return nil
	})
	return reads
}

func all(string) bool { return true }

// readable returns within which time a state is fresh if nobody waits, and if a Get with Live does.
func readable(list, watch string) (fresh, live time.Duration) {
	fresh, live = 3*time.Minute, 5*time.Second
	if strings.Contains(list+watch, "hangs") {
		live = time.Minute
	}
	if list == "429" || watch == "429" { // GETs begin when they have been throttled for 30 s
		live = max(live, 45*time.Second)
	}
	return fresh, live
}

// Lists and watches fail for good, each in its way, and GETs work, for one object: it is served, and stays fresh, also
// beside others that are well. A Get with Live is answered. When all works again, it has a stream. Under each condition
// it is so, too.
func TestGetsWorkAlone(t *testing.T) {
	testmain.Long(t)
	for list := range readFaults {
		for watch := range readFaults {
			for _, known := range []bool{true, false} {
				for _, others := range []bool{true, false} {
					for condition, c := range conditions {
						if condition != "" && (list != watch || others) {
							continue
						}
						name := fmt.Sprintf("list %s, watch %s, known %v, others %v, %s", list, watch, known, others, condition)
						t.Run(name, func(t *testing.T) {
							inBubble(t, objectcache.WatchOptions{}, func(t *testing.T, r *rig) {
								testGetsWorkAlone(t, r, list, watch, known, others, c)
							})
						})
					}
				}
			}
		}
	}
}

// freshWithin waits until objects have a value, and fails if that takes longer.
func (r *rig) freshWithin(limit time.Duration, value string, names ...string) {
	r.t.Helper()
	began := time.Now()
	for time.Since(began) < limit {
		stale := 0
		for _, name := range names {
			if got, err := r.TryGet(namespace, name); err != nil || string(got.Data["password"]) != value {
				stale++
			}
		}
		if stale == 0 {
			return
		}
		time.Sleep(time.Second)
	}
	stale := 0
	for _, name := range names {
		if got, err := r.TryGet(namespace, name); err != nil || string(got.Data["password"]) != value {
			if stale++; stale == 1 {
				status, _ := r.Status(namespace, name)
				r.t.Errorf("%s: got %v, %v, want %q within %v; status %+v", name, got, err, value, limit, status)
			}
		}
	}
	r.t.Fatalf("%d of %d objects are not %q after %v", stale, len(names), value, limit)
}

// The same for 1,000 objects, which share 20 attempts a second, beside one whose stream stays open.
func TestGetsWorkAloneForMany(t *testing.T) {
	testmain.Long(t)
	for _, fault := range []string{"500", "403", "429", "hangs", "403|hangs"} {
		for _, known := range []bool{true, false} {
			for condition, c := range conditions {
				switch { // each cell takes seconds
				case fault == "403|hangs" && condition != "answers 8 s late":
					continue
				case condition == "" && (known || fault == "500"):
				case condition == "answers 8 s late" && known && fault != "429":
				case condition != "" && condition != "100 kB" && known && fault == "500":
				default:
					continue
				}
				t.Run(fmt.Sprintf("%s, known %v, %s", fault, known, condition), func(t *testing.T) {
					inBubble(t, objectcache.WatchOptions{}, func(t *testing.T, r *rig) { testGetsWorkAloneForMany(t, r, fault, known, c) })
				})
			}
		}
	}
}

func testGetsWorkAloneForMany(t *testing.T, r *rig, fault string, known bool, c condition) {
	defer c.begin(r)()
	var names []string
	for i := range 1000 {
		names = append(names, fmt.Sprint("tls-", i))
		r.create(names[i])
	}
	refer := func() {
		for _, name := range names {
			r.AddReference(namespace, name, "pod")
		}
	}
	if known {
		refer()
		time.Sleep(time.Minute + c.later)
	}
	r.create("well")
	r.AddReference(namespace, "well", "pod")
	r.mustGetWithin("well", 5*time.Second+c.later)
	sick := func(name string) bool { return name != "well" }
	reads := r.failVerbs(fault, fault, sick)
	r.server.CloseStreams(func(request apiserver.Request) bool { return sick(request.Name) })
	for _, name := range names {
		r.update(name, "one")
	}
	if !known {
		refer()
	}
	r.freshWithin(5*time.Minute+2*c.later, "one", names...)
	time.Sleep(10 * time.Minute)
	for _, name := range names {
		r.update(name, "two")
	}
	before := reads.Load()
	r.freshWithin(5*time.Minute+2*c.later, "two", names...)
	time.Sleep(5 * time.Minute)
	if got := reads.Load() - before; got > 75_000/6 {
		t.Errorf("got %d requests in 10 minutes or less, want %d at most", got, 75_000/6)
	}
	_, live := readable(fault, fault)
	live += c.later
	r.update("tls-7", "live")
	ctx, cancel := context.WithTimeout(t.Context(), live)
	defer cancel()
	if got, err := r.GetWithOptions(ctx, namespace, "tls-7", objectcache.GetOptions{Live: true}); err != nil || string(got.Data["password"]) != "live" {
		t.Errorf("a live Get: got %v, %v within %v", got, err, live)
	}
	r.create("new")
	r.AddReference(namespace, "new", "pod")
	r.mustGetWithin("new", live)
}

// A new reference that a Get waits for is served by a GET, where lists and watches fail at once: also the first one of
// a store, and with a Role that has only the verb get.
func TestFirstGetWhereGetsWorkAlone(t *testing.T) {
	for _, fault := range []string{"400", "403", "500"} {
		for condition, c := range conditions {
			t.Run(fault+" "+condition, func(t *testing.T) {
				inBubble(t, objectcache.WatchOptions{}, func(t *testing.T, r *rig) {
					defer c.begin(r)()
					r.create("tls")
					r.failVerbs(fault, fault, all)
					r.AddReference(namespace, "tls", "pod")
					r.mustGetWithin("tls", 5*time.Second+c.later)
				})
			})
		}
	}
}

// GETs do not take the place of requests that are throttled now and then, and their Retry-After is honored.
func TestNoGetsForThrottledRequests(t *testing.T) {
	inBubble(t, objectcache.WatchOptions{}, func(t *testing.T, r *rig) {
		var gets, until atomic.Int64
		r.server.Intercept(func(_ context.Context, request apiserver.Request) *metav1.Status {
			switch {
			case request.Verb == "get":
				gets.Add(1)
			case time.Now().UnixNano() < until.Load():
				return &apierrors.NewTooManyRequests("", 1).ErrStatus
			}
			return nil
		})
		for i := range 20 {
			name := fmt.Sprint("tls-", i)
			r.AddReference(namespace, name, "pod")
		}
		time.Sleep(time.Minute)
		for range 50 {
			until.Store(time.Now().Add(25 * time.Second).UnixNano())
			r.server.CloseStreams(nil)
			time.Sleep(5 * time.Minute)
		}
		if got := gets.Load(); got > 0 {
			t.Errorf("got %d GETs, want none", got)
		}
	})
}

// Absent and deleted objects are so, too, and a list that lags behind the last GET brings nothing back.
func TestGetsOfAnAbsentObject(t *testing.T) {
	inBubble(t, objectcache.WatchOptions{}, func(t *testing.T, r *rig) {
		r.create("tls")
		r.AddReference(namespace, "tls", "pod")
		r.AddReference(namespace, "absent", "pod")
		time.Sleep(time.Minute)
		r.failVerbs("500", "500", all)
		r.server.CloseStreams(nil)
		time.Sleep(5 * time.Minute)
		r.server.Lag(20 * time.Minute)
		r.remove("tls")
		r.create("absent")
		time.Sleep(time.Minute)
		check := func(when string) {
			t.Helper()
			if got, err := r.TryGet(namespace, "tls"); !apierrors.IsNotFound(err) {
				t.Errorf("%s: got %v, %v, want NotFound", when, got, err)
			}
			if _, err := r.TryGet(namespace, "absent"); err != nil {
				t.Errorf("%s: got %v, want the object", when, err)
			}
		}
		check("by GETs")
		r.server.Intercept(nil)
		for range 60 {
			time.Sleep(time.Minute)
			check("when all works again")
		}
	})
}

// A restore of etcd during the GETs is noticed by a GET, or by what works then: the older object is the state.
func TestRestoreWhileGetsWorkAlone(t *testing.T) {
	for name, test := range map[string]struct{ updated, mended bool }{"": {}, "updated": {updated: true}, "mended": {mended: true}} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, objectcache.WatchOptions{}, func(t *testing.T, r *rig) {
				r.create("tls")
				r.AddReference(namespace, "tls", "pod")
				time.Sleep(time.Minute)
				r.failVerbs("500", "500", all)
				r.server.CloseStreams(nil)
				backup := r.server.Snapshot()
				for i := range 10 {
					r.update("tls", fmt.Sprint(i))
				}
				r.freshWithin(3*time.Minute, "9", "tls")
				r.server.Restore(backup)
				want := canary
				if test.updated {
					want = "new"
					r.update("tls", want)
				}
				if test.mended {
					gets := r.failGets()
					time.Sleep(time.Hour)
					if gets.Load() == 0 {
						t.Error("got no GET, want that a list follows one")
					}
				}
				r.freshWithin(3*time.Minute, want, "tls")
				r.server.Intercept(nil)
				time.Sleep(time.Hour)
				r.wantValue("when all works again", "tls", want)
				r.update("tls", "last")
				synctest.Wait()
				r.wantValue("by the stream", "tls", "last")
			})
		})
	}
}

// failGets makes GETs fail, and all else work. It counts them.
func (r *rig) failGets() (gets *atomic.Int64) {
	gets = &atomic.Int64{}
	r.server.Intercept(func(_ context.Context, request apiserver.Request) *metav1.Status {
		if request.Verb == "get" {
			gets.Add(1)
			return &unavailable().ErrStatus
		}
		return nil
	})
	return gets
}

// A caller without the right to GETs learns why lists and watches fail, and no GET is sent again and again.
func TestGetsAreRefused(t *testing.T) {
	inBubble(t, objectcache.WatchOptions{}, func(t *testing.T, r *rig) {
		var gets atomic.Int64
		var mu sync.Mutex
		r.server.Intercept(func(_ context.Context, request apiserver.Request) *metav1.Status {
			mu.Lock()
			defer mu.Unlock()
			switch request.Verb {
			case "get":
				gets.Add(1)
				return &apierrors.NewForbidden(corev1.Resource("secrets"), request.Name, fmt.Errorf("no get")).ErrStatus
			case "list", "watch":
				return &apierrors.NewInternalError(fmt.Errorf("cannot decrypt")).ErrStatus
			}
			return nil
		})
		r.AddReference(namespace, "alone", "pod")
		for range 600 {
			time.Sleep(100 * time.Millisecond)
			if status, _ := r.Status(namespace, "alone"); status.LastError != nil && !apierrors.IsInternalError(status.LastError) {
				t.Fatalf("alone: the last error is %v, want the failure of lists and watches", status.LastError)
			}
		}
		for range 20 {
			if _, err := r.get("alone", time.Minute); !apierrors.IsInternalError(err) || apierrors.IsForbidden(err) {
				t.Fatalf("alone: got %v, want the failure of lists and watches", err)
			}
		}
		gets.Store(0)
		for i := range 100 {
			r.AddReference(namespace, fmt.Sprint("tls-", i), "pod")
		}
		for range 60 {
			time.Sleep(time.Minute)
			if _, err := r.get("tls-7", time.Second); !apierrors.IsInternalError(err) || apierrors.IsForbidden(err) {
				t.Fatalf("got %v, want the failure of lists and watches", err)
			}
		}
		if got := gets.Load(); got > 100 {
			t.Errorf("got %d GETs, want about one of each object at most", got)
		}
	})
}
