// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"errors"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/refwatch/refwatch/objectcache"
)

// noTTL is a TTLFunc with which each Get reads.
func noTTL() (time.Duration, bool) { return 0, true }

// A negative duration is one without end, in each option.
func TestNegativeDurations(t *testing.T) {
	const long = 70 * time.Minute
	t.Run("watch", func(t *testing.T) {
		options := objectcache.WatchOptions{IdleTimeout: -1, MaxStaleness: -1, AcquireOnGet: -1, ImmutableRecheck: -1, RefusalGrace: -1}
		inBubble(t, options, func(t *testing.T, r *rig) {
			r.referenced("tls")
			r.create("sealed", immutable)
			r.AddReference(namespace, "sealed", "pod")
			r.mustGet("sealed")
			r.refuse(unavailable())
			r.server.CloseStreams(nil)
			time.Sleep(long)
			for _, name := range []string{"tls", "sealed"} {
				if _, err := r.demand(name, objectcache.GetOptions{MaxStaleness: -1}); err != nil {
					t.Errorf("Get %s: got %v, want the last known state", name, err)
				}
			}
			if _, err := r.demand("tls", objectcache.GetOptions{MaxStaleness: time.Hour}); !errors.Is(err, objectcache.ErrStale) {
				t.Errorf("Get with a bound of its own: got %v, want ErrStale", err)
			}
			if got := r.phase("sealed"); got != servingImmutable {
				t.Errorf("phase of an immutable object: got %s, want %s", got, servingImmutable)
			}
			if _, err := r.get("unreferenced", time.Second); !errors.Is(err, objectcache.ErrNotRegistered) {
				t.Errorf("Get of an object without references: got %v, want ErrNotRegistered", err)
			}
		})
	})
	for name, options := range map[string]objectcache.TTLOptions{
		"TTL":     {TTL: -1, NotFoundTTL: -1, MaxStaleness: -1, ImmutableRecheck: -1},
		"TTLFunc": {TTLFunc: func() (time.Duration, bool) { return -1, true }, NotFoundTTL: -1},
	} {
		ttlOfNoEnd(t, name, options, long)
	}
}

func ttlOfNoEnd(t *testing.T, name string, options objectcache.TTLOptions, long time.Duration) {
	t.Run(name, func(t *testing.T) {
		inBubble(t, options, func(t *testing.T, r *rig) {
			r.referenced("tls")
			r.AddReference(namespace, "absent", "pod")
			for range 3 {
				r.mustGet("tls")
				if _, err := r.get("absent", time.Second); !apierrors.IsNotFound(err) {
					t.Errorf("Get absent: got %v, want NotFound", err)
				}
				time.Sleep(long)
			}
			if tls, absent := r.requests("get", "tls"), r.requests("get", "absent"); tls != 1 || absent != 1 {
				t.Errorf("without a new owner: got %d and %d reads, want one each", tls, absent)
			}
			r.AddReference(namespace, "tls", "other")
			r.mustGet("tls")
			if got := r.requests("get", "tls"); got != 2 {
				t.Errorf("with a new owner: got %d reads, want 2", got)
			}
		})
	})
}
