// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/objectcache/resource"
	"github.com/refwatch/refwatch/test/apiserver"
)

func notServed() *apierrors.StatusError {
	return apierrors.NewGenericServerResponse(404, "list", corev1.Resource("secrets"), "", "", 0, true)
}

// An object that is refused has a first state once the grace has passed, and another
// one when it can be read. Neither is repeated, however often the read is attempted.
func TestChangesYieldARefusalOnce(t *testing.T) {
	manyStreams(t)
	tests := map[string]struct {
		err  *apierrors.StatusError
		want string
	}{
		"forbidden":    {forbidden(), "refused: Forbidden"},
		"unauthorized": {apierrors.NewUnauthorized("expired"), "refused: Unauthorized"},
		"not served":   {notServed(), "refused: "}, // apierrors.IsNotFound does not hold
	}
	for name, test := range tests {
		for _, grace := range []time.Duration{0, 20 * time.Second} {
			t.Run(fmt.Sprint(name, ", grace ", grace), func(t *testing.T) {
				inBubble(t, objectcache.WatchOptions{RefusalGrace: grace}, func(t *testing.T, r *rig) {
					if grace == 0 {
						grace = time.Second // the default
					}
					r.create("tls")
					r.refuse(test.err)
					sub := r.subscribe()
					defer sub.stop()
					r.AddReference(namespace, "tls", "pod")
					r.AddReference(namespace, "absent", "pod")
					time.Sleep(grace - time.Nanosecond)
					want(t, "before the grace", sub.seen())
					time.Sleep(grace + 10*time.Millisecond) // that of an attempt of its own, during a 401 of others
					want(t, "after the grace", sub.sorted(), "absent "+test.want, "tls "+test.want)
					time.Sleep(5 * time.Minute)
					want(t, "five minutes later", sub.seen())
					r.refuse(nil)
					time.Sleep(20 * time.Second)
					want(t, "mended", sub.sorted(), "absent absent", "tls="+canary)
					r.refuse(test.err)
					r.server.CloseStreams(nil)
					time.Sleep(5 * time.Minute)
					want(t, "refused after the state is known", sub.seen())
					r.refuse(nil)
				})
			})
		}
	}
}

// Changes yields nothing for an object whose state nobody knows.
func TestChangesYieldNoFirstStateWhile(t *testing.T) {
	tests := map[string]struct {
		options objectcache.WatchOptions
		answer  apiserver.Interceptor
	}{
		"the server fails": {answer: func(context.Context, apiserver.Request) *metav1.Status { return &unavailable().ErrStatus }},
		"the server throttles": {answer: func(context.Context, apiserver.Request) *metav1.Status {
			return &apierrors.NewTooManyRequests("", 1).ErrStatus
		}},
		"the server hangs":       {answer: func(ctx context.Context, _ apiserver.Request) *metav1.Status { <-ctx.Done(); return nil }},
		"the grace has no bound": {objectcache.WatchOptions{RefusalGrace: -1}, func(context.Context, apiserver.Request) *metav1.Status { return &forbidden().ErrStatus }},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			inBubble(t, test.options, func(t *testing.T, r *rig) {
				r.server.Intercept(test.answer)
				sub := r.subscribe()
				defer sub.stop()
				r.AddReference(namespace, "absent", "pod")
				time.Sleep(10 * time.Minute)
				want(t, "ten minutes", sub.seen())
				r.server.Intercept(nil)
				time.Sleep(5 * time.Minute) // the request under way hangs on
				want(t, "mended", sub.seen(), "absent absent")
			})
		})
	}
}

// Another reason is another state, and an outage between two equal ones is none.
func TestChangesYieldEachReason(t *testing.T) {
	inBubble(t, objectcache.WatchOptions{}, func(t *testing.T, r *rig) {
		sub := r.subscribe()
		defer sub.stop()
		r.refuse(forbidden())
		r.AddReference(namespace, "tls", "pod")
		time.Sleep(time.Minute)
		want(t, "forbidden", sub.seen(), "tls refused: Forbidden")
		r.refuse(unavailable())
		time.Sleep(time.Minute)
		r.refuse(forbidden())
		time.Sleep(time.Minute)
		want(t, "forbidden after an outage", sub.seen())
		r.refuse(apierrors.NewUnauthorized("expired"))
		time.Sleep(time.Minute)
		want(t, "unauthorized", sub.seen(), "tls refused: Unauthorized")
		r.refuse(nil)
		time.Sleep(time.Minute)
		want(t, "mended", sub.seen(), "tls absent")
	})
}

