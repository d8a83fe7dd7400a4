// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/test/apiserver"
)

// While Allowed does not return, references wait for it once, for 5 s. Those that are
// added later do not wait.
func TestSharedLateReferences(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		options := sharedOptions(4)
		options.Shared.Allowed = func(ctx context.Context, _ string) (bool, error) { <-ctx.Done(); return false, ctx.Err() }
		r := &sharedRig{rig: newRig(t, apiserver.Options{InMemory: true}, options)}
		r.createAll(names(8)...)
		r.run()
		r.reference(names(6)...)
		time.Sleep(5*time.Second + 500*time.Millisecond)
		r.wantStreams("after 5 s", 0, 6)
		r.AddReference(namespace, names(8)[7], "pod")
		r.within(names(8)[7], time.Second, r.mustGetWithin(names(8)[7], time.Second).UID)
		r.stop()
	})
}

// A shared stream is given up after 30 s of failures, though the server has asked to wait
// longer for the next attempt.
func TestSharedStreamHasToWait(t *testing.T) {
	inSharedBubble(t, sharedOptions(4), func(t *testing.T, r *sharedRig) {
		all := names(8)
		r.createAll(all...)
		r.reference(all...)
		time.Sleep(joined)
		r.refused.Store(&apierrors.NewTooManyRequests("later", 600).ErrStatus)
		r.closeShared()
		r.update(all[0], "1")
		time.Sleep(35 * time.Second)
		r.wantStreams("given up", 0, 8)
		r.wantValues("given up", "1", all[0])
	})
}

// Reads that hang keep the others waiting for as long as a read may take, and no longer.
func TestDirectReadsThatHang(t *testing.T) {
	inBubble(t, objectcache.DirectOptions{}, func(t *testing.T, r *rig) {
		r.create("good")
		r.server.Intercept(func(ctx context.Context, request apiserver.Request) *metav1.Status {
			if request.Name == "bad" {
				<-ctx.Done()
			}
			return nil
		})
		for range 40 {
			go func() { _, _ = r.Get(t.Context(), namespace, "bad") }()
		}
		synctest.Wait()
		began := time.Now()
		if _, err := r.get("good", time.Minute); err != nil || time.Since(began) > 20*time.Second {
			t.Errorf("Get: got %v after %v, want the object within 20 s", err, time.Since(began))
		}
		time.Sleep(time.Minute)
	})
}

// A Get that waits for the bookmark of the object's own stream returns with it, and costs no read, though the object is
// about to pass to a shared stream, which is behind.
func TestSharedStreamThatIsBehindABookmark(t *testing.T) {
	inSharedBubble(t, sharedOptions(4), func(t *testing.T, r *sharedRig) {
		all := names(8)
		r.createAll(all...)
		r.create("noise")
		r.reference(all[:3]...)
		time.Sleep(20 * time.Second)
		r.reference(all[3:]...)
		time.Sleep(39*time.Second + 950*time.Millisecond) // 50 ms before the bookmark
		version := r.update("noise", "1").ResourceVersion
		opens, began := r.opens(all[0]), time.Now()
		_, err := r.demand(all[0], objectcache.GetOptions{NotOlderThan: version})
		if more := r.opens(all[0]) - opens; err != nil || more > 0 || time.Since(began) > 60*time.Millisecond {
			t.Errorf("got %v after %v and %d more streams, want the object with the bookmark, after 50 ms", err, time.Since(began), more)
		}
		r.wantPhase("after the bookmark", servingNamed, all[0]) // until the shared stream has come as far
	})
}
