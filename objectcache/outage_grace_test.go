// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/test/apiserver"
)

// inOutage runs f with 20 known objects, which fail as failing says.
func inOutage(t *testing.T, failing failing, options objectcache.StoreOptions, f func(*testing.T, *failingRig)) {
	inFailing(t, failing, options, func(t *testing.T, r *failingRig) {
		r.run()
		for i := range 20 {
			name := fmt.Sprint("known-", i)
			r.create(name)
			r.AddReference(namespace, name, "pod")
			r.mustGet(name)
		}
		r.begin()
		r.mu.Lock()
		for _, conn := range r.conns {
			_ = conn.Close()
		}
		r.mu.Unlock()
		time.Sleep(time.Minute)
		f(t, r)
	})
}

// In an outage that is known, Gets of names that were never read return the cause, after a second for all of them
// together: a worker that reads 50 names in turn is not kept for minutes. Known objects are served, and WaitForSync
// waits on.
func TestOutageGrace(t *testing.T) {
	for _, name := range []string{"500", "503", "429", "connection refused"} {
		t.Run(name, func(t *testing.T) {
			failing := failings()[name]
			inOutage(t, failing, objectcache.WatchOptions{}, func(t *testing.T, r *failingRig) {
				began := time.Now()
				for i := range 50 {
					r.AddReference(namespace, fmt.Sprint("new-", i), "pod")
					_, err := r.get(fmt.Sprint("new-", i), time.Minute)
					if !failing.is(err) || !errors.Is(err, objectcache.ErrNotSynced) || errors.Is(err, context.DeadlineExceeded) {
						t.Fatalf("%d: got %v, want the cause", i, err)
					}
				}
				if took := time.Since(began); took > 20*time.Second {
					t.Errorf("50 Gets in turn took %v, want seconds", took)
				}
				r.mustGet("known-7")
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				err := objectcache.WaitForSync(ctx, r.Store, types.NamespacedName{Namespace: namespace, Name: "new-7"})
				if !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("WaitForSync: got %v, want that it waits until its context ends", err)
				}
			})
		})
	}
}

// A Get waits on if the server has said when to ask again, if requests have no answer, or with a negative OutageGrace.
func TestNoOutageGrace(t *testing.T) {
	for name, options := range map[string]objectcache.WatchOptions{
		"429, Retry-After": {}, "hanging": {}, "500": {OutageGrace: -1}, "connection refused": {OutageGrace: -1},
	} {
		t.Run(name, func(t *testing.T) {
			inOutage(t, failings()[name], options, func(t *testing.T, r *failingRig) {
				r.AddReference(namespace, "new", "pod")
				began := time.Now()
				_, err := r.get("new", 30*time.Second)
				if !errors.Is(err, context.DeadlineExceeded) || time.Since(began) < 30*time.Second {
					t.Errorf("got %v after %v, want that the Get waits for 30 s", err, time.Since(began))
				}
			})
		})
	}
}

// The objects that are known fail. A new one that is well is served: it is asked for before its Get gives up.
func TestOutageGraceOfAnObjectThatIsWell(t *testing.T) {
	inBubble(t, objectcache.WatchOptions{}, func(t *testing.T, r *rig) {
		for i := range 20 {
			name := fmt.Sprint("known-", i)
			r.create(name)
			r.AddReference(namespace, name, "pod")
			r.mustGet(name)
		}
		var sick atomic.Bool
		r.server.Intercept(func(_ context.Context, request apiserver.Request) *metav1.Status {
			if sick.Load() && len(request.Name) > 5 && request.Name[:5] == "known" {
				return &apierrors.NewInternalError(errors.New("cannot decrypt")).ErrStatus
			}
			return nil
		})
		sick.Store(true)
		r.server.CloseStreams(nil)
		time.Sleep(20 * time.Second)
		synctest.Wait()
		for i := range 20 {
			name := fmt.Sprint("well-", i)
			r.create(name)
			r.AddReference(namespace, name, "pod")
			r.mustGetWithin(name, 2*time.Second)
		}
	})
}
