// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/test/apiserver"
)

// With more objects than polls in 30 s, each is polled at the documented pace.
func TestPollsAreBounded(t *testing.T) {
	manyStreams(t)
	const count, rate = 1800, 50
	inLimitBubble(t, count, objectcache.WatchOptions{MaxStreams: 1}, func(t *testing.T, l *limitRig) {
		time.Sleep(40 * time.Second)
		before := l.requests("list")
		time.Sleep(30 * time.Second)
		if got := l.requests("list") - before; got > 30*rate+1 || got < 30*rate*9/10 {
			t.Errorf("polls in 30 s: got %d, want at most %d", got, 30*rate)
		}
		l.updateAll("new", l.names...)
		time.Sleep(count*time.Second/rate + time.Second)
		l.wantValues("in time", "new", l.names...)
	})
}

// An object that does not exist is polled as any other.
func TestPolledObjectIsCreatedAndDeleted(t *testing.T) {
	inLimitBubble(t, 1, objectcache.WatchOptions{MaxStreams: 1}, func(t *testing.T, l *limitRig) {
		l.AddReference(namespace, "late", "pod")
		sub := l.subscribe()
		defer sub.stop()
		sub.seen()
		for range 2 {
			if _, err := l.get("late", time.Second); !apierrors.IsNotFound(err) {
				t.Errorf("absent: got %v, want NotFound", err)
			}
			l.wantPhase("absent", "late", objectcache.Polling, 0)
			l.create("late")
			time.Sleep(pollBound)
			want(t, "created", sub.seen(), "late="+canary)
			l.mustGet("late")
			l.remove("late")
			time.Sleep(pollBound)
			want(t, "deleted", sub.seen(), "late gone")
		}
	})
}

var errBroken = errors.New("broken")

// Neighbours that fail do not delay the polls of others, nor new owners.
func TestPollsBesideObjectsThatFail(t *testing.T) {
	manyStreams(t)
	const count, most = 200, 10
	faults := map[string]struct {
		answer func(ctx context.Context) *metav1.Status
		heals  time.Duration // at most, once the server answers
	}{
		"forbidden": {func(context.Context) *metav1.Status { return &forbidden().ErrStatus }, 20 * time.Second},
		"failing":   {func(context.Context) *metav1.Status { return &apierrors.NewInternalError(errBroken).ErrStatus }, 20 * time.Second},
		// A request that hangs is given up after one to four minutes.
		"hanging": {func(ctx context.Context) *metav1.Status { <-ctx.Done(); return nil }, 5 * time.Minute},
	}
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			inLimitBubble(t, count, objectcache.WatchOptions{MaxStreams: most}, func(t *testing.T, l *limitRig) {
				bad := map[string]bool{}
				var healthy []string
				for i, name := range l.names {
					if bad[name] = i%2 == 0 || i > count*3/4; !bad[name] { // scattered, and in a row
						healthy = append(healthy, name)
					}
				}
				l.server.Intercept(func(ctx context.Context, request apiserver.Request) *metav1.Status {
					if bad[request.Name] && (request.Verb == "list" || request.Verb == "watch") {
						return fault.answer(ctx)
					}
					return nil
				})
				for i := range 4 {
					value := fmt.Sprint(i)
					l.updateAll(value, healthy...)
					l.AddReference(namespace, healthy[i], "other")
					l.wantValue("new owner", healthy[i], value)
					time.Sleep(pollBound + 5*time.Second)
					l.wantValues("in time", value, healthy...)
				}
				before := len(l.server.Requests())
				time.Sleep(time.Minute)
				if got := len(l.server.Requests()) - before; got > 60*50 {
					t.Errorf("requests in a minute: got %d, want at most 50 a second", got)
				}
				// They are retried more often than polled.
				if got, want := l.phases()[objectcache.Failing], count-len(healthy)-most; got < want && fault.heals < time.Minute {
					t.Errorf("phase Failing: got %d, want it for all %d polled objects that fail", got, want)
				}
				l.server.Intercept(nil)
				l.updateAll("well", l.names...)
				time.Sleep(fault.heals)
				l.wantValues("once all is well", "well", l.names...)
			})
		})
	}
}

