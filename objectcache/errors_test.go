// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"

	"github.com/refwatch/refwatch/internal/reflector"
	"github.com/refwatch/refwatch/objectcache"
)

// Without Run, and without an answer of the server, the error was only "not synced:
// context deadline exceeded".
func TestIssue8ErrorsNameTheCause(t *testing.T) {
	t.Run("not started", func(t *testing.T) {
		beforeRun(t, objectcache.WatchOptions{}, func(t *testing.T, r *rig) {
			r.AddReference(namespace, "tls", "pod")
			_, err := r.get("tls", time.Second)
			for _, want := range []error{objectcache.ErrNotSynced, objectcache.ErrNotStarted, context.DeadlineExceeded} {
				if !errors.Is(err, want) {
					t.Errorf("got %v, want it to be %v", err, want)
				}
			}
		})
	})
	t.Run("not started is logged once", func(t *testing.T) {
		beforeRun(t, objectcache.WatchOptions{}, func(t *testing.T, r *rig) {
			logger := ktesting.NewLogger(ktesting.NopTL{}, ktesting.NewConfig(ktesting.BufferLogs(true), ktesting.Verbosity(0)))
			klog.SetLogger(logger) // Run has no logger yet
			defer klog.ClearLogger()
			logged := func() int {
				return strings.Count(logText(logger), "Run has not been called")
			}
			r.AddReference(namespace, "tls", "pod")
			_, _ = r.get("tls", 500*time.Millisecond)
			if got := logged(); got != 0 {
				t.Errorf("lines after half a second: got %d, want 0: Run may be about to start", got)
			}
			_, _ = r.get("tls", 2*time.Second)
			_, _ = r.get("tls", 2*time.Second)
			if got := logged(); got != 1 {
				t.Errorf("lines: got %d, want 1", got)
			}
		})
	})
	t.Run("not answered", func(t *testing.T) {
		inBubble(t, objectcache.WatchOptions{}, func(t *testing.T, r *rig) {
			release := r.holdBack("watch")
			r.AddReference(namespace, "tls", "pod")
			asked := time.Now()
			_, err := r.get("tls", 3*time.Second)
			if !errors.Is(err, objectcache.ErrNotSynced) || !strings.HasSuffix(err.Error(), "not synced: no answer from the server") {
				t.Errorf("got %v, want \"no answer from the server\"", err)
			}
			if status, _ := r.Status(namespace, "tls"); status.AskedAt.Sub(asked).Abs() > time.Millisecond || status.Failures > 0 || status.Waiting != nil {
				t.Errorf("status: got %+v, want that the server was asked at %v", status, asked)
			}
			release()
			synctest.Wait()
			if status, _ := r.Status(namespace, "tls"); !status.AskedAt.IsZero() {
				t.Errorf("status after the answer: asked at %v, want zero", status.AskedAt)
			}
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
			// An attempt that began more than 5 s ago is given up for the Get. That is then the failure.
			if !apierrors.IsServiceUnavailable(err) && !errors.Is(err, reflector.ErrNoAnswer) {
				t.Errorf("got %v, want the failure, or that the attempt was given up", err)
			}
			release()
		})
	})
}
