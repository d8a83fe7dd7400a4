// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/test/apiserver"
)

// crowd creates and references objects.
func (r *rig) crowd(count int) (names []string) {
	for i := range count {
		names = append(names, fmt.Sprint("tls-", i))
		r.create(names[i])
		r.AddReference(namespace, names[i], "pod")
	}
	return names
}

// slowestOf gets all objects at the same time, and returns how long the slowest took.
func (r *rig) slowestOf(names []string) (slowest time.Duration) {
	var mu sync.Mutex
	var gets sync.WaitGroup
	began := time.Now()
	for _, name := range names {
		gets.Go(func() {
			_, err := r.get(name, time.Minute)
			mu.Lock()
			defer mu.Unlock()
			slowest = max(slowest, time.Since(began))
			if err != nil {
				r.t.Errorf("Get %s: %v", name, err)
			}
		})
	}
	gets.Wait()
	return slowest
}

// Of many objects most hang or fail. They delay the others only at first, however
// many Gets ask for them, and cause few requests.
func TestTTLBadNeighboursDelayNobody(t *testing.T) {
	crowd(t)
	manyStreams(t)
	hang := func(ctx context.Context) *metav1.Status { <-ctx.Done(); return nil }
	fail := func(context.Context) *metav1.Status { return &unavailable().ErrStatus }
	tests := map[string]struct {
		answer func(context.Context) *metav1.Status
		count  int
		bad    int           // of ten
		first  time.Duration // until the others are read again, behind the first attempts of the bad ones
	}{
		"9 of 10 hang": {hang, fewer(1000), 9, 10 * time.Second},
		"9 of 10 fail": {fail, fewer(200), 9, 5 * time.Second},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			inBubble(t, objectcache.TTLOptions{TTL: 10 * time.Second}, func(t *testing.T, r *rig) {
				var good, bad []string
				for _, name := range r.crowd(test.count) {
					if int(name[len(name)-1]-'0') < test.bad {
						bad = append(bad, name)
					} else {
						good = append(good, name)
					}
				}
				isBad := sets.New(bad...)
				r.server.Intercept(func(ctx context.Context, request apiserver.Request) *metav1.Status {
					if request.Verb == "get" && isBad.Has(request.Name) {
						return test.answer(ctx)
					}
					return nil
				})
				r.slowestOf(good)
				time.Sleep(10 * time.Second)
				ctx, cancel := context.WithCancel(t.Context())
				var gets sync.WaitGroup
				for _, name := range bad {
					gets.Go(func() { r.getInALoop(ctx, name) })
				}
				synctest.Wait()
				first := r.slowestOf(good)
				for range 5 {
					time.Sleep(10 * time.Second)
					r.slowestOf(good)
				}
				before := len(r.server.Requests())
				time.Sleep(10 * time.Second)
				later, requests := r.slowestOf(good), (len(r.server.Requests())-before)/10
				t.Logf("slowest of %d good objects: %v at first, %v later; %d requests a second", len(good), first, later, requests)
				if first > test.first || later > time.Second || requests > 300 {
					t.Errorf("want at most %v at first, 1 s later, and 300 requests a second", test.first)
				}
				cancel()
				gets.Wait()
			})
		})
	}
}

// getInALoop gets an object all the time, for up to ten seconds each.
func (r *rig) getInALoop(ctx context.Context, name string) {
	for ctx.Err() == nil {
		limited, cancel := context.WithTimeout(ctx, 10*time.Second)
		_, _ = r.Get(limited, namespace, name)
		cancel()
		pause, cancel := context.WithTimeout(ctx, time.Second)
		<-pause.Done()
		cancel()
	}
}

// At most 256 reads are under way at a time, however many objects are asked for.
func TestTTLReadsAtATime(t *testing.T) {
	inBubble(t, objectcache.TTLOptions{}, func(t *testing.T, r *rig) {
		good := r.crowd(600)
		var mu sync.Mutex
		now, most := 0, 0
		r.server.Intercept(func(_ context.Context, request apiserver.Request) *metav1.Status {
			mu.Lock()
			now++
			most = max(most, now)
			mu.Unlock()
			time.Sleep(10 * time.Millisecond)
			mu.Lock()
			now--
			mu.Unlock()
			return nil
		})
		slowest := r.slowestOf(good)
		if most < 32 || most > 256 || slowest > time.Second {
			t.Errorf("got %d reads at a time, and %v for all, want 32 to 256 and at most 1 s", most, slowest)
		}
	})
}

// A read that takes longer than 15 s has failed. The next one follows.
func TestTTLReadTimeout(t *testing.T) {
	inBubble(t, objectcache.TTLOptions{}, func(t *testing.T, r *rig) {
		created := r.referenced("tls")
		time.Sleep(time.Minute)
		r.server.Intercept(func(ctx context.Context, request apiserver.Request) *metav1.Status {
			if request.Verb == "get" {
				<-ctx.Done()
			}
			return nil
		})
		began := time.Now()
		got, err := r.Get(t.Context(), namespace, "tls")
		if took := time.Since(began); err != nil || got.UID != created.UID || took > 15*time.Second {
			t.Errorf("got %v after %v, want the previous object within 15 s", err, took)
		}
		time.Sleep(15 * time.Second)
		status, _ := r.Status(namespace, "tls")
		if status.LastError == nil || !strings.Contains(status.LastError.Error(), "no answer") {
			t.Errorf("status: got %v, want that the server did not answer in time", status.LastError)
		}
		r.within("tls", time.Nanosecond, created.UID)
		r.server.Intercept(nil)
		time.Sleep(15 * time.Second)
		if got := r.phase("tls"); got != servingOnDemand {
			t.Errorf("phase after it: got %s, want Serving", got)
		}
	})
}

// In an outage Gets return what is held, and few requests find out when it ends.
func TestTTLOutage(t *testing.T) {
	inBubble(t, objectcache.TTLOptions{}, func(t *testing.T, r *rig) {
		good := r.crowd(200)
		r.slowestOf(good)
		r.refuseAll(unavailable())
		time.Sleep(time.Minute)
		if slowest := r.slowestOf(good[1:]); slowest > 2*time.Second {
			t.Errorf("first Gets in the outage: the slowest took %v, want at most 2 s", slowest)
		}
		if took := r.slowestOf(good[:1]); took > 0 {
			t.Errorf("first Get of another object: took %v, want it at once", took)
		}
		before := len(r.server.Requests())
		time.Sleep(time.Minute)
		if slowest := r.slowestOf(good); slowest > time.Millisecond {
			t.Errorf("later Gets: the slowest took %v, want all at once", slowest)
		}
		if got := len(r.server.Requests()) - before; got > 60*25 { // else one a second of each
			t.Errorf("requests in a minute of the outage: got %d, want at most 25 a second", got)
		}
		r.refuseAll(nil)
		time.Sleep(30 * time.Second)
		for status := range r.Statuses() {
			if status.Phase != objectcache.PhaseServing {
				t.Fatalf("30 s after the outage: got %+v, want Serving", status)
			}
		}
	})
}

// refuseAll answers every GET with an error, or lets the server handle it if it is nil.
func (r *rig) refuseAll(err *apierrors.StatusError) {
	r.server.Intercept(func(_ context.Context, request apiserver.Request) *metav1.Status {
		if request.Verb == "get" && err != nil {
			return &err.ErrStatus
		}
		return nil
	})
}
