// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"context"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/test/apiserver"
)

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
