// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/refwatch/refwatch/objectcache"
)

// This file has a test for each fault of kubelet's TTL store
// (k8s.io/kubernetes v1.36.3, pkg/kubelet/util/manager/cache_based_manager.go).

// The error of a refresh is dropped: nothing reports that an object has not been read
// for days.
func TestPeerBug17RefreshErrorIsSwallowed(t *testing.T) {
	inBubble(t, objectcache.TTLOptions{MaxStaleness: time.Hour}, func(t *testing.T, r *rig) {
		r.referenced("tls")
		read := time.Now()
		r.refuse(forbidden())
		time.Sleep(time.Minute)
		r.mustGet("tls")
		status, _ := r.Status(namespace, "tls")
		if status.Phase != objectcache.PhaseNotUpdated || !apierrors.IsForbidden(status.LastError) || !status.LastContact.Equal(read) {
			t.Errorf("status: got %+v, want Failing with the cause and the time of the read", status)
		}
		time.Sleep(time.Hour)
		if _, err := r.get("tls", time.Second); !apierrors.IsForbidden(err) || !errors.Is(err, objectcache.ErrStale) {
			t.Errorf("after MaxStaleness: got %v, want ErrStale and the cause", err)
		}
	})
}

// A read that fails is repeated by every Get.
func TestPeerBug17NoBackOff(t *testing.T) {
	inBubble(t, objectcache.TTLOptions{}, func(t *testing.T, r *rig) {
		r.referenced("tls")
		r.refuse(unavailable())
		time.Sleep(time.Minute)
		before := r.requests("get", "tls")
		for range 6000 { // for a minute
			r.mustGet("tls")
			time.Sleep(10 * time.Millisecond)
		}
		if got := r.requests("get", "tls") - before; got < 5 || got > 20 {
			t.Errorf("reads in a minute with 6000 Gets: got %d, want 5 to 20", got)
		}
	})
}

// NotFound is not cached: every Get of an absent object is a request.
func TestPeerBug17NotFoundIsNotCached(t *testing.T) {
	inBubble(t, objectcache.TTLOptions{}, func(t *testing.T, r *rig) {
		r.AddReference(namespace, "tls", "pod")
		for range 1000 { // for ten seconds
			if _, err := r.get("tls", time.Second); !apierrors.IsNotFound(err) {
				t.Fatalf("got %v, want NotFound", err)
			}
			time.Sleep(10 * time.Millisecond)
		}
		if got := r.requests("get", "tls"); got < 9 || got > 10 {
			t.Errorf("reads in 10 s with 1000 Gets: got %d, want one a second", got)
		}
	})
}

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

// Any AddReference drops the object that others use: if the server cannot be reached,
// they lose it.
func TestPeerBug17AnyReferenceInvalidates(t *testing.T) {
	inBubble(t, objectcache.TTLOptions{}, func(t *testing.T, r *rig) {
		created := r.referenced("tls")
		r.AddReference(namespace, "tls", "pod") // the same owner
		r.mustGet("tls")
		r.wantReads("another reference of the same owner", "tls", 1)
		r.refuse(unavailable())
		r.AddReference(namespace, "tls", "other")
		synctest.Wait()
		r.within("tls", 2*time.Second, created.UID)
		if status, _ := r.Status(namespace, "tls"); status.LastError == nil || !status.Exists {
			t.Errorf("status: got %+v, want the object and the cause", status)
		}
	})
}
