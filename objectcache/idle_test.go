// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/refwatch/refwatch/objectcache"
)

// A stream that had not synced was ended as idle. If the first answer takes longer
// than IdleTimeout, and Gets give up before it, no Get ever succeeds.
func TestIssue8UnsyncedIsNotIdle(t *testing.T) {
	inBubble(t, objectcache.WatchOptions{IdleTimeout: 5 * time.Second}, func(t *testing.T, r *rig) {
		r.create("tls")
		release := r.holdBack("get", "watch")
		r.AddReference(namespace, "tls", "pod")
		if _, err := r.get("tls", time.Second); !errors.Is(err, objectcache.ErrNotSynced) {
			t.Fatalf("got %v, want ErrNotSynced", err)
		}
		for range 28 {
			time.Sleep(time.Second)
			if got := r.phase("tls"); got == objectcache.PhaseIdle {
				t.Fatal("an object that has not synced is idle")
			}
		}
		release()
		time.Sleep(5 * time.Second)
		if got := r.phase("tls"); got != servingNamed {
			t.Errorf("phase: got %s, want Serving", got)
		}
		time.Sleep(11 * time.Second)
		if got := r.phase("tls"); got != objectcache.PhaseIdle {
			t.Errorf("phase: got %s, want Idle", got)
		}
	})
}

// The server is restored from a backup while an object is idle. The next Get returns what was
// restored.
func TestRestoreWhileIdle(t *testing.T) {
	inBubble(t, objectcache.WatchOptions{IdleTimeout: 5 * time.Second}, func(t *testing.T, r *rig) {
		r.create("tls")
		r.update("tls", "restored")
		backup := r.server.Snapshot()
		r.update("tls", "lost")
		r.AddReference(namespace, "tls", "pod")
		r.wantValue("before", "tls", "lost")
		time.Sleep(11 * time.Second)
		if got := r.phase("tls"); got != objectcache.PhaseIdle {
			t.Fatalf("phase: got %s, want Idle", got)
		}
		r.server.Restore(backup)
		r.wantValue("after the restore", "tls", "restored")
		r.update("tls", "newest")
		synctest.Wait()
		r.wantValue("after an update", "tls", "newest")
	})
}

// IdleTimeout counts from the first sync, too, also without a Get.
func TestIdleCountsFromTheFirstSync(t *testing.T) {
	inBubble(t, objectcache.WatchOptions{IdleTimeout: 20 * time.Second}, func(t *testing.T, r *rig) {
		r.create("tls")
		release := r.holdBack("list", "watch")
		r.AddReference(namespace, "tls", "pod")
		time.Sleep(19 * time.Second)
		release()
		r.wantPhase("at the first sync", "tls", servingNamed, 1)
		time.Sleep(19 * time.Second)
		r.wantPhase("19 s after it", "tls", servingNamed, 1)
		time.Sleep(21 * time.Second)
		r.wantPhase("40 s after it", "tls", objectcache.PhaseIdle, 0)
	})
}
