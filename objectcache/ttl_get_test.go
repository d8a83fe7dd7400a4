// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/refwatch/refwatch/objectcache"
)

// wantReads checks how many GETs of an object the server has received so far.
func (r *rig) wantReads(when, name string, want int) {
	r.t.Helper()
	if got := r.requests("get", name); got != want {
		r.t.Errorf("%s: got %d reads, want %d", when, got, want)
	}
}

func TestTTLGetServesFromMemory(t *testing.T) {
	inBubble(t, objectcache.TTLOptions{}, func(t *testing.T, r *rig) {
		first := r.create("tls")
		r.AddReference(namespace, "tls", "pod")
		r.wantReads("a reference alone", "tls", 0)
		held := r.mustGet("tls")
		if held.UID != first.UID {
			t.Fatalf("got %v, want the object", held)
		}
		for range 10 {
			if r.mustGet("tls") != held {
				t.Error("within the TTL: got another object, want the one in memory")
			}
		}
		time.Sleep(time.Minute - time.Second)
		r.update("tls", "new")
		if r.mustGet("tls") != held {
			t.Error("59 s later: got another object, want the one in memory")
		}
		r.wantReads("within the TTL", "tls", 1)
		time.Sleep(time.Second)
		if got := valueOf(r.mustGet("tls")); got != "new" {
			t.Errorf("after the TTL: got %q, want new", got)
		}
		r.wantReads("after the TTL", "tls", 2)
		held = r.mustGet("tls")
		time.Sleep(time.Minute)
		if r.mustGet("tls") != held {
			t.Error("read again, unchanged: got another object, want the same one")
		}
		time.Sleep(time.Hour)
		r.wantReads("without Gets", "tls", 3)
	})
}

func TestTTLGetDoesNotAllocate(t *testing.T) {
	for name, refresh := range map[string]*apierrors.StatusError{"fresh": nil, "while it cannot be read": unavailable()} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, objectcache.TTLOptions{}, func(t *testing.T, r *rig) {
				r.referenced("tls")
				if refresh != nil {
					r.refuse(refresh)
					time.Sleep(time.Hour)
					r.mustGet("tls")
				}
				var got *corev1.Secret
				ctx := t.Context()
				if n := testing.AllocsPerRun(100, func() { got, _ = r.Get(ctx, namespace, "tls") }); n != 0 || got == nil {
					t.Errorf("got %v allocations per Get and %v, want 0 and the object", n, got)
				}
			})
		})
	}
}

// Callers share a read, which goes on when the context of its first caller has ended.
func TestTTLGetsShareARead(t *testing.T) {
	inBubble(t, objectcache.TTLOptions{}, func(t *testing.T, r *rig) {
		r.create("tls")
		r.AddReference(namespace, "tls", "pod")
		release := r.holdBack("get")
		ctx, cancel := context.WithCancelCause(t.Context())
		first := r.async(ctx, "tls")
		var others []<-chan result
		for range 100 {
			others = append(others, r.async(t.Context(), "tls"))
		}
		time.Sleep(time.Second)
		cause := errors.New("the pod is gone")
		cancel(cause)
		got := <-first
		for _, want := range []error{objectcache.ErrNotSynced, context.Canceled, cause} {
			if !errors.Is(got.err, want) {
				t.Errorf("first caller: got %v, want %v in it", got.err, want)
			}
		}
		if text := `secrets "default/tls": not synced: context canceled; the pod is gone; no answer for 1s`; got.err.Error() != text {
			t.Errorf("first caller: got %v, want %s", got.err, text)
		}
		synctest.Wait()
		release()
		for _, other := range others {
			if got := <-other; got.err != nil || valueOf(got.secret) != canary {
				t.Errorf("other caller: got %v, want the object", got.err)
			}
		}
		r.wantReads("all", "tls", 1)
	})
}

