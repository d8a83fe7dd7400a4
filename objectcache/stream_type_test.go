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

// How changes arrive is known in each phase, failures included.
func TestStatusStream(t *testing.T) {
	want := func(t *testing.T, r *rig, when, name string, phase objectcache.Phase, stream objectcache.StreamType) {
		t.Helper()
		gotPhase := r.phase(name)
		if got, _ := r.Status(namespace, name); gotPhase != phase || got.Stream != stream {
			t.Errorf("%s: got %s and %s, want %s and %s", when, gotPhase, got.Stream, phase, stream)
		}
	}
	t.Run("named", func(t *testing.T) {
		beforeRun(t, objectcache.WatchOptions{}, func(t *testing.T, r *rig) {
			r.create("tls")
			r.create("sealed", immutable)
			r.AddReference(namespace, "tls", "pod")
			r.AddReference(namespace, "sealed", "pod")
			want(t, r, "before Run", "tls", objectcache.PhasePending, objectcache.StreamNone)
			r.run()
			want(t, r, "running", "tls", servingNamed, objectcache.StreamNamed)
			want(t, r, "immutable", "sealed", servingImmutable, objectcache.StreamNone)
			release := r.holdBack("watch")
			r.server.CloseStreams(nil)
			time.Sleep(6 * time.Second)
			want(t, r, "the stream ended", "tls", objectcache.PhaseNotUpdated, objectcache.StreamNamed)
			r.refuse(unavailable())
			release()
			r.server.Intercept(func(context.Context, apiserver.Request) *metav1.Status { return r.down.Load() })
			time.Sleep(time.Minute)
			r.server.CloseStreams(nil)
			time.Sleep(time.Second)
			want(t, r, "unavailable", "tls", objectcache.PhaseNotUpdated, objectcache.StreamNamed)
			r.stop()
			want(t, r, "stopped", "tls", objectcache.PhaseStopped, objectcache.StreamNone)
		})
	})
	t.Run("without a stream", func(t *testing.T) {
		inBubble(t, objectcache.TTLOptions{}, func(t *testing.T, r *rig) {
			r.create("tls")
			r.AddReference(namespace, "tls", "pod")
			r.mustGet("tls")
			want(t, r, "TTL", "tls", servingOnDemand, objectcache.StreamNone)
		})
	})
}
