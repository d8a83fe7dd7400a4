// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/refwatch/refwatch/internal/reflector"
	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/test/apiserver"
)

// demand calls GetWithOptions with a time-out of a minute.
func (r *rig) demand(name string, options objectcache.GetOptions) (*corev1.Secret, error) {
	return r.demandFor(time.Minute, name, options)
}

func (r *rig) demandFor(limit time.Duration, name string, options objectcache.GetOptions) (*corev1.Secret, error) {
	ctx, cancel := context.WithTimeout(r.t.Context(), limit)
	defer cancel()
	return r.GetWithOptions(ctx, namespace, name, options)
}

func valueOf(secret *corev1.Secret) string {
	if secret == nil {
		return ""
	}
	return string(secret.Data["password"])
}

// referenced creates an object with a reference, and waits until it is in memory.
func (r *rig) referenced(name string, change ...func(*corev1.Secret)) *corev1.Secret {
	r.t.Helper()
	created := r.create(name, change...)
	r.AddReference(namespace, name, "pod")
	r.mustGet(name)
	return created
}

// After a restore from a backup an open stream is silent. Memory holds a state that the
// server no longer has, and a live read shows it.
func TestLiveGetReadsFromTheServer(t *testing.T) {
	inBubble(t, objectcache.WatchOptions{}, func(t *testing.T, r *rig) {
		r.referenced("tls")
		before := r.server.Snapshot()
		r.update("tls", "lost")
		r.server.Restore(before)
		if got := valueOf(r.mustGet("tls")); got != "lost" {
			t.Fatalf("Get: got %q, want the state in memory", got)
		}
		began := time.Now()
		got, err := r.demand("tls", objectcache.GetOptions{Live: true})
		if err != nil || valueOf(got) != canary {
			t.Errorf("live: got %q, %v, want the state on the server", valueOf(got), err)
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("live: took %v, want at most 1 s", took)
		}
		if got := r.streams("tls"); got != 1 {
			t.Errorf("streams after it: got %d, want 1", got)
		}
	})
}

func TestLiveGetOfAnImmutableObject(t *testing.T) {
	inBubble(t, objectcache.WatchOptions{}, func(t *testing.T, r *rig) {
		r.referenced("tls", immutable)
		r.remove("tls")
		recreated := r.create("tls", immutable)
		got, err := r.demand("tls", objectcache.GetOptions{Live: true})
		if err != nil || got.UID != recreated.UID {
			t.Errorf("got %v, want the recreated object", err)
		}
		r.remove("tls")
		if _, err := r.demand("tls", objectcache.GetOptions{Live: true}); !apierrors.IsNotFound(err) {
			t.Errorf("deleted: got %v, want NotFound", err)
		}
	})
}

// Each live Get needs a read that begins after it. Those that come while one is under
// way share the next one.
func TestLiveGetsShareReads(t *testing.T) {
	inBubble(t, objectcache.WatchOptions{}, func(t *testing.T, r *rig) {
		r.referenced("tls")
		before, release := r.opens("tls"), r.holdBack("watch")
		done := make(chan error, 1000)
		for range 1000 {
			go func() {
				_, err := r.demand("tls", objectcache.GetOptions{Live: true})
				done <- err
			}()
		}
		synctest.Wait()
		release()
		for range 1000 {
			if err := <-done; err != nil {
				t.Fatal(err)
			}
		}
		if got := r.opens("tls") - before; got < 1 || got > 3 {
			t.Errorf("reads: got %d, want 1 to 3", got)
		}
	})
}

// One caller that reads live again and again waits about a second for each read, and no
// longer from one to the next. The cause of a failure is in its error.
func TestLiveGetsInARow(t *testing.T) {
	inBubble(t, objectcache.WatchOptions{}, func(t *testing.T, r *rig) {
		r.referenced("tls")
		before, began := r.opens("tls"), time.Now()
		for i := range 20 {
			at := time.Now()
			if _, err := r.demand("tls", objectcache.GetOptions{Live: true}); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(at); took > 2*time.Second {
				t.Errorf("live Get %d: took %v, want at most 2 s", i, took)
			}
		}
		if got, most := r.opens("tls")-before, int(time.Since(began)/time.Second)+3; got != 20 || got > most {
			t.Errorf("reads: got %d in %v, want 20, and at most about one a second", got, time.Since(began))
		}
		r.refuse(unavailable())
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		if _, err := r.GetWithOptions(ctx, namespace, "tls", objectcache.GetOptions{Live: true}); !apierrors.IsServiceUnavailable(err) {
			t.Errorf("failing: got %v, want the cause within 3 s", err)
		}
	})
}

