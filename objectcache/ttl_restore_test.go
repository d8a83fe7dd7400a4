// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/refwatch/refwatch/objectcache"
)

// A slow follower never misses the newest state, also after a restore under the same version.
func TestTTLFollowerAfterARestore(t *testing.T) {
	for _, absent := range []bool{false, true} {
		t.Run(fmt.Sprint("absent between: ", absent), func(t *testing.T) {
			inBubble(t, objectcache.TTLOptions{TTL: time.Second, NotFoundTTL: time.Second}, func(t *testing.T, r *rig) {
				r.create("tls")
				r.AddReference(namespace, "tls", "pod")
				backup := r.server.Snapshot()
				first := r.update("tls", "x")
				var block atomic.Pointer[chan struct{}]
				var mu sync.Mutex
				var seen []string
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan struct{})
				go func() {
					defer close(done)
					for c, owners := range r.Changes(ctx) {
						mu.Lock()
						seen = append(seen, change{c, owners}.String())
						mu.Unlock()
						if gate := block.Load(); gate != nil {
							<-*gate
						}
					}
				}()
				gate := make(chan struct{})
				block.Store(&gate)
				r.wantValue("x", "tls", "x")
				time.Sleep(2 * time.Second)
				if absent {
					r.remove("tls")
					_, err := r.get("tls", time.Second)
					if !apierrors.IsNotFound(err) {
						t.Errorf("removed: got %v", err)
					}
					time.Sleep(2 * time.Second)
				}
				r.server.Restore(backup)
				second := r.update("tls", "y")
				if first.ResourceVersion != second.ResourceVersion || first.UID != second.UID {
					t.Fatalf("versions: %s and %s", first.ResourceVersion, second.ResourceVersion)
				}
				r.wantValue("y", "tls", "y")
				block.Store(nil)
				close(gate)
				time.Sleep(time.Second)
				mu.Lock()
				if last := seen[len(seen)-1]; last != "tls=y" {
					t.Errorf("Changes: got %q, want tls=y in the end", seen)
				}
				mu.Unlock()
				cancel()
				<-done
			})
		})
	}
}