func TestTTLGetErrors(t *testing.T) {
	inBubble(t, objectcache.TTLOptions{}, func(t *testing.T, r *rig) {
		if _, err := r.Get(t.Context(), namespace, "tls"); !errors.Is(err, objectcache.ErrNotRegistered) {
			t.Errorf("without reference: got %v, want ErrNotRegistered", err)
		}
		if _, err := r.TryGet(namespace, "tls"); !errors.Is(err, objectcache.ErrNotRegistered) {
			t.Errorf("TryGet without reference: got %v, want ErrNotRegistered", err)
		}
		r.AddReference(namespace, "a/b", "pod")
		if _, err := r.Get(t.Context(), namespace, "a/b"); !errors.Is(err, objectcache.ErrInvalidName) {
			t.Errorf("invalid name: got %v, want ErrInvalidName", err)
		}
		for name, options := range map[string]objectcache.GetOptions{"MaxStaleness": {MaxStaleness: -1}, "NotOlderThan": {NotOlderThan: "x"}} {
			if _, err := r.demand("tls", options); err == nil || !strings.Contains(err.Error(), name) {
				t.Errorf("invalid %s: got %v, want an error that names it", name, err)
			}
		}
		r.wantReads("invalid", "tls", 0)

		r.AddReference(namespace, "tls", "pod")
		release := r.holdBack("get")
		waiting := r.async(t.Context(), "tls")
		r.DeleteReference(namespace, "tls", "pod")
		if got := <-waiting; !errors.Is(got.err, objectcache.ErrNotRegistered) {
			t.Errorf("last reference deleted: got %v, want ErrNotRegistered", got.err)
		}
		r.AddReference(namespace, "tls", "pod")
		waiting = r.async(t.Context(), "tls")
		release()
		r.stop()
		if got := <-waiting; !errors.Is(got.err, objectcache.ErrStopped) && !apierrors.IsNotFound(got.err) {
			t.Errorf("stopped: got %v, want ErrStopped", got.err)
		}
		if _, err := r.TryGet(namespace, "tls"); !errors.Is(err, objectcache.ErrStopped) {
			t.Errorf("TryGet after it: got %v, want ErrStopped", err)
		}
		if got := r.phase("tls"); got != objectcache.Stopped {
			t.Errorf("phase: got %s, want Stopped", got)
		}
		if err := r.Run(t.Context()); !errors.Is(err, objectcache.ErrAlreadyStarted) {
			t.Errorf("second Run: got %v, want ErrAlreadyStarted", err)
		}
	})
}

func TestTTLNewErrors(t *testing.T) {
	for name, options := range map[string]objectcache.StoreOptions{
		"TTLOptions.MaxStaleness is -1ns": objectcache.TTLOptions{MaxStaleness: -1},
		"new TTL store: resource":         objectcache.TTLOptions{},
		"new direct store: resource":      objectcache.DirectOptions{},
	} {
		if store, err := objectcache.NewStore(objectcache.Secrets(nil), options); store != nil || err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("got %v, %v, want no store and an error with %q", store, err, name)
		}
	}
}

// A Get before Run waits for it.
func TestTTLBeforeRun(t *testing.T) {
	beforeRun(t, objectcache.TTLOptions{}, func(t *testing.T, r *rig) {
		r.create("tls")
		r.AddReference(namespace, "tls", "pod")
		if _, err := r.get("tls", 2*time.Second); !errors.Is(err, objectcache.ErrNotStarted) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want ErrNotStarted and DeadlineExceeded", err)
		}
		if got := r.phase("tls"); got != objectcache.Pending {
			t.Errorf("phase: got %s, want Pending", got)
		}
		waiting := r.async(t.Context(), "tls")
		r.wantReads("before Run", "tls", 0)
		r.run()
		if got := <-waiting; got.err != nil {
			t.Errorf("got %v, want the object after Run", got.err)
		}
	})
}

// A new object is seen after NotFoundTTL. Until then no Get asks the server.
func TestTTLNotFoundIsCachedForAMoment(t *testing.T) {
	inBubble(t, objectcache.TTLOptions{}, func(t *testing.T, r *rig) {
		r.AddReference(namespace, "tls", "pod")
		for range 9 {
			if _, err := r.get("tls", time.Second); !apierrors.IsNotFound(err) {
				t.Fatalf("got %v, want NotFound", err)
			}
			time.Sleep(100 * time.Millisecond)
		}
		r.wantReads("within 900 ms", "tls", 1)
		r.create("tls")
		time.Sleep(100 * time.Millisecond)
		r.mustGet("tls")
		r.wantReads("after 1 s", "tls", 2)
		r.remove("tls")
		time.Sleep(time.Minute)
		r.refuse(unavailable())
		r.mustGet("tls")
		r.refuse(nil)
		time.Sleep(20 * time.Second)
		if _, err := r.get("tls", time.Second); !apierrors.IsNotFound(err) {
			t.Fatalf("deleted: got %v, want NotFound", err)
		}
		r.refuse(unavailable())
		time.Sleep(time.Second)
		if _, err := r.get("tls", 10*time.Second); apierrors.IsNotFound(err) || !errors.Is(err, objectcache.ErrNotSynced) {
			t.Errorf("absence read too long ago: got %v, want ErrNotSynced and not NotFound", err)
		}
	})
}