// Objects without a stream have no pause between two reads: the Gets are spaced instead,
// however many there are, and also if the reads fail.
func TestLiveGetsWithoutAStream(t *testing.T) {
	manyStreams(t)
	for name, refused := range map[string]bool{"healthy": false, "refused": true} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, objectcache.WatchOptions{}, func(t *testing.T, r *rig) {
				r.referenced("tls", immutable)
				if refused {
					r.refuse(forbidden())
				}
				before := len(r.server.Requests())
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				var callers sync.WaitGroup
				for range 20 {
					callers.Go(func() {
						for ctx.Err() == nil {
							get, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
							_, _ = r.GetWithOptions(get, namespace, "tls", objectcache.GetOptions{Live: true})
							cancel()
							time.Sleep(10 * time.Millisecond)
						}
					})
				}
				callers.Wait()
				// A read in 250 ms. One that is refused lists and watches, and has time for one more attempt.
				if got, most := len(r.server.Requests())-before, map[bool]int{false: 41, true: 41 * 4}[refused]; got < 5 || got > most {
					t.Errorf("requests in 10 s: got %d, want 5 to %d", got, most)
				}
			})
		})
	}
}

func TestGetNotOlderThan(t *testing.T) {
	inBubble(t, objectcache.WatchOptions{}, func(t *testing.T, r *rig) {
		r.referenced("tls")
		demand := func(version string) (*corev1.Secret, error) {
			return r.demand("tls", objectcache.GetOptions{NotOlderThan: version})
		}
		for i := range 10 {
			value := fmt.Sprint(i)
			version := r.update("tls", value).ResourceVersion
			if got, err := demand(version); err != nil || valueOf(got) != value {
				t.Errorf("own write: got %q, %v, want %s", valueOf(got), err, value)
			}
		}
		if got := r.opens("tls"); got != 1 {
			t.Errorf("opens after own writes: got %d, want 1, as events brought them", got)
		}
		version := r.create("other").ResourceVersion
		began := time.Now()
		if _, err := demand(version); err != nil || r.opens("tls") != 2 {
			t.Errorf("version of another object: got %v and %d opens, want a read", err, r.opens("tls"))
		}
		if took := time.Since(began); took < 100*time.Millisecond || took > time.Second {
			t.Errorf("version of another object: took %v, want 100 ms for an event, and a read", took)
		}
		began = time.Now()
		_, err := demand(r.server.ResourceVersion() + "0")
		if !errors.Is(err, objectcache.ErrNotSynced) || !errors.Is(err, objectcache.ErrStale) || !strings.Contains(err.Error(), "the server is behind the version") {
			t.Errorf("version of the future: got %v, want ErrStale", err)
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("version of the future: took %v, want one read only", took)
		}
	})
}

// A write that is lost in a restore from a backup is not waited for.
func TestGetNotOlderThanALostWrite(t *testing.T) {
	inBubble(t, objectcache.WatchOptions{}, func(t *testing.T, r *rig) {
		r.referenced("tls")
		before := r.server.Snapshot()
		for range 10 {
			r.create("other-" + r.server.ResourceVersion())
		}
		lost := r.update("tls", "lost").ResourceVersion
		r.server.Restore(before)
		if got, err := r.demand("tls", objectcache.GetOptions{NotOlderThan: lost}); err != nil || valueOf(got) != "lost" {
			t.Errorf("in memory: got %q, %v, want the state that memory has", valueOf(got), err)
		}
		if _, err := r.demand("tls", objectcache.GetOptions{Live: true}); err != nil {
			t.Errorf("live: got %v, want the restored state", err)
		}
		if _, err := r.demand("tls", objectcache.GetOptions{NotOlderThan: lost}); !errors.Is(err, objectcache.ErrStale) {
			t.Errorf("after the rollback was noticed: got %v, want ErrStale", err)
		}
	})
}

func TestGetWithMaxStaleness(t *testing.T) {
	inBubble(t, objectcache.WatchOptions{MaxStaleness: 5 * time.Minute}, func(t *testing.T, r *rig) {
		r.referenced("tls")
		time.Sleep(30 * time.Second) // bookmarks come once a minute
		for _, test := range []struct {
			bound time.Duration
			opens int
		}{{time.Minute, 1}, {0, 1}, {10 * time.Second, 2}, {10 * time.Second, 2}} {
			if _, err := r.demand("tls", objectcache.GetOptions{MaxStaleness: test.bound}); err != nil {
				t.Errorf("%v: %v", test.bound, err)
			}
			if got := r.opens("tls"); got != test.opens {
				t.Errorf("opens with a bound of %v: got %d, want %d", test.bound, got, test.opens)
			}
		}
		r.refuse(unavailable())
		r.server.CloseStreams(nil)
		time.Sleep(30 * time.Second)
		r.mustGet("tls")
		if status, _ := r.Status(namespace, "tls"); !errors.Is(status.Waiting, reflector.ErrWaiting) {
			t.Errorf("in an outage: got %v, want that the object waits for an attempt", status.Waiting)
		}
		if _, err := r.demand("tls", objectcache.GetOptions{MaxStaleness: time.Second}); !errors.Is(err, objectcache.ErrStale) || !apierrors.IsServiceUnavailable(err) {
			t.Errorf("in an outage: got %v, want ErrStale and the cause", err)
		}
	})
}

