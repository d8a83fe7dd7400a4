// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/test/apiserver"
	"github.com/refwatch/refwatch/test/testmain"
)

// When all connections break beside a tenth of the objects, for which no verb works and Gets wait, the others soon have
// streams again.
func TestHealthyObjectsWhoseConnectionsBreak(t *testing.T) {
	testmain.Long(t)
	for _, fault := range []string{"500", "hangs"} {
		for _, n := range []int{10, 100} {
			if n > 10 && testmain.Race {
				continue // it takes long
			}
			t.Run(fmt.Sprintf("%s, %d sick", fault, n), func(t *testing.T) {
				withLines(t, objectcache.WatchOptions{OutageGrace: -1}, func(t *testing.T, r *lineRig) {
					r.server.Intercept(func(ctx context.Context, request apiserver.Request) *metav1.Status {
						if strings.HasPrefix(request.Name, "sick") && request.Verb != "create" {
							return readFaults[fault](ctx)
						}
						sleepFor(ctx, 200*time.Millisecond) // those that fail are answered first
						return nil
					})
					healthy := r.known("healthy", 9*n)
					ctx, cancel := context.WithCancel(t.Context())
					var gets sync.WaitGroup
					for _, name := range r.known("sick", n) {
						gets.Go(func() {
							for ctx.Err() == nil {
								_, _ = r.Get(ctx, namespace, name)
								sleepFor(ctx, 100*time.Millisecond)
							}
						})
					}
					for i := range 3 {
						time.Sleep(time.Minute)
						r.closeConnections()
						time.Sleep(30 * time.Second)
						if got := r.count(objectcache.StreamNamed, healthy); got != 9*n {
							t.Errorf("break %d: %d of %d healthy objects have streams after half a minute", i, got, 9*n)
						}
					}
					cancel()
					gets.Wait()
				})
			})
		}
	}
}