// An object that cannot be read again is served, and its failure is in the status.
func TestTTLPreviousObjectWhileItCannotBeRead(t *testing.T) {
	for name, cause := range map[string]*apierrors.StatusError{"down": unavailable(), "refused": forbidden(), "not served": notFound()} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, objectcache.TTLOptions{}, func(t *testing.T, r *rig) {
				created := r.referenced("tls")
				r.refuse(cause)
				time.Sleep(time.Minute)
				began := time.Now()
				for range 100 {
					r.within("tls", 2*time.Second, created.UID)
				}
				if took := time.Since(began); took > time.Second {
					t.Errorf("100 Gets took %v, want at most the first one to wait", took)
				}
				time.Sleep(time.Hour)
				r.within("tls", time.Nanosecond, created.UID)
				if got := r.requests("get", "tls"); got < 200 || got > 600 {
					t.Errorf("reads in an hour: got %d, want one in 7.5 to 15 s", got)
				}
				status, _ := r.Status(namespace, "tls")
				if status.Phase != objectcache.Failing || status.Failures < 100 || status.LastError == nil || status.UID != created.UID ||
					time.Since(status.LastContact) < time.Hour || time.Since(status.LastErrorTime) > 15*time.Second {
					t.Errorf("status: got %+v, want Failing, with the cause", status)
				}
				r.update("tls", "new")
				r.refuse(nil)
				time.Sleep(15 * time.Second)
				if got := valueOf(r.mustGet("tls")); got != "new" {
					t.Errorf("after it: got %q, want new", got)
				}
				if got := r.phase("tls"); got != objectcache.Cached {
					t.Errorf("phase: got %s, want Cached", got)
				}
			})
		})
	}
}

func TestTTLMaxStaleness(t *testing.T) {
	inBubble(t, objectcache.TTLOptions{MaxStaleness: 5 * time.Minute}, func(t *testing.T, r *rig) {
		r.referenced("tls")
		r.referenced("fixed", immutable)
		r.refuse(unavailable())
		time.Sleep(5 * time.Minute)
		r.mustGet("tls")
		time.Sleep(time.Second)
		for name, get := range map[string]func() (*corev1.Secret, error){
			"Get":    func() (*corev1.Secret, error) { return r.get("tls", time.Second) },
			"TryGet": func() (*corev1.Secret, error) { return r.TryGet(namespace, "tls") },
		} {
			_, err := get()
			if !errors.Is(err, objectcache.ErrStale) || !errors.Is(err, objectcache.ErrNotSynced) || !apierrors.IsServiceUnavailable(err) {
				t.Errorf("%s: got %v, want ErrStale and the cause", name, err)
			}
		}
		r.mustGet("fixed")
		time.Sleep(time.Hour)
		r.mustGet("fixed") // immutable objects are never stale
		waiting := r.async(t.Context(), "tls")
		r.refuse(nil)
		if got := <-waiting; got.err != nil {
			t.Errorf("after it: got %v, want the object", got.err)
		}
	})
}

// The first read of an object is refused for a moment: the Node authorizer lags.
func TestTTLRefusal(t *testing.T) {
	inBubble(t, objectcache.TTLOptions{}, func(t *testing.T, r *rig) {
		r.create("tls")
		r.AddReference(namespace, "tls", "pod")
		r.refuse(forbidden())
		waiting := r.async(t.Context(), "tls")
		time.Sleep(250 * time.Millisecond)
		r.refuse(nil)
		if got := <-waiting; got.err != nil {
			t.Errorf("granted after 250 ms: got %v, want the object", got.err)
		}
		r.AddReference(namespace, "other", "pod")
		r.refuse(forbidden())
		began := time.Now()
		_, err := r.get("other", time.Minute)
		if took := time.Since(began); !apierrors.IsForbidden(err) || took != time.Second {
			t.Errorf("refused: got %v after %v, want Forbidden after 1 s", err, took)
		}
		if _, err := r.get("other", time.Nanosecond); !apierrors.IsForbidden(err) {
			t.Errorf("again: got %v, want Forbidden at once", err)
		}
	})
}

