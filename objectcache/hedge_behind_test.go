// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/test/apiserver"
)

// A GET beside the first read has brought an object. Then the server is restored from a backup without it. A Get whose
// read begins after that does not return the object that is lost.
func TestReadBehindAHedgedRead(t *testing.T) {
	for name, get := range map[string]func(*rig) (*corev1.Secret, error){
		"live": func(r *rig) (*corev1.Secret, error) { return r.demand("tls", objectcache.GetOptions{Live: true}) },
		"age": func(r *rig) (*corev1.Secret, error) {
			time.Sleep(20 * time.Millisecond)
			return r.demand("tls", objectcache.GetOptions{MaxStaleness: 10 * time.Millisecond})
		},
		"new owner": func(r *rig) (*corev1.Secret, error) {
			r.AddReference(namespace, "tls", "new")
			return r.get("tls", 10*time.Second)
		},
		"first Get of another reference": func(r *rig) (*corev1.Secret, error) {
			r.DeleteReference(namespace, "tls", "pod")
			r.AddReference(namespace, "tls", "pod")
			return r.get("tls", 10*time.Second)
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, objectcache.WatchOptions{}, func(t *testing.T, r *rig) {
				backup := r.server.Snapshot()
				r.create("tls")
				gate := make(chan struct{})
				r.server.Intercept(func(_ context.Context, request apiserver.Request) *metav1.Status {
					if request.Verb == "get" {
						return nil
					}
					<-gate
					return &unavailable().ErrStatus
				})
				r.AddReference(namespace, "tls", "pod")
				r.mustGet("tls") // by the GET
				r.server.Restore(backup)
				close(gate)
				synctest.Wait()
				r.server.Intercept(nil)
				if got, err := get(r); !apierrors.IsNotFound(err) {
					t.Errorf("got %v, %v, want NotFound: the read began after the restore", got, err)
				}
				time.Sleep(time.Minute)
				if got, err := r.get("tls", time.Second); !apierrors.IsNotFound(err) {
					t.Errorf("a minute later: got %v, %v, want NotFound", got, err)
				}
			})
		})
	}
}
