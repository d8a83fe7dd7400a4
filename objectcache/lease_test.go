// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/refwatch/refwatch/objectcache"
)

func TestAcquireOnGet(t *testing.T) {
	inBubble(t, objectcache.WatchOptions{AcquireOnGet: time.Minute}, func(t *testing.T, r *rig) {
		r.create("tls")
		r.mustGet("tls")
		status, ok := r.Status(namespace, "tls")
		if !ok || len(status.Owners) != 1 || status.Owners[0] != objectcache.LeaseOwner {
			t.Errorf("owners: got %v, want LeaseOwner", status.Owners)
		}
		for range 10 {
			time.Sleep(59 * time.Second)
			r.mustGet("tls")
		}
		if got := r.opens("tls"); got != 1 {
			t.Errorf("opens while it is used: got %d, want 1", got)
		}
		time.Sleep(2*time.Minute + time.Second)
		if _, ok := r.Status(namespace, "tls"); ok || r.streams("tls") != 0 {
			t.Errorf("two leases after the last Get: got %d streams, want no reference and no stream", r.streams("tls"))
		}
		r.mustGet("tls")
		if _, err := r.get("absent", time.Second); !apierrors.IsNotFound(err) {
			t.Errorf("absent: got %v, want NotFound", err)
		}
		if _, err := r.get("No Name", time.Second); !errors.Is(err, objectcache.ErrInvalidName) {
			t.Errorf("invalid name: got %v", err)
		}
		release := r.holdBack("watch")
		if _, err := r.TryGet(namespace, "other"); !errors.Is(err, objectcache.ErrNotSynced) {
			t.Errorf("TryGet: got %v, want ErrNotSynced", err)
		}
		release()
		synctest.Wait()
		if _, err := r.TryGet(namespace, "other"); !apierrors.IsNotFound(err) {
			t.Errorf("TryGet again: got %v, want NotFound", err)
		}
	})
}

// An owner may register after the first Get. Its reference outlives the lease.
func TestAcquireOnGetBeforeTheOwner(t *testing.T) {
	inBubble(t, objectcache.WatchOptions{AcquireOnGet: time.Minute, IdleTimeout: 10 * time.Second}, func(t *testing.T, r *rig) {
		r.create("tls")
		r.mustGet("tls")
		r.AddReference(namespace, "tls", "pod")
		r.mustGet("tls")
		time.Sleep(3 * time.Minute)
		status, _ := r.Status(namespace, "tls")
		if len(status.Owners) != 1 || status.Owners[0] != "pod" {
			t.Errorf("owners: got %v, want the pod", status.Owners)
		}
		r.DeleteReference(namespace, "tls", "pod")
		r.mustGet("tls")
		r.AddReference(namespace, "tls", "pod")
		r.DeleteReference(namespace, "tls", "pod")
		r.mustGet("tls")
		if got := r.opens("tls"); got != 3 && got != 2 {
			t.Errorf("opens: got %d, want one for each life", got)
		}
	})
}

// A lease that begins before Run lasts from Run on.
func TestAcquireOnGetBeforeRun(t *testing.T) {
	beforeRun(t, objectcache.WatchOptions{AcquireOnGet: time.Minute}, func(t *testing.T, r *rig) {
		r.create("tls")
		if _, err := r.get("tls", time.Second); !errors.Is(err, objectcache.ErrNotStarted) {
			t.Errorf("before Run: got %v, want ErrNotStarted", err)
		}
		time.Sleep(time.Hour)
		r.run()
		r.mustGet("tls")
		time.Sleep(2*time.Minute + time.Second)
		if _, ok := r.Status(namespace, "tls"); ok {
			t.Error("the lease has not ended")
		}
	})
}

// A Get that waits keeps its lease.
func TestAcquireOnGetWhileAGetWaits(t *testing.T) {
	inBubble(t, objectcache.WatchOptions{AcquireOnGet: time.Second}, func(t *testing.T, r *rig) {
		r.create("tls")
		release := r.holdBack("get", "list", "watch")
		got := r.async(t.Context(), "tls")
		for range 9 {
			time.Sleep(time.Second)
			if _, ok := r.Status(namespace, "tls"); !ok {
				t.Fatal("the lease has ended")
			}
		}
		release()
		if result := <-got; result.err != nil {
			t.Errorf("got %v, want the object", result.err)
		}
	})
}

// A lease that was deleted early does not delete the references of others later.
func TestLeaseDeletedEarly(t *testing.T) {
	inBubble(t, objectcache.WatchOptions{AcquireOnGet: time.Minute}, func(t *testing.T, r *rig) {
		r.create("tls")
		r.mustGet("tls")
		r.DeleteReference(namespace, "tls", objectcache.LeaseOwner)
		r.AddReference(namespace, "tls", "pod")
		time.Sleep(time.Hour)
		if _, ok := r.Status(namespace, "tls"); !ok {
			t.Error("the reference of the pod is gone")
		}
		r.DeleteReference(namespace, "tls", "pod")
		r.mustGet("tls")
		began := time.Now()
		r.stop()
		if took := time.Since(began); took != 0 {
			t.Errorf("Run returned after %v, want no wait for the lease", took)
		}
	})
}
