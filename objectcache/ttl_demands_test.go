// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/refwatch/refwatch/objectcache"
)

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

		began, reads := time.Now(), r.requests("get", "tls")
		_, err := r.demand("tls", objectcache.GetOptions{NotOlderThan: "1000000"})
		if !errors.Is(err, objectcache.ErrStale) || !errors.Is(err, objectcache.ErrNotSynced) || time.Since(began) > time.Second {
			t.Errorf("a version that the server does not have: got %v after %v, want ErrStale at once", err, time.Since(began))
		}
		time.Sleep(time.Second)
		r.wantReads("a version that the server does not have", "tls", reads+1)
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
	for name, options := range map[string]objectcache.TTLOptions{"live": {}, "TTL 0": {TTLFunc: noTTL}} {
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
