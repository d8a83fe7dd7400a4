// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"errors"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/refwatch/refwatch/objectcache"
)

// Peer bug 8: once synced, kubelet returns a state of any age, and does not report the
// age.
func TestPeerBug08_MaxStaleness(t *testing.T) {
	inBubble(t, objectcache.WatchOptions{MaxStaleness: 5 * time.Minute}, func(t *testing.T, r *rig) {
		r.create("tls")
		r.AddReference(namespace, "tls", "pod")
		r.mustGet("tls")
		time.Sleep(time.Hour)
		if got := r.opens("tls"); got != 2 && got != 3 {
			t.Errorf("opens in an hour: got %d, want 2 or 3: bookmarks keep a stream fresh", got)
		}
		r.mustGet("tls")
		age := func() time.Duration {
			status, _ := r.Status(namespace, "tls")
			return time.Since(status.LastContact)
		}
		if got := age(); got > 2*time.Minute {
			t.Errorf("age with bookmarks: got %v, want at most 2m", got)
		}

		r.refuse(unavailable())
		r.server.CloseStreams(nil)
		time.Sleep(4 * time.Minute)
		r.mustGet("tls")
		if got := age(); got < 4*time.Minute || got > 6*time.Minute {
			t.Errorf("age in the outage: got %v, want 4m to 6m", got)
		}
		time.Sleep(2 * time.Minute)
		_, err := r.get("tls", 10*time.Second)
		if !errors.Is(err, objectcache.ErrNotSynced) || !errors.Is(err, objectcache.ErrStale) || !apierrors.IsServiceUnavailable(err) {
			t.Errorf("too old: got %v, want ErrNotSynced, ErrStale and the cause", err)
		}
		r.refuse(nil)
		if _, err := r.get("tls", 10*time.Second); err != nil {
			t.Errorf("after the outage: got %v, want the object", err)
		}
	})
}

// A stream may be open and silent. Only the age of the state shows it.
func TestMaxStalenessReopensASilentStream(t *testing.T) {
	inBubble(t, objectcache.WatchOptions{MaxStaleness: 10 * time.Second}, func(t *testing.T, r *rig) {
		r.create("tls")
		r.AddReference(namespace, "tls", "pod")
		r.mustGet("tls")
		time.Sleep(30 * time.Second) // bookmarks come once a minute
		if _, err := r.get("tls", 10*time.Second); err != nil {
			t.Errorf("got %v, want the object, read again", err)
		}
		if got := r.opens("tls"); got != 2 {
			t.Errorf("opens: got %d, want 2", got)
		}
		status, _ := r.Status(namespace, "tls")
		if age := time.Since(status.LastContact); age > 10*time.Second {
			t.Errorf("age: got %v, want at most 10 s", age)
		}
	})
}