func TestGetWithInvalidOptions(t *testing.T) {
	inBubble(t, objectcache.WatchOptions{}, func(t *testing.T, r *rig) {
		r.referenced("tls")
		for want, options := range map[string]objectcache.GetOptions{
			`GetOptions.NotOlderThan: malformed: resource version "yesterday"`: {NotOlderThan: "yesterday"},
		} {
			if _, err := r.demand("tls", options); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), `secrets "default/tls"`) {
				t.Errorf("got %v, want the key and %q", err, want)
			}
		}
		//nolint:staticcheck // a nil context is the case
		if _, err := r.GetWithOptions(nil, namespace, "tls", objectcache.GetOptions{}); !errors.Is(err, objectcache.ErrNilContext) {
			t.Errorf("nil context: got %v", err)
		}
	})
}

func TestTryGet(t *testing.T) {
	beforeRun(t, objectcache.WatchOptions{}, func(t *testing.T, r *rig) {
		try := func(name string) error {
			began := time.Now()
			secret, err := r.TryGet(namespace, name)
			if took := time.Since(began); took != 0 {
				t.Errorf("TryGet took %v, want no wait", took)
			}
			if (secret == nil) != (err != nil) {
				t.Errorf("got %v and %v, want one of them", secret, err)
			}
			return err
		}
		if err := try("tls"); !errors.Is(err, objectcache.ErrNotRegistered) {
			t.Errorf("no reference: got %v", err)
		}
		r.create("tls")
		for _, name := range []string{"tls", "absent"} {
			r.AddReference(namespace, name, "pod")
		}
		if err := try("tls"); !errors.Is(err, objectcache.ErrNotSynced) || !errors.Is(err, objectcache.ErrNotStarted) {
			t.Errorf("before Run: got %v, want ErrNotStarted", err)
		}
		release := r.holdBack("watch")
		r.run()
		if err := try("tls"); !errors.Is(err, objectcache.ErrNotSynced) || errors.Is(err, context.Canceled) || !strings.HasSuffix(err.Error(), "no answer from the server") {
			t.Errorf("no answer yet: got %v, want ErrNotSynced with the cause", err)
		}
		release()
		synctest.Wait()
		if err := try("tls"); err != nil {
			t.Errorf("synced: got %v", err)
		}
		if err := try("absent"); !apierrors.IsNotFound(err) {
			t.Errorf("absent: got %v, want NotFound", err)
		}
	})
}

// A TryGet that fails asks for the object, as a Get does: an idle object is watched
// again, and an attempt that failed is repeated soon.
func TestTryGetAsksForTheObject(t *testing.T) {
	inBubble(t, objectcache.WatchOptions{IdleTimeout: time.Minute}, func(t *testing.T, r *rig) {
		r.referenced("tls")
		time.Sleep(3 * time.Minute)
		if got := r.phase("tls"); got != objectcache.PhaseIdle {
			t.Fatalf("phase: got %s, want Idle", got)
		}
		release := r.holdBack("watch")
		if _, err := r.TryGet(namespace, "tls"); !errors.Is(err, objectcache.ErrNotSynced) {
			t.Errorf("idle: got %v, want ErrNotSynced", err)
		}
		release()
		synctest.Wait()
		if _, err := r.TryGet(namespace, "tls"); err != nil {
			t.Errorf("afterwards: got %v, want the object", err)
		}
	})
}

// A Get has the version of a GET beside a slow first read.
func TestGetNotOlderThanAHedgedRead(t *testing.T) {
	inBubble(t, objectcache.WatchOptions{}, func(t *testing.T, r *rig) {
		gets := r.slowOpenings(time.Hour)
		version := r.create("tls").ResourceVersion
		r.AddReference(namespace, "tls", "pod")
		r.mustGet("tls")
		began := time.Now()
		_, err := r.demand("tls", objectcache.GetOptions{NotOlderThan: version})
		if took := time.Since(began); err != nil || took > 0 || gets.Load() != 1 {
			t.Errorf("got error %v after %v and %d GETs, want the object in memory, of one GET", err, took, gets.Load())
		}
	})
}

// A read shows that an object without a stream has not changed up to a version. A Get that demands the version has it,
// although the object is read again at once for a new owner.
func TestGetNotOlderThanWithANewOwner(t *testing.T) {
	inBubble(t, objectcache.WatchOptions{}, func(t *testing.T, r *rig) {
		r.create("fixed", immutable)
		r.AddReference(namespace, "fixed", "pod-1")
		r.mustGet("fixed")
		version := r.create("other").ResourceVersion
		r.server.Intercept(func(_ context.Context, request apiserver.Request) *metav1.Status {
			if request.Verb == "list" {
				time.Sleep(time.Second)
			}
			return nil
		})
		owner := time.AfterFunc(500*time.Millisecond, func() { r.AddReference(namespace, "fixed", "pod-2") })
		defer owner.Stop()
		if _, err := r.demand("fixed", objectcache.GetOptions{NotOlderThan: version}); err != nil {
			t.Errorf("got %v, want the object, as it was read", err)
		}
		r.server.Intercept(nil)
	})
}