// An object is read once for a new owner, and not for one that has a reference.
func TestTTLNewOwner(t *testing.T) {
	inBubble(t, objectcache.TTLOptions{}, func(t *testing.T, r *rig) {
		r.referenced("tls")
		r.AddReference(namespace, "tls", "pod") // a second reference of the same owner
		r.mustGet("tls")
		r.wantReads("the same owner", "tls", 1)
		r.remove("tls")
		recreated := r.create("tls")
		r.AddReference(namespace, "tls", "new")
		for range 100 {
			if got := r.mustGet("tls"); got.UID != recreated.UID {
				t.Fatalf("new owner: got UID %s, want %s", got.UID, recreated.UID)
			}
		}
		r.wantReads("a new owner", "tls", 2)

		r.AddReference(namespace, "tls", "third")
		r.DeleteReference(namespace, "tls", "third")
		r.mustGet("tls")
		r.wantReads("an owner that is gone", "tls", 2)

		// A read that began before the owner was added is not enough.
		time.Sleep(time.Minute)
		release := r.holdBack("get")
		before := r.async(t.Context(), "tls")
		r.AddReference(namespace, "tls", "fourth")
		after := r.async(t.Context(), "tls")
		release()
		<-before
		<-after
		r.wantReads("an owner added during a read", "tls", 4)

		// If the read fails, all owners get the object that is held.
		r.refuse(unavailable())
		r.AddReference(namespace, "tls", "fifth")
		r.within("tls", 2*time.Second, recreated.UID)
		failed := r.requests("get", "tls")
		for range 100 {
			r.within("tls", time.Nanosecond, recreated.UID)
		}
		if got := r.requests("get", "tls"); got != failed {
			t.Errorf("100 Gets after the failure: got %d reads, want none", got-failed)
		}
		r.AddReference(namespace, "tls", "sixth")
		if _, err := r.TryGet(namespace, "tls"); !errors.Is(err, objectcache.ErrNotSynced) {
			t.Errorf("TryGet for an owner without an attempt: got %v, want ErrNotSynced", err)
		}
	})
}

// An immutable object is read for new owners, and now and then.
func TestTTLImmutable(t *testing.T) {
	inBubble(t, objectcache.TTLOptions{}, func(t *testing.T, r *rig) {
		r.referenced("tls", immutable)
		time.Sleep(10*time.Minute - time.Second)
		r.mustGet("tls")
		r.wantReads("within ImmutableRecheck", "tls", 1)
		r.remove("tls")
		recreated := r.create("tls", immutable)
		r.AddReference(namespace, "tls", "new")
		r.within("tls", time.Second, recreated.UID)
		r.remove("tls")
		time.Sleep(20 * time.Minute)
		if _, err := r.get("tls", time.Second); !apierrors.IsNotFound(err) {
			t.Errorf("after ImmutableRecheck: got %v, want NotFound", err)
		}
	})
	inBubble(t, objectcache.TTLOptions{ImmutableRecheck: -1}, func(t *testing.T, r *rig) {
		r.referenced("tls", immutable)
		time.Sleep(1000 * time.Hour)
		r.mustGet("tls")
		r.wantReads("without ImmutableRecheck", "tls", 1)
	})
}

