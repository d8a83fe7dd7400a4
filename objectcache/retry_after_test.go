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

// takes checks how long a Get takes. Its context allows two minutes.
func (r *rig) takes(want time.Duration) {
	began := time.Now()
	r.mustGetWithin("tls", 2*time.Minute)
	if took := time.Since(began); took != want {
		r.t.Errorf("Get took %v, want %v", took, want)
	}
}

// During a Retry-After a new owner of an immutable object gets the previous state after 1.5 s, and so do the others.
// Get, TryGet, Changes and Status agree. All owners keep it, also if the read after the Retry-After hangs.
func TestOwnersKeepTheObjectDuringARetryAfter(t *testing.T) {
	for name, options := range map[string]objectcache.StoreOptions{
		"immutable": objectcache.WatchOptions{}, "TTL": objectcache.TTLOptions{},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, options, func(t *testing.T, r *rig) {
				r.referenced("tls", immutable)
				subscriber := r.subscribe()
				defer subscriber.stop()
				time.Sleep(time.Second)
				r.failAfterAWhile(slowDown())
				r.AddReference(namespace, "tls", "pod-0")
				r.takes(10 * time.Millisecond) // the read has failed
				time.Sleep(500 * time.Millisecond)
				subscriber.seen()
				r.AddReference(namespace, "tls", "pod-1")
				r.takes(1500 * time.Millisecond)
				r.hasPrevious("after the first Get")
				if seen := subscriber.seen(); len(seen) != 1 {
					t.Errorf("Changes: got %q, want the object", seen)
				}
				r.AddReference(namespace, "tls", "pod-2")
				time.Sleep(1500 * time.Millisecond)
				r.hasPrevious("without a Get")
				release := r.holdBack("list", "watch", "get")
				for before := len(r.server.Requests()); len(r.server.Requests()) == before; {
					time.Sleep(100 * time.Millisecond) // until the Retry-After has passed
				}
				r.hasPrevious("while the next read is under way")
				time.Sleep(time.Minute)
				r.hasPrevious("while it hangs")
				release()
				r.server.Intercept(nil)
			})
		})
	}
}

// hasPrevious checks that owners have the previous state at once.
func (r *rig) hasPrevious(when string) {
	r.t.Helper()
	if _, err := r.TryGet(namespace, "tls"); err != nil {
		r.t.Errorf("%s: TryGet: %v", when, err)
	}
	r.takes(0)
	if status, _ := r.Status(namespace, "tls"); !status.Synced {
		r.t.Errorf("%s: got status %+v, want Synced", when, status)
	}
}

// While the reads of an object fail, those of others succeed, and no Get waits, TryGet returns the object to its owners
// though new ones come. A new owner ends the pause of the object, so that all owners have it soon.
func TestTryGetBetweenFailures(t *testing.T) {
	inBubble(t, objectcache.WatchOptions{ImmutableRecheck: time.Minute}, func(t *testing.T, r *rig) {
		r.referenced("tls", immutable)
		r.referenced("other", immutable)
		r.recheckFails(unavailable())
		for _, owner := range names(5) {
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
			if status, _ := r.Status(namespace, "tls"); !status.Synced {
				t.Errorf("2.1 s after owner %s: not synced, want that all owners have the previous state", owner)
			}
		}
		r.server.Intercept(nil)
	})
}

// A new owner ends a back-off, however long it is. A Get for that owner waits for the read, also if it comes late.
func TestNewOwnerWaitsForAReadAfterFailures(t *testing.T) {
	for _, late := range []time.Duration{0, 2500 * time.Millisecond} {
		for name, err := range map[string]*apierrors.StatusError{"unavailable": unavailable(), "forbidden": forbidden()} {
			t.Run(name+", Get after "+late.String(), func(t *testing.T) {
				inBubble(t, objectcache.WatchOptions{ImmutableRecheck: -1}, func(t *testing.T, r *rig) {
					r.referenced("tls", immutable)
					for i := range 3 {
						r.refuse(err)
						r.AddReference(namespace, "tls", types.UID(names(20)[i]+"-fails"))
						time.Sleep(5 * time.Minute)
						r.refusedJustNow("tls")
						r.remove("tls")
						uid := r.create("tls", immutable).UID
						r.refuse(nil)
						time.Sleep(3 * time.Second) // the last refusal is old
						r.AddReference(namespace, "tls", types.UID(names(20)[i]))
						time.Sleep(late)
						r.within("tls", 2*time.Second, uid)
					}
				})
			})
		}
	}
}

// A Get for a new owner waits for a read that is as slow as others, although reads have failed before.
func TestSlowReadForANewOwner(t *testing.T) {
	inBubble(t, objectcache.WatchOptions{ImmutableRecheck: time.Minute}, func(t *testing.T, r *rig) {
		r.answerAfter("tls", 3*time.Second)
		r.create("tls", immutable)
		r.AddReference(namespace, "tls", "pod")
		r.mustGetWithin("tls", time.Minute)
		r.recheckFails(unavailable())
		r.answerAfter("tls", 3*time.Second)
		r.remove("tls")
		uid := r.create("tls", immutable).UID
		r.AddReference(namespace, "tls", "pod-1")
		r.within("tls", 6*time.Second, uid)
		r.server.Intercept(nil)
	})
}

// A Get that demands a read returns the refusal at once if the server has refused reads for RefusalGrace, although
// the reads were those of other reflectors.
func TestADemandAfterARefusal(t *testing.T) {
	inBubble(t, objectcache.WatchOptions{ImmutableRecheck: time.Minute, RefusalGrace: 400 * time.Millisecond}, func(t *testing.T, r *rig) {
		r.referenced("tls", immutable)
		r.recheckFails(forbidden())
		began := time.Now()
		_, err := r.demandFor(time.Minute, "tls", objectcache.GetOptions{Live: true})
		if took := time.Since(began); took != 0 || !apierrors.IsForbidden(err) {
			t.Errorf("got %v after %v, want the refusal at once", err, took)
		}
		r.server.Intercept(nil)
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
				if status.Failures == 0 || !test.is(status.LastError) || status.LastErrorTime.IsZero() {
					t.Errorf("status: got %d failures and %v, want the cause", status.Failures, status.LastError)
				}
				r.server.Intercept(nil)
			})
		})
	}
}
