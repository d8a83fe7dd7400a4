// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/test/apiserver"
)

// The end of one Get's context promises the previous state to no other: a Get of the new owner waits for the read.
func TestGetThatEndsEndsNoOther(t *testing.T) {
	inBubble(t, objectcache.WatchOptions{ImmutableRecheck: -1}, func(t *testing.T, r *rig) {
		r.create("tls", immutable)
		r.AddReference(namespace, "tls", "pod-1")
		r.mustGet("tls")
		r.remove("tls")
		uid := r.create("tls", immutable).UID
		release := r.holdBack("list")
		r.AddReference(namespace, "tls", "pod-2")
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := r.Get(ended, namespace, "tls"); err != nil {
			t.Errorf("Get with a context that has ended: got %v, want the previous state", err)
		}
		got := r.async(t.Context(), "tls")
		time.Sleep(time.Second)
		release()
		if result := <-got; result.err != nil || result.secret.UID != uid {
			t.Errorf("Get of the new owner: got %v, %v, want UID %s", result.secret, result.err, uid)
		}
	})
}

// Owners that come every second, while a read takes two, take the object from nobody.
func TestTryGetWhileOwnersCome(t *testing.T) {
	inBubble(t, objectcache.WatchOptions{}, func(t *testing.T, r *rig) {
		const n = 100
		for i := range n {
			r.create(fmt.Sprint("tls-", i), immutable)
			r.AddReference(namespace, fmt.Sprint("tls-", i), "pod")
		}
		for i := range n {
			r.mustGet(fmt.Sprint("tls-", i))
		}
		r.server.Intercept(func(ctx context.Context, request apiserver.Request) *metav1.Status {
			if request.Verb == "list" || request.Verb == "watch" {
				select {
				case <-time.After(2 * time.Second):
				case <-ctx.Done():
				}
			}
			return nil
		})
		for second := range 10 {
			for i := range n {
				r.AddReference(namespace, fmt.Sprint("tls-", i), types.UID(fmt.Sprint("pod-", second)))
			}
			for range 10 {
				for i := range n {
					began := time.Now()
					if _, err := r.TryGet(namespace, fmt.Sprint("tls-", i)); err != nil || time.Since(began) > 0 {
						t.Fatalf("TryGet after %d s: got %v after %v, want the object at once", second, err, time.Since(began))
					}
				}
				time.Sleep(100 * time.Millisecond)
			}
		}
		r.server.Intercept(nil)
	})
}

// The read for an owner that comes during the read for another one is not forgotten, however many owners have come. No
// Get asks for it.
func TestNewOwnerDuringARead(t *testing.T) {
	for n := range 20 {
		inBubble(t, objectcache.WatchOptions{}, func(t *testing.T, r *rig) {
			r.create("tls", immutable)
			r.AddReference(namespace, "tls", "pod")
			r.mustGet("tls")
			r.answerAfter("tls", 100*time.Millisecond)
			for i := range n {
				r.AddReference(namespace, "tls", types.UID(fmt.Sprint("pod-", i)))
				time.Sleep(50 * time.Millisecond)
			}
			r.AddReference(namespace, "tls", "last")
			time.Sleep(time.Second)
			began := time.Now()
			if _, err := r.get("tls", 10*time.Second); err != nil || time.Since(began) > 0 {
				t.Errorf("Get after %d owners and a second: got %v after %v, want the object at once", n+1, err, time.Since(began))
			}
		})
	}
}
