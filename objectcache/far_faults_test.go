// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/test/apiserver"
)

// A server nearby takes 25 s for its first answers, as while it starts. It is not far away for that: refusals are
// returned as soon as ever, and GETs answer.
func TestSlowStartOfAServerNearby(t *testing.T) {
	for _, n := range []int{1, 5, 41} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			inBubble(t, objectcache.WatchOptions{OutageGrace: -1}, func(t *testing.T, r *rig) {
				up := time.Now().Add(25 * time.Second)
				r.server.Intercept(func(ctx context.Context, request apiserver.Request) *metav1.Status {
					if request.Verb == "create" {
						return nil
					}
					sleepFor(ctx, max(2*time.Millisecond, time.Until(up)))
					if request.Name == "forbidden" {
						return &apierrors.NewForbidden(corev1.Resource("secrets"), request.Name, nil).ErrStatus
					}
					return nil
				})
				names := r.known("tls", n)
				for _, name := range names {
					r.mustGetWithin(name, time.Minute)
				}
				time.Sleep(20 * time.Minute)
				r.AddReference(namespace, "forbidden", "pod")
				began := time.Now()
				if _, err := r.Get(t.Context(), namespace, "forbidden"); !apierrors.IsForbidden(err) || time.Since(began) > 2*time.Second {
					t.Errorf("got %v after %v, want the refusal within 2 s", err, time.Since(began))
				}
			})
		})
	}
}

// A proxy answers for the server at first. Its failures do not tell how far the server is.
func TestFarServerBehindAProxy(t *testing.T) {
	const roundTrip = 8 * time.Second
	inFarBubble(t, roundTrip, false, func(t *testing.T, r *farRig) {
		up := time.Now().Add(300 * time.Millisecond)
		r.server.Intercept(func(ctx context.Context, _ apiserver.Request) *metav1.Status {
			if time.Now().Before(up) {
				return &apierrors.NewServiceUnavailable("proxy").ErrStatus
			}
			sleepFor(ctx, roundTrip)
			return nil
		})
		var gets sync.WaitGroup
		for _, name := range r.names {
			r.AddReference(namespace, name, "pod")
			gets.Go(func() {
				if _, err := r.Get(t.Context(), namespace, name); err != nil {
					t.Error(err)
				}
			})
		}
		if took := r.synced(); took > 7*roundTrip/2 {
			t.Errorf("all have streams after %v, want three and a half round trips at most", took)
		}
		gets.Wait()
	})
}

// Watches hang from the start, as behind a proxy that does not stream, and the Role has no get. A refused GET shows
// that the server is near, so lists follow soon.
func TestWatchesThatHangFromTheStart(t *testing.T) {
	for _, n := range []int{1, 20, 200} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			inBubble(t, objectcache.WatchOptions{}, func(t *testing.T, r *rig) {
				names := make([]string, n)
				for i := range names {
					names[i] = fmt.Sprint("tls-", i)
					r.create(names[i])
				}
				r.server.Intercept(func(ctx context.Context, request apiserver.Request) *metav1.Status {
					switch request.Verb {
					case "watch":
						<-ctx.Done()
					case "get":
						return &apierrors.NewForbidden(corev1.Resource("secrets"), request.Name, nil).ErrStatus
					}
					return nil
				})
				var gets sync.WaitGroup
				began := time.Now()
				for _, name := range names {
					r.AddReference(namespace, name, "pod")
					gets.Go(func() {
						if _, err := r.Get(t.Context(), namespace, name); err != nil {
							t.Error(err)
						}
					})
				}
				gets.Wait()
				if took := time.Since(began); took > 15*time.Second {
					t.Errorf("the last Get took %v, want 15 s at most", took)
				}
			})
		})
	}
}
