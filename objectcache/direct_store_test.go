// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/objectcache/resource"
	"github.com/refwatch/refwatch/test/apiserver"
)

// Each Get is one request, and needs neither a reference nor Run.
func TestDirectGet(t *testing.T) {
	beforeRun(t, objectcache.DirectOptions{}, func(t *testing.T, r *rig) {
		if _, err := r.get("tls", time.Second); !apierrors.IsNotFound(err) {
			t.Errorf("absent: got %v, want NotFound", err)
		}
		created := r.create("tls")
		r.within("tls", time.Second, created.UID)
		updated := r.update("tls", "new")
		for _, options := range []objectcache.GetOptions{{}, {Live: true}, {MaxStaleness: 1}, {NotOlderThan: updated.ResourceVersion}} {
			if got, err := r.demand("tls", options); err != nil || valueOf(got) != "new" {
				t.Errorf("%+v: got %q, %v, want new", options, valueOf(got), err)
			}
		}
		if _, err := r.demand("tls", objectcache.GetOptions{NotOlderThan: "1000000"}); !errors.Is(err, objectcache.ErrStale) || !errors.Is(err, objectcache.ErrNotSynced) {
			t.Errorf("a version that the server does not have: got %v, want ErrStale", err)
		}
		if _, err := r.demand("tls", objectcache.GetOptions{NotOlderThan: "x"}); err == nil {
			t.Error("an invalid version: got no error")
		}
		r.wantReads("all", "tls", 7)
	})
}

func TestDirectErrors(t *testing.T) {
	inBubble(t, objectcache.DirectOptions{}, func(t *testing.T, r *rig) {
		r.create("tls")
		r.AddReference(namespace, "tls", "pod")
		if _, err := r.TryGet(namespace, "tls"); !errors.Is(err, objectcache.ErrNotSynced) {
			t.Errorf("TryGet: got %v, want ErrNotSynced", err)
		}
		if _, err := r.get("a/b", time.Second); !errors.Is(err, objectcache.ErrInvalidName) {
			t.Errorf("invalid name: got %v, want ErrInvalidName", err)
		}
		var none context.Context
		if _, err := r.Get(none, namespace, "tls"); !errors.Is(err, objectcache.ErrNilContext) {
			t.Errorf("no context: got %v, want ErrNilContext", err)
		}
		r.refuse(forbidden())
		if _, err := r.get("tls", time.Second); !apierrors.IsForbidden(err) || !errors.Is(err, objectcache.ErrNotSynced) {
			t.Errorf("refused: got %v, want ErrNotSynced and Forbidden", err)
		}
		r.refuse(notFound())
		var served *resource.NotServedError
		if _, err := r.get("tls", time.Second); apierrors.IsNotFound(err) || !errors.As(err, &served) {
			t.Errorf("not served: got %v, want NotServedError", err)
		}
		release := r.holdBack("get")
		_, err := r.get("tls", time.Second)
		if text := `secrets "default/tls": not synced: no answer from the server`; err == nil || err.Error() != text || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("no answer: got %v, want %s", err, text)
		}
		release()
		if _, known := r.Status(namespace, "tls"); known {
			t.Error("Status: got one")
		}
		for range r.Statuses() {
			t.Error("Statuses: got one")
		}
		sub := r.subscribe()
		r.mustGet("tls")
		want(t, "changes", sub.seen())
		sub.stop()
		sub = r.subscribe()
		r.DeleteReference(namespace, "tls", "pod")
		if err := r.Run(t.Context()); !errors.Is(err, objectcache.ErrAlreadyStarted) {
			t.Errorf("second Run: got %v, want ErrAlreadyStarted", err)
		}
		r.stop()
		<-sub.done // ends with the store
		if _, err := r.Get(t.Context(), namespace, "tls"); !errors.Is(err, objectcache.ErrStopped) {
			t.Errorf("stopped: got %v, want ErrStopped", err)
		}
		if err := r.Run(none); !errors.Is(err, objectcache.ErrNilContext) {
			t.Errorf("Run without context: got %v, want ErrNilContext", err)
		}
	})
}

// A storm of Gets is 32 requests at a time. The others wait as long as their contexts
// allow.
func TestDirectReadsAtATime(t *testing.T) {
	inBubble(t, objectcache.DirectOptions{}, func(t *testing.T, r *rig) {
		r.create("tls")
		release := make(chan struct{})
		var mu sync.Mutex
		now, most := 0, 0
		r.server.Intercept(func(_ context.Context, request apiserver.Request) *metav1.Status {
			mu.Lock()
			now++
			most = max(most, now)
			mu.Unlock()
			<-release
			mu.Lock()
			now--
			mu.Unlock()
			return nil
		})
		var gets sync.WaitGroup
		for range 1000 {
			gets.Go(func() {
				if _, err := r.Get(t.Context(), namespace, "tls"); err != nil {
					t.Errorf("Get: %v", err)
				}
			})
		}
		synctest.Wait()
		began := time.Now()
		_, err := r.get("tls", time.Second)
		if took := time.Since(began); !errors.Is(err, context.DeadlineExceeded) || took != time.Second {
			t.Errorf("Get in the queue: got %v after %v, want DeadlineExceeded after 1 s", err, took)
		}
		close(release)
		gets.Wait()
		if most != objectcache.DirectReads {
			t.Errorf("requests at a time: got %d, want %d", most, objectcache.DirectReads)
		}
		if got := r.requests("get", "tls"); got != 1000 {
			t.Errorf("requests: got %d, want one for each Get", got)
		}
	})
}
