// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/test/apiserver"
)

// An ordinary reference comes and goes beside a read-once one, faster than the server answers.
// Each time the request under way is of no use any more. If the requests fail, that is no way
// around the back-off.
func TestReferencesThatAlternateRespectTheBackOff(t *testing.T) {
	for name, code := range map[string]int32{"forbidden": http.StatusForbidden, "unavailable": http.StatusServiceUnavailable} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, objectcache.WatchOptions{}, func(t *testing.T, r *rig) {
				r.create("tls")
				r.AddReadOnceReference(namespace, "tls", "one")
				time.Sleep(5 * time.Second)
				var requests atomic.Int32
				r.server.Intercept(func(ctx context.Context, request apiserver.Request) *metav1.Status {
					requests.Add(1)
					select {
					case <-time.After(300 * time.Millisecond):
					case <-ctx.Done():
					}
					return &metav1.Status{Status: metav1.StatusFailure, Code: code, Message: "no"}
				})
				for range 1500 {
					r.AddReference(namespace, "tls", "other")
					time.Sleep(20 * time.Millisecond)
					r.DeleteReference(namespace, "tls", "other")
					time.Sleep(20 * time.Millisecond)
				}
				if got := requests.Load(); got > 200 {
					t.Errorf("requests in a minute: got %d, want at most 200", got)
				}
			})
		})
	}
}
