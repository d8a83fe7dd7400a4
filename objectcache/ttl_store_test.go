// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/test/apiserver"
)

// Changes yields what the reads observe.
func TestTTLChanges(t *testing.T) {
	inBubble(t, objectcache.TTLOptions{}, func(t *testing.T, r *rig) {
		r.referenced("tls")
		sub := r.subscribe()
		defer sub.stop()
		want(t, "at first", sub.seen(), "tls="+canary)
		r.AddReference(namespace, "absent", "pod")
		want(t, "before a read", sub.seen())
		_, _ = r.get("absent", time.Second)
		want(t, "absent", sub.seen(), "absent absent")
		r.update("tls", "1")
		time.Sleep(time.Hour)
		want(t, "without a Get", sub.seen())
		r.mustGet("tls")
		want(t, "after a Get", sub.seen(), "tls=1")
		time.Sleep(time.Minute)
		r.mustGet("tls")
		want(t, "read again, unchanged", sub.seen())
		r.AddReference(namespace, "tls", "other")
		want(t, "another owner, before a read", sub.seen())
		r.mustGet("tls")
		want(t, "another owner", sub.seen(), "tls=1")
		r.remove("tls")
		time.Sleep(time.Minute)
		_, _ = r.get("tls", time.Second)
		want(t, "deletion", sub.seen(), "tls gone")
		r.create("tls")
		time.Sleep(time.Second)
		r.mustGet("tls")
		want(t, "recreation", sub.seen(), "tls="+canary)
		r.DeleteReference(namespace, "tls", "pod")
		r.DeleteReference(namespace, "tls", "other")
		r.AddReference(namespace, "tls", "pod")
		r.mustGet("tls")
		want(t, "referenced anew", sub.seen(), "tls="+canary)
		r.stop()
		<-sub.done
		for range r.Changes(t.Context()) {
			t.Error("a stopped store yields a change")
		}
	})
}

// After a restore from a backup the server has older versions, or other content under
// the same version. The newest read counts.
func TestTTLServerRolledBack(t *testing.T) {
	inBubble(t, objectcache.TTLOptions{}, func(t *testing.T, r *rig) {
		r.referenced("tls")
		before := r.server.Snapshot()
		r.update("tls", "lost")
		time.Sleep(time.Minute)
		lost := r.mustGet("tls")
		sub := r.subscribe()
		defer sub.stop()
		want(t, "before", sub.seen(), "tls=lost")

		r.server.Restore(before)
		if updated := r.update("tls", "other"); updated.ResourceVersion != lost.ResourceVersion || updated.UID != lost.UID {
			t.Fatalf("got version %s, want the one that was lost, %s", updated.ResourceVersion, lost.ResourceVersion)
		}
		time.Sleep(time.Minute)
		if got := valueOf(r.mustGet("tls")); got != "other" {
			t.Errorf("the same version: got %q, want the new content", got)
		}
		want(t, "the same version", sub.seen(), "tls=other")

		r.server.Restore(before)
		time.Sleep(time.Minute)
		if got := valueOf(r.mustGet("tls")); got != canary {
			t.Errorf("an older version: got %q, want the restored state", got)
		}
		want(t, "an older version", sub.seen(), "tls="+canary)
	})
}

// The last reference ends a request under way.
func TestTTLLastReferenceEndsTheRead(t *testing.T) {
	inBubble(t, objectcache.TTLOptions{}, func(t *testing.T, r *rig) {
		r.AddReference(namespace, "tls", "pod")
		ended := false
		r.server.Intercept(func(ctx context.Context, _ apiserver.Request) *metav1.Status {
			<-ctx.Done()
			ended = true
			return nil
		})
		_, _ = r.TryGet(namespace, "tls")
		synctest.Wait()
		if ended {
			t.Error("the request has ended before")
		}
		r.DeleteReference(namespace, "tls", "pod")
		synctest.Wait()
		if !ended {
			t.Error("the request goes on")
		}
	})
}

// The status follows the object. Owners are counted.
func TestTTLStatus(t *testing.T) {
	inBubble(t, objectcache.TTLOptions{}, func(t *testing.T, r *rig) {
		created := r.create("tls")
		r.AddReference(namespace, "tls", "b")
		r.AddReference(namespace, "tls", "a")
		r.AddReference(namespace, "tls", "a")
		release := r.holdBack("get")
		waiting := r.async(t.Context(), "tls")
		if got := r.phase("tls"); got != objectcache.PhaseSyncing {
			t.Errorf("during the first read: got %s, want Syncing", got)
		}
		release()
		<-waiting
		read := time.Now()
		time.Sleep(time.Hour)
		status, ok := r.Status(namespace, "tls")
		if !ok || status.Phase != objectcache.PhaseServing || status.Reason != objectcache.ReasonOnDemand || !status.Exists || status.UID != created.UID || status.ResourceVersion != created.ResourceVersion ||
			!status.Synced || !status.LastContact.Equal(read) || fmt.Sprint(status.Owners) != "[a b]" || status.LastError != nil {
			t.Errorf("got %+v, want the object, its owners and the time of the read", status)
		}
		store := r.Store.(*objectcache.TTLStore[*corev1.Secret])
		if !store.HasSynced(namespace, "tls") {
			t.Error("after the TTL: HasSynced is false, want what Status has")
		}
		r.AddReference(namespace, "tls", "new")
		if status, _ := r.Status(namespace, "tls"); status.Synced || store.HasSynced(namespace, "tls") {
			t.Error("a new owner, before a read: got synced, want that Get waits")
		}
		r.DeleteReference(namespace, "tls", "new")
		for _, owner := range []types.UID{"a", "b", "stranger", "b"} {
			r.DeleteReference(namespace, "tls", owner)
		}
		if _, ok := r.Status(namespace, "tls"); !ok {
			t.Error("one reference left: got no status")
		}
		r.DeleteReference(namespace, "tls", "a")
		if _, ok := r.Status(namespace, "tls"); ok {
			t.Error("no reference left: got a status")
		}
		for range r.Statuses() {
			t.Error("no reference left: Statuses yields one")
		}
	})
}

// Get and DeleteReference at the same moment: an object without references is not
// requested, and not kept.
func TestTTLGetRacesTheLastReference(t *testing.T) {
	inBubble(t, objectcache.TTLOptions{TTLFunc: noTTL}, func(t *testing.T, r *rig) {
		r.create("tls")
		for round := range 200 {
			r.AddReference(namespace, "tls", "pod")
			var racing sync.WaitGroup
			for range 4 {
				racing.Go(func() {
					if _, err := r.Get(t.Context(), namespace, "tls"); err != nil && !errors.Is(err, objectcache.ErrNotRegistered) {
						t.Errorf("Get: got %v, want the object or ErrNotRegistered", err)
					}
				})
			}
			if round%2 == 0 {
				_, _ = r.Get(t.Context(), namespace, "tls")
			}
			r.DeleteReference(namespace, "tls", "pod")
			racing.Wait()
			if _, ok := r.Status(namespace, "tls"); ok {
				t.Fatal("after the last reference: got a status, want none")
			}
			if _, err := r.Get(t.Context(), namespace, "tls"); !errors.Is(err, objectcache.ErrNotRegistered) {
				t.Fatalf("after the last reference: got %v, want ErrNotRegistered", err)
			}
		}
	})
}