// A new owner is given what is known already, and the state after a deletion.
func TestChangesYieldKnownStatesToANewOwner(t *testing.T) {
	inBubble(t, objectcache.WatchOptions{}, func(t *testing.T, r *rig) {
		sub := r.subscribe()
		defer sub.stop()
		wantOwners := func(when, state string, uids ...types.UID) {
			t.Helper()
			synctest.Wait()
			select {
			case got := <-sub.changes:
				if got.String() != state || !slices.Equal(got.owners, uids) {
					t.Errorf("%s: got %s for %s, want %s for %s", when, got, got.owners, state, uids)
				}
			default:
				t.Errorf("%s: got nothing, want %s", when, state)
			}
			want(t, when, sub.seen())
		}
		r.AddReference(namespace, "tls", "a")
		wantOwners("absent", "tls absent", "a")
		r.AddReference(namespace, "tls", "b")
		wantOwners("absent, a new owner", "tls absent", "a", "b")
		r.AddReference(namespace, "tls", "b")
		want(t, "absent, the same owner", sub.seen())
		r.create("tls")
		wantOwners("created", "tls="+canary, "a", "b")
		r.remove("tls")
		wantOwners("deleted", "tls gone", "a", "b")
		r.AddReference(namespace, "tls", "c")
		wantOwners("deleted, a new owner", "tls absent", "a", "b", "c")
		for _, uid := range []types.UID{"a", "b", "b", "c"} {
			r.DeleteReference(namespace, "tls", uid)
		}
		want(t, "no owner", sub.seen())
		r.AddReference(namespace, "tls", "a")
		wantOwners("referenced again", "tls absent", "a")
	})
}

// A new owner is given a refusal when Get would return it: at once if it is recent,
// else after the next attempt and the grace.
func TestChangesYieldARefusalToANewOwner(t *testing.T) {
	inBubble(t, objectcache.WatchOptions{}, func(t *testing.T, r *rig) {
		sub := r.subscribe()
		defer sub.stop()
		r.refuse(forbidden())
		r.AddReference(namespace, "tls", "a")
		time.Sleep(time.Second)
		want(t, "refused", sub.seen(), "tls refused: Forbidden")
		r.AddReference(namespace, "tls", "b")
		want(t, "a recent refusal", sub.seen(), "tls refused: Forbidden")
		r.untilRefusalIsOld()
		r.AddReference(namespace, "tls", "c")
		want(t, "an old refusal", sub.seen())
		time.Sleep(17 * time.Second) // attempts are at most 15 s apart
		want(t, "the next attempt", sub.seen(), "tls refused: Forbidden")
		r.untilRefusalIsOld()
		r.AddReference(namespace, "tls", "d")
		r.refuse(nil)
		time.Sleep(17 * time.Second)
		want(t, "granted", sub.seen(), "tls absent")
	})
}

// An object that a Get has acquired has first states as well.
func TestChangesYieldAcquiredObjects(t *testing.T) {
	inBubble(t, objectcache.WatchOptions{AcquireOnGet: time.Minute}, func(t *testing.T, r *rig) {
		sub := r.subscribe()
		defer sub.stop()
		_, _ = r.TryGet(namespace, "tls")
		synctest.Wait()
		if got := <-sub.changes; got.String() != "tls absent" || !slices.Equal(got.owners, []types.UID{objectcache.LeaseOwner}) {
			t.Errorf("acquired: got %s for %s, want tls absent for LeaseOwner", got, got.owners)
		}
		r.AddReference(namespace, "tls", "pod")
		want(t, "registered", sub.seen(), "tls absent")
		time.Sleep(5 * time.Minute)
		want(t, "the lease has ended", sub.seen())
	})
}

