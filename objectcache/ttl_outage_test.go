// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/refwatch/refwatch/objectcache"
)

// An object that cannot be read again is served, its failure is in the status, and no Get asks again meanwhile.
// Peer bug 17: kubelet drops the error, and asks with every Get.
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
				if status.Phase != objectcache.PhaseNotUpdated || status.Failures < 100 || status.LastError == nil || status.UID != created.UID ||
					time.Since(status.LastContact) < time.Hour || time.Since(status.LastErrorTime) > 15*time.Second {
					t.Errorf("status: got %+v, want NotUpdated, with the cause", status)
				}
				r.update("tls", "new")
				r.refuse(nil)
				time.Sleep(15 * time.Second)
				if got := valueOf(r.mustGet("tls")); got != "new" {
					t.Errorf("after it: got %q, want new", got)
				}
				if got := r.phase("tls"); got != servingOnDemand {
					t.Errorf("phase: got %s, want Serving", got)
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

// An object is read once for a new owner, and not for one that has a reference.
// Peer bug 17: in kubelet any AddReference drops the object that others use.
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
		if got, err := r.TryGet(namespace, "tls"); err != nil || got.UID != recreated.UID {
			t.Errorf("TryGet for an owner without an attempt: got %v, want the previous object", err)
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

// This file has a test for each fault of kubelet's TTL store
// (k8s.io/kubernetes v1.36.3, pkg/kubelet/util/manager/cache_based_manager.go).

// A lock is held during the request, which has no context: a Get cannot be given up, and
// a read that hangs blocks every other Get of the object.
func TestPeerBug17LockIsHeldDuringTheRequest(t *testing.T) {
	inBubble(t, objectcache.TTLOptions{}, func(t *testing.T, r *rig) {
		created := r.referenced("tls")
		time.Sleep(time.Minute)
		release := r.holdBack("get")
		first := r.async(t.Context(), "tls")
		began := time.Now()
		r.within("tls", 100*time.Millisecond, created.UID)
		if _, err := r.demandFor(100*time.Millisecond, "tls", objectcache.GetOptions{Live: true}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("live Get: got %v, want DeadlineExceeded", err)
		}
		r.AddReference(namespace, "tls", "other")
		r.DeleteReference(namespace, "tls", "other")
		if _, err := r.TryGet(namespace, "tls"); err != nil {
			t.Errorf("TryGet: got %v, want the object in memory", err)
		}
		if took := time.Since(began); took > 200*time.Millisecond {
			t.Errorf("all took %v, want at most their time-outs", took)
		}
		release()
		<-first
	})
}
