// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/refwatch/refwatch/objectcache"
)

// HasSynced is Status.Synced, and agrees with TryGet, at any time in the life of an object of each strategy.
func TestHasSyncedIsThatOfStatus(t *testing.T) {
	strategies := map[string]objectcache.StoreOptions{
		"watch":       objectcache.WatchOptions{},
		"bounded age": objectcache.WatchOptions{MaxStaleness: 90 * time.Second},
		"idle":        objectcache.WatchOptions{IdleTimeout: 20 * time.Second, MaxStaleness: 2 * time.Minute},
		"TTL":         objectcache.TTLOptions{TTL: 20 * time.Second, NotFoundTTL: 5 * time.Second},
		"TTL, bounded age": objectcache.TTLOptions{
			TTL: 20 * time.Second, NotFoundTTL: 5 * time.Second, MaxStaleness: 40 * time.Second,
		},
	}
	for name, options := range strategies {
		t.Run(name, func(t *testing.T) {
			inBubble(t, options, func(t *testing.T, r *rig) { hasSyncedIsThatOfStatus(t, r) })
		})
	}
}

func hasSyncedIsThatOfStatus(t *testing.T, r *rig) {
	store := r.Store.(interface {
		HasSynced(namespace, name string) bool
	})
	random, synced := rand.New(rand.NewPCG(1, 8)), 0
	exists := false
	for i := range 600 {
		switch random.IntN(12) {
		case 0:
			r.AddReference(namespace, "tls", "pod")
		case 1:
			r.AddReference(namespace, "tls", "other")
		case 2:
			r.DeleteReference(namespace, "tls", "other")
		case 3:
			if exists = !exists; exists {
				r.create("tls")
			} else {
				r.remove("tls")
			}
		case 4:
			r.refuse(unavailable())
			r.server.CloseStreams(nil)
		case 5, 6:
			r.refuse(nil)
		case 7:
			_, _ = r.get("tls", 100*time.Millisecond)
		case 8:
			_, _ = r.TryGet(namespace, "tls")
		case 9:
			r.sealed(exists)
		default:
			time.Sleep(time.Duration(random.IntN(70_000)) * time.Millisecond)
		}
		status, _ := r.Status(namespace, "tls")
		got := store.HasSynced(namespace, "tls")
		if again, _ := r.Status(namespace, "tls"); got != status.Synced && got != again.Synced {
			t.Fatalf("step %d: HasSynced is %v, and the status %+v", i, got, status)
		}
		if got {
			synced++
		}
	}
	if synced == 0 || synced == 600 {
		t.Errorf("synced in %d of 600 steps", synced)
	}
}

// sealed makes the object another one, now and then an immutable one.
func (r *rig) sealed(exists bool) {
	if exists {
		r.update("tls", "new")
	}
}
