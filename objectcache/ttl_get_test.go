// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

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
					r.AddReference(namespace, "tls", "new")
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
		if text := `secrets "default/tls": not synced: the pod is gone; no answer from the server`; got.err.Error() != text {
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

// A new object is seen after NotFoundTTL. Until then no Get asks the server. Peer bug 17: kubelet caches no NotFound.
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
