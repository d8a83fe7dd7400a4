// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"context"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/test/apiserver"
)

// setReady of the guide writes each cause once, and nothing before Run, while the first read is under way, and after
// the end of Run.
func TestStatusIsWrittenOncePerCause(t *testing.T) {
	for name, test := range map[string]struct {
		answer *apierrors.StatusError
		reason string
	}{
		"found": {nil, "Found"}, "forbidden": {forbidden(), "Forbidden"}, "unavailable": {unavailable(), "NotSynced"},
	} {
		t.Run(name, func(t *testing.T) {
			beforeRun(t, objectcache.WatchOptions{}, func(t *testing.T, r *rig) {
				r.create("tls")
				held := make(chan struct{})
				r.server.Intercept(func(context.Context, apiserver.Request) *metav1.Status {
					<-held
					if test.answer == nil {
						return nil
					}
					return &test.answer.ErrStatus
				})
				var conditions []metav1.Condition
				writes := 0
				set := func(times int) (written int) {
					before := writes
					for range times {
						status, _ := r.Status(namespace, "tls")
						_, err := r.TryGet(namespace, "tls")
						if setReady(&conditions, status, err) {
							writes++
						}
						time.Sleep(10 * time.Millisecond)
					}
					return writes - before
				}
				r.AddReference(namespace, "tls", "gateway")
				if got := set(1); got != 0 {
					t.Errorf("before Run: got %d writes, want 0", got)
				}
				r.run()
				if got := set(100); got != 0 {
					t.Errorf("before the first answer: got %d writes, want 0", got)
				}
				close(held)
				if got := set(fewer(10_000)); got != 1 || conditions[0].Reason != test.reason {
					t.Errorf("after it: got %d writes and %v, want 1 with the reason %s", got, conditions, test.reason)
				}
				r.stop()
				if got := set(10); got != 0 {
					t.Errorf("after the end of Run: got %d writes, want 0", got)
				}
			})
		})
	}
}
