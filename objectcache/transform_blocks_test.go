// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"context"
	"fmt"
	goruntime "runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/objectcache/resource"
	"github.com/refwatch/refwatch/test/apiserver"
)

// blocker blocks a function of WithTransform for objects whose names begin with a text.
type blocker struct {
	prefix atomic.Pointer[string]
	free   chan struct{}
}

// newBlocker makes a store whose function of WithTransform a blocker may block. It is called in a bubble.
func newBlocker(t *testing.T, r *rig, options objectcache.WatchOptions) *blocker {
	b := &blocker{free: make(chan struct{})}
	r.Store = newStore(t, resource.Secrets(clientOf(t, r.server)).WithTransform(func(s *corev1.Secret) *corev1.Secret {
		if prefix := b.prefix.Load(); prefix != nil && strings.HasPrefix(s.Name, *prefix) {
			<-b.free
		}
		return s
	}), options)
	return b
}

func (b *blocker) block(prefix string) { b.prefix.Store(&prefix) }

func (b *blocker) unblock() {
	b.prefix.Store(nil)
	close(b.free)
}

// Openings hang, and the function of WithTransform blocks for the objects that hedged reads have brought. Others are
// read beside them. None of those that block is read again.
func TestTransformBlocksInHedgedReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, apiserver.Options{InMemory: true}, objectcache.WatchOptions{})
		b := newBlocker(t, r, objectcache.WatchOptions{})
		var sent atomic.Int32
		r.server.Intercept(func(ctx context.Context, request apiserver.Request) *metav1.Status {
			switch {
			case request.Verb == "list" || request.Verb == "watch":
				<-ctx.Done()
			case request.Verb == "get" && strings.HasPrefix(request.Name, "bad"):
				sent.Add(1)
			}
			return nil
		})
		b.block("bad")
		r.run()
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		var gets sync.WaitGroup
		const blocked = 8 // more than the hedged reads at once, and too few for an outage
		for i := range blocked {
			name := fmt.Sprint("bad", i)
			r.create(name)
			r.AddReference(namespace, name, "pod")
			gets.Go(func() { _, _ = r.Get(ctx, namespace, name) })
		}
		time.Sleep(1500 * time.Millisecond)
		r.create("good")
		r.AddReference(namespace, "good", "pod")
		if _, err := r.get("good", 5*time.Second); err != nil {
			t.Error(err)
		}
		gets.Wait()
		if got := sent.Load(); got != blocked {
			t.Errorf("got %d GETs of the objects that block, want %d", got, blocked)
		}
		cancel()
		b.unblock()
		r.stop()
	})
}

// The function blocks for as many objects as a DirectStore reads at once. Others are read beside them.
func TestTransformBlocksInADirectStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, apiserver.Options{InMemory: true}, objectcache.WatchOptions{})
		free := make(chan struct{})
		store, err := objectcache.NewDirectStore(resource.Secrets(clientOf(t, r.server)).WithTransform(func(s *corev1.Secret) *corev1.Secret {
			if s.Name != "good" {
				<-free
			}
			return s
		}), objectcache.DirectOptions{})
		if err != nil {
			t.Fatal(err)
		}
		var gets sync.WaitGroup
		for _, name := range names(objectcache.DirectReads) {
			r.create(name)
			gets.Go(func() {
				if _, err := store.Get(t.Context(), namespace, name); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		r.create("good")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := store.Get(ctx, namespace, "good"); err != nil {
			t.Error(err)
		}
		close(free)
		gets.Wait()
	})
}

// The function blocks for the new owner of an immutable object. Gets return the object that all others have, as beside
// a request that hangs.
func TestTransformBlocksForANewOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, apiserver.Options{InMemory: true}, objectcache.WatchOptions{})
		b := newBlocker(t, r, objectcache.WatchOptions{})
		r.create("tls", immutable)
		r.run()
		r.AddReference(namespace, "tls", "pod")
		r.mustGet("tls")
		b.block("tls")
		r.AddReference(namespace, "tls", "another")
		began := time.Now()
		if _, err := r.get("tls", time.Minute); err != nil || time.Since(began) > 5*time.Second {
			t.Errorf("got %v after %v, want the object within 5 s", err, time.Since(began))
		}
		b.unblock()
		r.stop()
	})
}

// The function ends the goroutine of a GET beside the first read. The object that it has not transformed is not stored.
func TestGoexitInAHedgedRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, apiserver.Options{InMemory: true}, objectcache.WatchOptions{})
		r.Store = newStore(t, resource.Secrets(clientOf(t, r.server)).WithTransform(func(s *corev1.Secret) *corev1.Secret {
			goruntime.Goexit()
			return s
		}), objectcache.WatchOptions{})
		gets := r.slowOpenings(95 * time.Millisecond)
		r.create("tls")
		r.run()
		r.AddReference(namespace, "tls", "pod")
		if got, err := r.get("tls", time.Second); err == nil || gets.Load() == 0 {
			t.Errorf("got %v after %d GETs, want an error after one", got, gets.Load())
		}
		r.stop()
	})
}
