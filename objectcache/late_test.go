// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/test/apiserver"
)

// Each answer takes long, also a refusal. One attempt may send three requests, and each has a minute for its answer.
func TestLateRefusals(t *testing.T) {
	bad := apierrors.NewBadRequest("no")
	for name, test := range map[string]struct {
		takes time.Duration
		works func(request apiserver.Request) bool
	}{
		"GETs work":  {25 * time.Second, func(request apiserver.Request) bool { return request.Verb == "get" }},
		"lists work": {35 * time.Second, func(request apiserver.Request) bool { return request.Query.Get("sendInitialEvents") == "" }},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, objectcache.WatchOptions{}, func(t *testing.T, r *rig) {
				r.create("tls")
				r.server.Intercept(func(ctx context.Context, request apiserver.Request) *metav1.Status {
					sleepFor(ctx, test.takes)
					if !test.works(request) {
						return &bad.ErrStatus
					}
					return nil
				})
				r.AddReference(namespace, "tls", "pod")
				time.Sleep(4 * time.Minute)
				if status, _ := r.Status(namespace, "tls"); !status.Synced {
					t.Errorf("after 4 minutes: got %+v, want it synced", status)
				}
			})
		})
	}
}

// Requests hung for minutes while no Get waited. Since then they have been answered, in 3 s each. When an answer is
// lost now, the Get that waits is about as patient as without the hang.
func TestLostAnswerAfterAHang(t *testing.T) {
	inBubble(t, objectcache.WatchOptions{}, func(t *testing.T, r *rig) {
		r.create("tls")
		var hangs atomic.Bool
		var lost atomic.Int32
		r.server.Intercept(func(ctx context.Context, request apiserver.Request) *metav1.Status {
			switch {
			case request.Verb == "get":
				return &forbidden().ErrStatus
			case hangs.Load(), lost.Add(-1) >= 0:
				<-ctx.Done()
			default:
				sleepFor(ctx, 3*time.Second)
			}
			return nil
		})
		r.AddReference(namespace, "tls", "pod")
		r.mustGetWithin("tls", time.Minute)
		hangs.Store(true)
		r.server.CloseStreams(nil)
		time.Sleep(5 * time.Minute)
		hangs.Store(false)
		time.Sleep(15 * time.Minute)
		lost.Store(1)
		began := time.Now()
		_, err := r.demandFor(4*time.Minute, "tls", objectcache.GetOptions{Live: true})
		if took := time.Since(began); err != nil || took > 30*time.Second {
			t.Errorf("got %v after %v, want the object within 30 s", err, took)
		}
	})
}
