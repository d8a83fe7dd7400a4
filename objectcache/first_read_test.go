// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/objectcache/resource"
	"github.com/refwatch/refwatch/test/apiserver"
)

// firstReads are the options of these tests.
var firstReads = objectcache.WatchOptions{FirstReadMaxAge: time.Second}

// withoutGets keeps the server from answering GETs, which are hedged reads. It lets time pass, because no read from the
// moment of Run counts.
func (r *rig) withoutGets() {
	time.Sleep(time.Millisecond)
	r.server.Authorize(func(request apiserver.Request) bool { return request.Verb != "get" })
}

// consistent returns the number of consistent reads of an object so far.
func (r *rig) consistent(name string) (count int) {
	synctest.Wait()
	for _, request := range r.server.Requests() {
		if request.Name == name && (request.Verb == "list" || request.Verb == "watch") && request.Query.Get("resourceVersion") == "" {
			count++
		}
	}
	return count
}

// wantFirstReads checks how many reads of an object there were, and how many of these were consistent.
func (r *rig) wantFirstReads(when, name string, reads, consistent int) {
	r.t.Helper()
	if got := r.reads(name); got != reads {
		r.t.Errorf("%s: reads of %s: got %d, want %d", when, name, got, reads)
	}
	if got := r.consistent(name); got != consistent {
		r.t.Errorf("%s: consistent reads of %s: got %d, want %d", when, name, got, consistent)
	}
}

// referenceAndGet adds the reference of a pod, and gets the object.
func (r *rig) referenceAndGet(name string) *corev1.Secret {
	r.t.Helper()
	r.AddReference(namespace, name, "pod")
	return r.mustGet(name)
}

// The first reads of a worker that gets one object after the other share a consistent read for a time, and the next one
// is consistent again. Without the option each is.
func TestFirstReadMaxAge(t *testing.T) {
	for name, test := range map[string]struct {
		options objectcache.WatchOptions
		want    int // consistent reads of 30 objects, one each 0.1 s
	}{
		"a second":         {firstReads, 3},
		"negative":         {objectcache.WatchOptions{FirstReadMaxAge: -1}, 30},
		"default":          {objectcache.WatchOptions{}, 30},
		"bounded by idle":  {objectcache.WatchOptions{FirstReadMaxAge: time.Minute, IdleTimeout: 450 * time.Millisecond}, 6},
		"before the first": {objectcache.WatchOptions{FirstReadMaxAge: 1}, 30},
	} {
		t.Run(name, func(t *testing.T) {
			inBubbles(t, test.options, func(t *testing.T, r *rig) {
				r.withoutGets()
				all := 0
				for i := range 30 {
					name := fmt.Sprint("tls-", i)
					r.create(name)
					r.referenceAndGet(name)
					all += r.consistent(name)
					if got := r.reads(name); got != 1 {
						t.Errorf("reads of %s: got %d, want 1", name, got)
					}
					time.Sleep(100 * time.Millisecond)
				}
				if all != test.want {
					t.Errorf("consistent reads: got %d, want %d", all, test.want)
				}
			})
		})
	}
}

// On a busy etcd one worker gets 200 objects in the time of few consistent reads.
func TestOneWorkerOnABusyEtcd(t *testing.T) {
	inBubble(t, firstReads, func(t *testing.T, r *rig) {
		r.withoutGets()
		began := time.Now()
		r.server.Intercept(func(_ context.Context, request apiserver.Request) *metav1.Status {
			if request.Verb == "watch" && request.Query.Get("resourceVersion") == "" {
				time.Sleep(progressPeriod - time.Since(began)%progressPeriod)
			}
			return nil
		})
		for i := range 200 {
			name := fmt.Sprint("tls-", i)
			r.AddReference(namespace, name, "pod")
			if _, err := r.get(name, time.Second); !apierrors.IsNotFound(err) {
				t.Fatalf("Get %s: got %v, want NotFound", name, err)
			}
		}
		if got := time.Since(began); got > 2*progressPeriod {
			t.Errorf("took %v, want one consistent read", got)
		}
	})
}

