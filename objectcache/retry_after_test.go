// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"context"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/test/apiserver"
)

func slowDown() *apierrors.StatusError { return apierrors.NewTooManyRequests("slow down", 60) }

// failAfterAWhile makes all reads of tls fail, after 10 ms.
func (r *rig) failAfterAWhile(err *apierrors.StatusError) {
	r.server.Intercept(func(_ context.Context, request apiserver.Request) *metav1.Status {
		if request.Name != "tls" {
			return nil
		}
		time.Sleep(10 * time.Millisecond)
		return &err.ErrStatus
	})
}

// recheckFails makes all reads of tls fail, and waits until the recheck of this immutable object has.
func (r *rig) recheckFails(err *apierrors.StatusError) {
	r.failAfterAWhile(err)
	for before := r.reads("tls"); r.reads("tls") == before; {
		time.Sleep(100 * time.Millisecond)
	}
	time.Sleep(500 * time.Millisecond)
}

// takes checks how long a Get takes that could wait for longer than the Retry-After.
func (r *rig) takes(want time.Duration) {
	began := time.Now()
	r.mustGetWithin("tls", 2*time.Minute)
	if took := time.Since(began); took != want {
		r.t.Errorf("Get took %v, want %v", took, want)
	}
}

// The owners of an immutable object keep it when a new owner comes while the server has asked to wait. The new owner
// has the previous state as soon. Others lost it for up to a minute.
func TestOwnersKeepTheObjectDuringARetryAfter(t *testing.T) {
	for name, options := range map[string]objectcache.StoreOptions{
		"immutable": objectcache.WatchOptions{}, "TTL": objectcache.TTLOptions{},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, options, func(t *testing.T, r *rig) {
				r.referenced("tls", immutable)
				time.Sleep(time.Second)
				r.failAfterAWhile(slowDown())
				r.AddReference(namespace, "tls", "pod-0")
				r.takes(10 * time.Millisecond) // the read has failed
				time.Sleep(500 * time.Millisecond)
				r.AddReference(namespace, "tls", "pod-1")
				r.takes(2 * time.Second)
				r.takes(0)
				r.AddReference(namespace, "tls", "pod-2")
				time.Sleep(2 * time.Second)
				r.takes(0)
				r.server.Intercept(nil)
			})
		})
	}
}

// Changes yields the previous state to a new owner when Get would return it.
func TestChangesDuringARetryAfter(t *testing.T) {
	inBubble(t, objectcache.WatchOptions{ImmutableRecheck: time.Minute}, func(t *testing.T, r *rig) {
		r.referenced("tls", immutable)
		subscriber := r.subscribe()
		defer subscriber.stop()
		subscriber.seen()
		r.recheckFails(slowDown())
		r.AddReference(namespace, "tls", "pod-2")
		time.Sleep(1900 * time.Millisecond)
		want(t, "before 2 s have passed", subscriber.seen())
		time.Sleep(200 * time.Millisecond)
		if seen := subscriber.seen(); len(seen) != 1 {
			t.Errorf("after 2 s: got %q, want the object", seen)
		}
		r.server.Intercept(nil)
	})
}

// While the reads of an object fail, those of others succeed, and no Get waits, TryGet returns the object to its owners
// though new ones come.
func TestTryGetBetweenFailures(t *testing.T) {
	inBubble(t, objectcache.WatchOptions{ImmutableRecheck: time.Minute}, func(t *testing.T, r *rig) {
		r.referenced("tls", immutable)
		r.referenced("other", immutable)
		r.recheckFails(unavailable())
		for _, owner := range names(20) {
			for began := time.Now(); time.Since(began) < time.Minute; time.Sleep(time.Second) {
				if _, err := r.demandFor(time.Second, "other", objectcache.GetOptions{Live: true}); err != nil {
					t.Fatal(err)
				}
			}
			r.AddReference(namespace, "tls", types.UID(owner))
			time.Sleep(2100 * time.Millisecond)
			if _, err := r.TryGet(namespace, "tls"); err != nil {
				t.Errorf("2.1 s after owner %s: %v", owner, err)
			}
		}
		r.server.Intercept(nil)
	})
}

// A Get waits for the read for a new owner if no Retry-After delays it, however long the pause is that the Get ends.
func TestNewOwnerWaitsForAReadAfterFailures(t *testing.T) {
	inBubble(t, objectcache.WatchOptions{ImmutableRecheck: -1}, func(t *testing.T, r *rig) {
		r.referenced("tls", immutable)
		r.refuse(unavailable())
		r.AddReference(namespace, "tls", "pod-0")
		for i := range 20 {
			r.refuse(unavailable())
			time.Sleep(5 * time.Minute)
			r.refusedJustNow("tls")
			r.remove("tls")
			uid := r.create("tls", immutable).UID
			r.refuse(nil)
			r.AddReference(namespace, "tls", types.UID(names(20)[i]))
			r.within("tls", 2*time.Second, uid)
			r.refuse(unavailable())
			r.AddReference(namespace, "tls", types.UID(names(20)[i]+"-fails"))
		}
		r.refuse(nil)
	})
}

// Each read of an object without a stream has a reflector of its own. A Get whose read waits for the pause of the one
// before returns the failure that began the pause, and Status has it.
func TestADemandThatWaitsHasTheCause(t *testing.T) {
	for name, test := range map[string]struct {
		err   *apierrors.StatusError
		is    func(error) bool
		after time.Duration
	}{
		"throttled":      {slowDown(), apierrors.IsTooManyRequests, 0},
		"throttled long": {slowDown(), apierrors.IsTooManyRequests, 40 * time.Second},
		"forbidden":      {forbidden(), apierrors.IsForbidden, 0},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, objectcache.WatchOptions{ImmutableRecheck: time.Minute}, func(t *testing.T, r *rig) {
				r.referenced("tls", immutable)
				r.recheckFails(test.err)
				time.Sleep(test.after)
				if _, err := r.demandFor(300*time.Millisecond, "tls", objectcache.GetOptions{Live: true}); !test.is(err) {
					t.Errorf("got %v, want the cause", err)
				}
				status, _ := r.Status(namespace, "tls")
				if status.Failures == 0 || !test.is(status.LastError) {
					t.Errorf("status: got %d failures and %v, want the cause", status.Failures, status.LastError)
				}
				r.server.Intercept(nil)
			})
		})
	}
}