// A Get may demand more of a polled object than what is in memory.
func TestDemandsOnAPolledObject(t *testing.T) {
	inLimitBubble(t, 2, objectcache.WatchOptions{MaxStreams: 1, MaxStaleness: 10 * time.Second}, func(t *testing.T, l *limitRig) {
		const name = "tls-1"
		get := func(options objectcache.GetOptions) string {
			t.Helper()
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			got, err := l.GetWithOptions(ctx, namespace, name, options)
			if err != nil {
				t.Fatalf("Get with %+v: %v", options, err)
			}
			return string(got.Data["password"])
		}
		time.Sleep(pollBound)
		l.update(name, "1")
		if got := get(objectcache.GetOptions{}); got == "1" {
			t.Error("no demand: got the new value, want that in memory")
		}
		if got := get(objectcache.GetOptions{Live: true}); got != "1" {
			t.Errorf("live: got %q, want the new value", got)
		}
		if got := get(objectcache.GetOptions{NotOlderThan: l.update(name, "2").ResourceVersion}); got != "2" {
			t.Errorf("not older than: got %q, want the new value", got)
		}
		time.Sleep(2 * time.Second)
		l.update(name, "3")
		if got := get(objectcache.GetOptions{MaxStaleness: time.Second}); got != "3" {
			t.Errorf("max staleness: got %q, want the new value", got)
		}
		l.update(name, "4")
		time.Sleep(11 * time.Second)
		if got := get(objectcache.GetOptions{}); got != "4" {
			t.Errorf("WatchOptions.MaxStaleness: got %q, want the new value", got)
		}
		l.wantPhase("after the reads", name, objectcache.Polling, 0)
	})
}

// In an outage Get returns the previous state, as for an object with a stream.
func TestPolledObjectsDuringAnOutage(t *testing.T) {
	const count = 50
	inLimitBubble(t, count, objectcache.WatchOptions{MaxStreams: 5}, func(t *testing.T, l *limitRig) {
		for range 3 {
			l.refuse(unavailable())
			l.server.CloseStreams(nil)
			before := len(l.server.Requests())
			time.Sleep(3 * time.Minute)
			if got := len(l.server.Requests()) - before; got > 150 {
				t.Errorf("requests in three minutes of an outage: got %d, want about 125 probes, and no attempt for each object", got)
			}
			for _, name := range l.names {
				l.within(name, time.Millisecond, l.mustGet(name).UID)
			}
			l.refuse(nil)
			l.updateAll("well", l.names...)
			time.Sleep(pollBound + 10*time.Second)
			l.wantValues("after the outage", "well", l.names...)
			if got := l.phases(); got[objectcache.Watching] != 5 || got[objectcache.Polling] != count-5 {
				t.Errorf("phases after the outage: got %v", got)
			}
		}
	})
}

// A caller that may watch and not list is served as well.
func TestPollsWithoutTheRightToList(t *testing.T) {
	inBubble(t, objectcache.WatchOptions{MaxStreams: 1}, func(t *testing.T, r *rig) {
		r.server.Intercept(func(_ context.Context, request apiserver.Request) *metav1.Status {
			if request.Verb == "list" {
				return &forbidden().ErrStatus
			}
			return nil
		})
		for _, name := range []string{"a", "b", "c"} {
			r.create(name)
			r.AddReference(namespace, name, "pod")
			r.mustGet(name)
		}
		for _, name := range []string{"b", "c"} {
			r.wantPhase("read", name, objectcache.Polling, 0)
			r.update(name, "new")
			time.Sleep(pollBound)
			r.wantValue("polled", name, "new")
		}
	})
}