// lagging runs f with a store that has the option and an IdleTimeout. The consistent read of an object is young, and
// another one, tls, was changed since. The server lags: reads that are not consistent lack the change, and the others
// are answered when it has caught up.
func lagging(t *testing.T, options objectcache.WatchOptions, f func(*testing.T, *rig)) {
	t.Helper()
	options.IdleTimeout = time.Minute
	inBubble(t, options, func(t *testing.T, r *rig) {
		r.withoutGets()
		r.create("first")
		r.create("tls")
		r.referenceAndGet("tls")
		time.Sleep(5 * time.Minute)
		if got := r.streams("tls"); got != 0 {
			t.Fatalf("got %d streams of an idle object, want none", got)
		}
		r.referenceAndGet("first")
		r.server.Lag(3 * time.Second)
		defer r.server.CatchUp()
		r.update("tls", "new")
		f(t, r)
	})
}

// The state of a plain Get may be as old as the option says. That of a Get with demands may not.
func TestDemandsOfFirstReads(t *testing.T) {
	for name, demands := range map[string]func(*rig) objectcache.GetOptions{
		"none": func(*rig) objectcache.GetOptions { return objectcache.GetOptions{} },
		"live": func(*rig) objectcache.GetOptions { return objectcache.GetOptions{Live: true} },
		"not older than": func(r *rig) objectcache.GetOptions {
			return objectcache.GetOptions{NotOlderThan: r.server.ResourceVersion()}
		},
	} {
		t.Run(name, func(t *testing.T) {
			lagging(t, firstReads, func(t *testing.T, r *rig) {
				options := demands(r)
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
				defer cancel()
				secret, err := r.GetWithOptions(ctx, namespace, "tls", options)
				if old := err == nil && string(secret.Data["password"]) == canary; old != (name == "none") || !old && err == nil {
					t.Errorf("while the server lags: got %v, %v", secret, err)
				}
				r.server.CatchUp()
				time.Sleep(10 * time.Second)
				r.wantValue("when the server has caught up", "tls", "new")
			})
		})
	}
}

// By default a Get returns no state from before the reference, or from before the Get of an idle object.
func TestFirstReadsAreConsistentByDefault(t *testing.T) {
	lagging(t, objectcache.WatchOptions{}, func(t *testing.T, r *rig) {
		if secret, err := r.get("tls", 2*time.Second); err == nil {
			t.Errorf("while the server lags: got %v, want no answer", secret)
		}
	})
}

// A reference that is deleted and added again gets no state from before it was deleted: the program may have had a
// later one. That holds for the references of Gets, too.
func TestFirstReadAfterTheLastReference(t *testing.T) {
	options := firstReads
	options.FirstReadMaxAge = 5 * time.Minute
	inBubble(t, options, func(t *testing.T, r *rig) {
		r.withoutGets()
		for _, name := range []string{"first", "tls", "other"} {
			r.create(name)
		}
		r.referenceAndGet("first")
		r.referenceAndGet("tls")
		r.wantFirstReads("at first", "tls", 1, 0)
		time.Sleep(time.Minute)
		r.DeleteReference(namespace, "tls", "pod")
		time.Sleep(3 * time.Minute)
		r.referenceAndGet("tls")
		r.wantFirstReads("added again", "tls", 2, 1)
		r.DeleteReference(namespace, "tls", "pod")
		r.referenceAndGet("tls")
		r.wantFirstReads("at the same time", "tls", 3, 2)
		r.DeleteReference(namespace, "tls", "pod")
		time.Sleep(time.Second)
		r.DeleteReference(namespace, "first", "pod")
		r.referenceAndGet("first") // consistent
		r.referenceAndGet("tls")
		r.wantFirstReads("after another consistent read", "tls", 4, 2)
	})
	options.AcquireOnGet = time.Minute
	inBubble(t, options, func(t *testing.T, r *rig) {
		r.withoutGets()
		r.create("first")
		r.create("tls")
		r.mustGet("first")
		r.mustGet("tls")
		r.wantFirstReads("at first", "tls", 1, 0)
		time.Sleep(150 * time.Second)
		r.mustGet("tls")
		r.wantFirstReads("after the lease", "tls", 2, 1)
	})
}

