// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/refwatch/refwatch/objectcache"
)

// Not running and not answered both read "not synced: context deadline
// exceeded", and nothing else.
func TestIssue8ErrorsWithACause(t *testing.T) {
	t.Run("not running", func(t *testing.T) {
		idleBubble(t, objectcache.WatchOptions{}, func(t *testing.T, r *rig) {
			r.AddReference(namespace, "tls", "pod")
			_, err := r.get("tls", time.Second)
			for _, want := range []error{objectcache.ErrNotSynced, objectcache.ErrNotRunning, context.DeadlineExceeded} {
				if !errors.Is(err, want) {
					t.Errorf("got %v, want it to be %v", err, want)
				}
			}
		})
	})
	t.Run("not answered", func(t *testing.T) {
		inBubble(t, objectcache.WatchOptions{}, func(t *testing.T, r *rig) {
			release := r.holdBack("watch")
			r.AddReference(namespace, "tls", "pod")
			_, err := r.get("tls", 3*time.Second)
			if !errors.Is(err, objectcache.ErrNotSynced) || !strings.HasSuffix(err.Error(), "the server has not answered for 3s") {
				t.Errorf("got %v, want that the server has not answered for 3s", err)
			}
			release()
		})
	})
	t.Run("not answered after a failure", func(t *testing.T) {
		inBubble(t, objectcache.WatchOptions{}, func(t *testing.T, r *rig) {
			r.refuse(unavailable())
			r.AddReference(namespace, "tls", "pod")
			time.Sleep(10 * time.Second)
			release := r.holdBack("watch")
			time.Sleep(5 * time.Second)
			_, err := r.get("tls", 3*time.Second)
			if !apierrors.IsServiceUnavailable(err) || !strings.Contains(err.Error(), "the server has not answered for ") {
				t.Errorf("got %v, want the failure, and that the server does not answer", err)
			}
			release()
		})
	})
}
