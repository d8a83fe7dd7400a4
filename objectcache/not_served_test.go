// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/objectcache/resource"
)

// notFound returns the error of client-go for a proxy's answer to a path that is not
// served.
func notFound() *apierrors.StatusError {
	return apierrors.NewGenericServerResponse(http.StatusNotFound, "GET", corev1.Resource("secrets"), "", "default backend", 0, true)
}

// A path that is not served was taken for an absent object, and a node agent removed
// the files of a running pod.
func TestIssue8NotServedIsNotAbsent(t *testing.T) {
	tests := map[string]struct {
		options objectcache.WatchOptions
		stale   bool
	}{
		"never synced":          {},
		"as long as ctx allows": {options: objectcache.WatchOptions{RefusalGrace: -1}},
		"synced, then stale":    {options: objectcache.WatchOptions{MaxStaleness: time.Minute}, stale: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			inBubble(t, test.options, func(t *testing.T, r *rig) {
				r.create("tls")
				if test.stale {
					r.AddReference(namespace, "tls", "pod")
					r.mustGet("tls")
				}
				r.refuse(notFound())
				r.server.CloseStreams(nil)
				r.AddReference(namespace, "tls", "pod")
				time.Sleep(2 * time.Minute)
				_, err := r.get("tls", 5*time.Second)
				status, _ := r.Status(namespace, "tls")
				for from, err := range map[string]error{"Get": err, "Status": status.LastError} {
					var served *resource.NotServedError
					if apierrors.IsNotFound(err) || !errors.As(err, &served) || served.Code != http.StatusNotFound {
						t.Errorf("%s: got %v, want a NotServedError, and not NotFound", from, err)
					}
				}
				if !errors.Is(err, objectcache.ErrNotSynced) || errors.Is(err, objectcache.ErrStale) != test.stale {
					t.Errorf("Get: got %v, want ErrNotSynced, and ErrStale: %v", err, test.stale)
				}
				r.refuse(nil)
				time.Sleep(2100 * time.Millisecond) // the last refusal is old
				r.mustGetWithin("tls", time.Minute)
				r.remove("tls")
				if _, err := r.get("tls", time.Second); !apierrors.IsNotFound(err) {
					t.Errorf("deleted: got %v, want NotFound", err)
				}
			})
		})
	}
}

// The cause of a caller's context may be the NotFound of another object.
func TestIssue8AnotherObjectsNotFound(t *testing.T) {
	beforeRun(t, objectcache.WatchOptions{}, func(t *testing.T, r *rig) {
		r.AddReference(namespace, "tls", "pod")
		cause := apierrors.NewNotFound(corev1.Resource("configmaps"), "other")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(cause)
		_, err := r.Get(ctx, namespace, "tls")
		if apierrors.IsNotFound(err) || !errors.Is(err, cause) {
			t.Errorf("got %v, want the cause, and not NotFound", err)
		}
	})
}