// Stores that share a Gate have the age of their own options. A store uses no read from before its Run, nor one of
// another resource.
func TestFirstReadsOfStoresThatShareAGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := apiserver.New(t, apiserver.Options{InMemory: true, TLS: true})
		client := clientOf(t, server)
		gate := objectcache.NewGate(objectcache.GateOptions{})
		with := func(age time.Duration) *rig {
			store := newStore(t, resource.Secrets(client), objectcache.WatchOptions{Gate: gate, FirstReadMaxAge: age})
			return &rig{Store: store, t: t, server: server, client: server.Client()}
		}
		strict, second, minute, late := with(0), with(time.Second), with(time.Minute), with(time.Minute)
		for _, r := range []*rig{strict, second, minute} {
			r.run()
			r.withoutGets()
		}
		configMaps := newStore(t, resource.ConfigMaps(client), objectcache.WatchOptions{Gate: gate, FirstReadMaxAge: time.Minute})
		defer runStore(t.Context(), t, configMaps)()
		get := func(r *rig, name string, consistent int) {
			t.Helper()
			r.create(name)
			r.referenceAndGet(name)
			r.wantFirstReads("first", name, 1, consistent)
		}
		get(minute, "one", 1)
		time.Sleep(500 * time.Millisecond)
		get(minute, "two", 0)
		get(second, "three", 0)
		configMaps.AddReference(namespace, "four", "pod")
		time.Sleep(time.Second)
		minute.wantFirstReads("of another resource", "four", 1, 1)
		get(second, "five", 1)
		get(minute, "six", 0)
		get(strict, "seven", 1)
		late.run()
		late.withoutGets()
		get(late, "eight", 1)
		for _, r := range []*rig{strict, second, minute, late} {
			r.stop()
		}
	})
}

// An immutable object whose first read may be from before its reference is read once more, because no stream reports
// that it was created again. A new owner needs a read of its own.
func TestFirstReadOfAnImmutableObject(t *testing.T) {
	for name, recheck := range map[string]time.Duration{"default": 0, "never": -1} {
		t.Run(name, func(t *testing.T) {
			options := firstReads
			options.ImmutableRecheck = recheck
			inBubble(t, options, func(t *testing.T, r *rig) {
				r.withoutGets()
				r.create("first", immutable)
				old := r.create("tls", immutable).UID
				r.referenceAndGet("first")
				r.server.Lag(3 * time.Second)
				r.remove("tls")
				recreated := r.create("tls", immutable).UID
				if got := r.referenceAndGet("tls").UID; got != old {
					t.Fatalf("while the server lags: got UID %s, want that of before", got)
				}
				r.wantFirstReads("at first", "tls", 1, 0)
				r.server.CatchUp()
				time.Sleep(2 * time.Second)
				r.within("tls", time.Nanosecond, recreated)
				r.wantFirstReads("once more", "tls", 2, 1)
				time.Sleep(5 * time.Minute)
				r.wantFirstReads("later", "tls", 2, 1)
				r.wantFirstReads("a consistent one", "first", 1, 1)
				r.AddReference(namespace, "tls", "pod-2")
				r.mustGet("tls")
				r.wantFirstReads("for a new owner", "tls", 3, 2)
			})
		})
	}
}

// After a restore of etcd the first read gets the state that was restored, though the server does not have the version
// of the consistent read.
func TestFirstReadAfterARestore(t *testing.T) {
	inBubble(t, firstReads, func(t *testing.T, r *rig) {
		r.withoutGets()
		r.create("first")
		r.create("tls")
		backup := r.server.Snapshot()
		r.update("tls", "undone")
		r.referenceAndGet("first")
		r.server.Restore(backup)
		r.AddReference(namespace, "tls", "pod")
		r.mustGetWithin("tls", 10*time.Second)
		r.wantValue("after the restore", "tls", canary)
	})
}

// A server without WatchList answers each first read with a consistent list.
func TestFirstReadsWithoutWatchList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, apiserver.Options{InMemory: true, DisableWatchList: true}, firstReads)
		r.withoutGets()
		r.run()
		defer r.stop()
		for i := range 5 {
			name := fmt.Sprint("tls-", i)
			r.create(name)
			r.referenceAndGet(name)
			lists := 0
			for _, request := range r.server.Requests() {
				if request.Name == name && request.Verb == "list" && request.Query.Get("resourceVersion") == "" {
					lists++
				}
			}
			if lists != 1 {
				t.Errorf("consistent lists of %s: got %d, want 1", name, lists)
			}
		}
	})
}