// TryGet never waits, and asks for a read if memory is too old.
func TestTTLTryGet(t *testing.T) {
	inBubble(t, objectcache.TTLOptions{}, func(t *testing.T, r *rig) {
		r.create("tls")
		r.AddReference(namespace, "tls", "pod")
		if _, err := r.TryGet(namespace, "tls"); !errors.Is(err, objectcache.ErrNotSynced) {
			t.Errorf("at first: got %v, want ErrNotSynced", err)
		}
		synctest.Wait()
		if got, err := r.TryGet(namespace, "tls"); err != nil || valueOf(got) != canary {
			t.Errorf("after the read: got %v, want the object", err)
		}
		r.update("tls", "new")
		time.Sleep(time.Minute)
		if got, err := r.TryGet(namespace, "tls"); err != nil || valueOf(got) != canary {
			t.Errorf("after the TTL: got %q, %v, want the previous object", valueOf(got), err)
		}
		synctest.Wait()
		if got, err := r.TryGet(namespace, "tls"); err != nil || valueOf(got) != "new" {
			t.Errorf("read again: got %q, %v, want new", valueOf(got), err)
		}
		r.remove("tls")
		time.Sleep(time.Minute)
		_, _ = r.TryGet(namespace, "tls")
		synctest.Wait()
		if _, err := r.TryGet(namespace, "tls"); !apierrors.IsNotFound(err) {
			t.Errorf("deleted: got %v, want NotFound", err)
		}
		time.Sleep(time.Second)
		if _, err := r.TryGet(namespace, "tls"); !errors.Is(err, objectcache.ErrNotSynced) {
			t.Errorf("after NotFoundTTL: got %v, want ErrNotSynced", err)
		}
	})
}

func TestTTLGetWithOptions(t *testing.T) {
	inBubble(t, objectcache.TTLOptions{}, func(t *testing.T, r *rig) {
		first := r.referenced("tls")
		updated := r.update("tls", "new")
		get := func(when, want string, options objectcache.GetOptions, reads int) {
			t.Helper()
			before := r.requests("get", "tls")
			if got, err := r.demand("tls", options); err != nil || valueOf(got) != want {
				t.Errorf("%s: got %q, %v, want %q", when, valueOf(got), err, want)
			}
			if got := r.requests("get", "tls") - before; got != reads {
				t.Errorf("%s: got %d reads, want %d", when, got, reads)
			}
		}
		get("no demand", canary, objectcache.GetOptions{}, 0)
		get("an old version", canary, objectcache.GetOptions{NotOlderThan: first.ResourceVersion}, 0)
		get("its own write", "new", objectcache.GetOptions{NotOlderThan: updated.ResourceVersion}, 1)
		get("its own write again", "new", objectcache.GetOptions{NotOlderThan: updated.ResourceVersion}, 0)
		r.update("tls", "newer")
		get("live", "newer", objectcache.GetOptions{Live: true}, 1)
		get("live again", "newer", objectcache.GetOptions{Live: true}, 1)
		time.Sleep(10 * time.Second)
		r.update("tls", "newest")
		get("young enough", "newer", objectcache.GetOptions{MaxStaleness: 11 * time.Second}, 0)
		get("too old", "newest", objectcache.GetOptions{MaxStaleness: 9 * time.Second}, 1)

		began := time.Now()
		_, err := r.demand("tls", objectcache.GetOptions{NotOlderThan: "1000000"})
		if !errors.Is(err, objectcache.ErrStale) || !errors.Is(err, objectcache.ErrNotSynced) || time.Since(began) > time.Second {
			t.Errorf("a version that the server does not have: got %v after %v, want ErrStale at once", err, time.Since(began))
		}
		r.remove("tls")
		if _, err := r.demand("tls", objectcache.GetOptions{NotOlderThan: "1000000"}); !apierrors.IsNotFound(err) {
			t.Errorf("deleted: got %v, want NotFound", err)
		}
		r.create("tls")
		get("not the absence in memory", canary, objectcache.GetOptions{NotOlderThan: "1"}, 1)
		r.refuse(unavailable())
		if _, err := r.demand("tls", objectcache.GetOptions{Live: true}); !apierrors.IsServiceUnavailable(err) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("live, and the server is down: got %v, want the cause when the context ends", err)
		}
		r.mustGet("tls")
	})
}