// An immutable object is absent, then created, deleted and created again: a new owner
// is given each state, although there is no stream.
func TestChangesYieldFirstStatesOfImmutableObjects(t *testing.T) {
	inBubble(t, objectcache.WatchOptions{ImmutableRecheck: -1}, func(t *testing.T, r *rig) {
		sub := r.subscribe()
		defer sub.stop()
		r.AddReference(namespace, "tls", "a")
		want(t, "absent", sub.seen(), "tls absent")
		r.create("tls", immutable)
		want(t, "created", sub.seen(), "tls="+canary)
		r.remove("tls")
		want(t, "deleted, without a stream", sub.seen())
		r.AddReference(namespace, "tls", "b")
		want(t, "a new owner", sub.seen(), "tls gone")
		r.create("tls", immutable)
		want(t, "created again", sub.seen(), "tls="+canary)
		r.AddReference(namespace, "tls", "c")
		want(t, "another new owner", sub.seen(), "tls="+canary)
		r.refuse(forbidden())
		r.AddReference(namespace, "tls", "d")
		time.Sleep(2 * time.Second)
		want(t, "refused", sub.seen(), "tls="+canary)
		time.Sleep(time.Second)
		r.AddReference(namespace, "tls", "e")
		want(t, "a recent refusal", sub.seen(), "tls="+canary)
		r.refuse(nil)
	})
}

// While the server accepts no token, one object at a time is attempted. All have the
// refusal as their first state: those that are referenced long before Run, when another
// store has met the refusal, and those that come later.
func TestChangesYieldTheRefusalOfTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		options := objectcache.WatchOptions{Gate: objectcache.NewGate(objectcache.GateOptions{})}
		r := newRig(t, apiserver.Options{InMemory: true}, options)
		defer func() { r.stop() }()
		r.refuse(apierrors.NewUnauthorized("expired"))
		var refused []string
		add := func(name string) {
			for i := range 100 {
				name := fmt.Sprint(name, i)
				r.AddReference(namespace, name, "pod")
				refused = append(refused, name+" refused: Unauthorized")
			}
			slices.Sort(refused)
		}
		add("early-")
		sub := r.subscribe()
		defer sub.stop()
		time.Sleep(time.Hour)
		want(t, "before Run", sub.seen())
		other := newStore(t, resource.ConfigMaps(r.client), options)
		other.AddReference(namespace, "first", "pod")
		defer runStore(t.Context(), t, other)()
		synctest.Wait()
		r.run()
		time.Sleep(3 * time.Second) // an attempt of its own begins the grace of an object anew
		want(t, "at first", sub.sorted(), refused...)
		refused = nil
		add("late-")
		time.Sleep(3 * time.Second) // an attempt of its own begins the grace of an object anew
		want(t, "in the outage", sub.sorted(), refused...)
		time.Sleep(time.Hour)
		want(t, "an hour later", sub.seen())
		r.refuse(nil)
		time.Sleep(time.Minute)
		if got := len(sub.seen()); got != 200 {
			t.Errorf("mended: got %d states, want 200", got)
		}
	})
}

// An object that loses its last owner before it has a first state is not yielded.
func TestChangesForgetAPendingRefusal(t *testing.T) {
	inBubble(t, objectcache.WatchOptions{RefusalGrace: time.Hour}, func(t *testing.T, r *rig) {
		sub := r.subscribe()
		defer sub.stop()
		r.refuse(forbidden())
		r.AddReference(namespace, "tls", "pod")
		time.Sleep(time.Minute)
		r.DeleteReference(namespace, "tls", "pod")
		time.Sleep(2 * time.Hour)
		want(t, "no owner", sub.seen())
		r.AddReference(namespace, "tls", "pod")
		time.Sleep(time.Hour - time.Nanosecond)
		want(t, "before the grace", sub.seen())
		time.Sleep(time.Second)
		want(t, "after the grace", sub.seen(), "tls refused: Forbidden")
		r.AddReference(namespace, "other", "pod")
		time.Sleep(time.Minute)
		began := time.Now()
		if r.stop(); time.Since(began) != 0 {
			t.Errorf("Run returned after %v, want at once: it need not wait for the grace", time.Since(began))
		}
	})
}