// A read that began before the call is not live, and with a TTL of 0 it is not enough
// for any Get. Gets that wait share the next one.
func TestTTLLiveReadBeginsAfterTheCall(t *testing.T) {
	for name, options := range map[string]objectcache.TTLOptions{"live": {}, "TTL 0": {TTL: -1}} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, options, func(t *testing.T, r *rig) {
				r.create("tls")
				r.AddReference(namespace, "tls", "pod")
				release := r.holdBack("get")
				first := r.async(t.Context(), "tls")
				var gets sync.WaitGroup
				for range 10 {
					gets.Go(func() {
						if _, err := r.demand("tls", objectcache.GetOptions{Live: name == "live"}); err != nil {
							t.Errorf("got %v, want the object", err)
						}
					})
				}
				synctest.Wait()
				release()
				gets.Wait()
				<-first
				r.wantReads("all", "tls", 2)
			})
		})
	}
}

// A store whose TTL is 0 reads for each Get. Gets that wait share a read.
func TestTTLZero(t *testing.T) {
	ttl, ok := time.Duration(0), true
	options := objectcache.TTLOptions{TTLFunc: func() (time.Duration, bool) { return ttl, ok }}
	inBubble(t, options, func(t *testing.T, r *rig) {
		r.referenced("tls")
		for i, value := range []string{"1", "2", "3"} {
			r.update("tls", value)
			if got := valueOf(r.mustGet("tls")); got != value {
				t.Errorf("TTL 0: got %q, want %q", got, value)
			}
			r.wantReads("TTL 0", "tls", i+2)
		}
		var gets sync.WaitGroup
		for range 100 {
			gets.Go(func() { r.mustGet("tls") })
		}
		gets.Wait()
		r.wantReads("100 Gets at once", "tls", 5)
		ttl = time.Hour
		r.mustGet("tls")
		time.Sleep(time.Hour - time.Second)
		r.mustGet("tls")
		r.wantReads("TTL 1 h", "tls", 6)
		ok = false
		time.Sleep(time.Second)
		r.mustGet("tls")
		time.Sleep(time.Minute)
		r.mustGet("tls")
		r.wantReads("the default TTL", "tls", 8)
	})
}

func TestTTLFromNode(t *testing.T) {
	node := func(ttl string) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{corev1.ObjectTTLAnnotationKey: ttl}}}
	}
	tests := map[string]struct {
		node *corev1.Node
		err  error
		want time.Duration
		ok   bool
	}{
		"300 s":         {node: node("300"), want: 5 * time.Minute, ok: true},
		"0":             {node: node("0"), ok: true},
		"negative":      {node: node("-1")},
		"no number":     {node: node("1m")},
		"no annotation": {node: &corev1.Node{}},
		"no node":       {},
		"error":         {node: node("300"), err: errors.New("no")},
		"too large":     {node: node("99999999999999999999")},
	}
	for name, test := range tests {
		got, ok := objectcache.TTLFromNode(func() (*corev1.Node, error) { return test.node, test.err })()
		if ok != test.ok || ok && got != test.want {
			t.Errorf("%s: got %v, %v, want %v, %v", name, got, ok, test.want, test.ok)
		}
	}
}

// Every request is a GET of a name that a Get has asked for. Roles allow it.
func TestTTLRequests(t *testing.T) {
	inBubble(t, objectcache.TTLOptions{}, func(t *testing.T, r *rig) {
		r.referenced("tls")
		r.AddReference(namespace, "never-read", "pod")
		time.Sleep(time.Hour)
		r.mustGet("tls")
		for _, request := range r.server.Requests() {
			if request.Verb != "create" && (request.Verb != "get" || request.Path != "/api/v1/namespaces/default/secrets/tls" || len(request.Query) > 0) {
				t.Errorf("got %s %s?%s, want GETs of tls", request.Verb, request.Path, request.Query.Encode())
			}
		}
		if got := r.phase("never-read"); got != objectcache.Pending {
			t.Errorf("phase without a Get: got %s, want Pending", got)
		}
	})
	for name, options := range map[string]objectcache.StoreOptions{"TTL": objectcache.TTLOptions{}, "direct": objectcache.DirectOptions{}} {
		beforeRun(t, options, func(t *testing.T, r *rig) {
			roles, err := r.Roles("agent", types.NamespacedName{Namespace: namespace, Name: "tls"})
			if err != nil || len(roles) != 1 || !slices.Equal(roles[0].Rules[0].Verbs, []string{"get"}) || !slices.Equal(roles[0].Rules[0].ResourceNames, []string{"tls"}) {
				t.Errorf("%s: got %v, %v, want get of tls", name, roles, err)
			}
		})
	}
}
