// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"context"
	"errors"
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
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"

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

// An object for which the function of WithTransform blocks delays those that share its stream by half a second. They
// get streams of their own, and share one again some minutes after the function has returned.
func TestTransformBlocksInASharedStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newSharedRig(t, apiserver.Options{InMemory: true})
		b := newBlocker(t, r.rig, sharedOptions(4))
		r.run()
		all := names(6)
		r.createAll(append(all, "new")...)
		r.reference(all...)
		time.Sleep(joined)
		r.wantPhase("at first", servingShared, all...)
		b.block("s0")
		for _, name := range all {
			r.update(name, "1")
		}
		r.reference("new")
		r.wantValues("a new reference", "0", "new")
		time.Sleep(700 * time.Millisecond)
		r.wantValues("the others", "1", all[1:]...)
		r.wantValues("the object that blocks", "0", all[0])
		before := r.sharedRequests()
		time.Sleep(time.Hour)
		if got := r.sharedRequests() - before; got != 0 {
			t.Errorf("while the function blocks: got %d more requests for the namespace, want none", got)
		}
		b.unblock()
		time.Sleep(time.Second)
		r.wantValues("in the end", "1", all...)
		time.Sleep(retried)
		r.wantPhase("in the end", servingShared, all...)
		r.stop()
	})
}

// The function blocks in the shared stream, and not in the object's own one, which goes on when it has returned.
func TestTransformBlocksOnceInASharedStream(t *testing.T) {
	logger := ktesting.NewLogger(ktesting.NopTL{}, ktesting.NewConfig(ktesting.BufferLogs(true), ktesting.Verbosity(0)))
	synctest.Test(t, func(t *testing.T) {
		r := newSharedRig(t, apiserver.Options{InMemory: true})
		var blocks atomic.Bool
		free := make(chan struct{})
		r.Store = newStore(t, resource.Secrets(clientOf(t, r.server)).WithTransform(func(s *corev1.Secret) *corev1.Secret {
			if s.Name == "s0" && blocks.CompareAndSwap(true, false) {
				<-free
			}
			return s
		}), sharedOptions(4))
		r.stop = runStore(klog.NewContext(t.Context(), logger), t, r.Store)
		all := names(6)
		r.createAll(all...)
		r.reference(all...)
		time.Sleep(joined)
		blocks.Store(true)
		r.update("s0", "1")
		time.Sleep(10 * time.Second)
		r.wantValues("its own stream", "1", "s0")
		close(free)
		time.Sleep(10 * time.Second)
		for _, name := range all {
			r.update(name, "2")
		}
		time.Sleep(time.Second)
		r.wantValues("after the end of the shared stream", "2", all...)
		time.Sleep(time.Hour)
		r.wantPhase("in the end", servingShared, all...)
		r.stop()
	})
	log := logText(logger)
	const want = `err="the transform has not returned for 500ms for the object \"s0\""`
	if strings.Count(log, "Cannot watch the namespace") != 1 || !strings.Contains(log, want) {
		t.Errorf("got the log %s\nwant one line with %s", log, want)
	}
}

// The same, and a Get has asked the shared stream for a newer read before that ended. The event is stored when the
// function has returned, and no object joins the stream for it.
func TestEventOfASharedStreamThatHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newSharedRig(t, apiserver.Options{InMemory: true})
		var blocks atomic.Bool
		free := make(chan struct{})
		options := sharedOptions(4)
		options.MaxStaleness = 10 * time.Second
		r.Store = newStore(t, resource.Secrets(clientOf(t, r.server)).WithTransform(func(s *corev1.Secret) *corev1.Secret {
			if s.Name == "s0" && blocks.CompareAndSwap(true, false) {
				<-free
			}
			return s
		}), options)
		r.run()
		all := names(6)
		r.createAll(all...)
		r.reference(all...)
		time.Sleep(joined + 20*time.Second)
		r.wantPhase("the last bookmark is older than MaxStaleness", objectcache.PhasePending, all...)
		blocks.Store(true)
		r.update("s0", "1")
		if _, err := r.get("s0", 100*time.Millisecond); !errors.Is(err, objectcache.ErrStale) {
			t.Errorf("while the function blocks: got %v, want ErrStale", err)
		}
		time.Sleep(10 * time.Second)
		r.wantValues("its own stream", "1", "s0")
		close(free)
		time.Sleep(10 * time.Second)
		r.update("s0", "2")
		time.Sleep(time.Second)
		r.wantValues("after the end of the shared stream", "2", "s0")
		r.stop()
	})
}

// A function of WithTransform that ends its goroutine does not keep those from their updates that share its stream.
func TestGoexitInASharedStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newSharedRig(t, apiserver.Options{InMemory: true})
		var exits atomic.Bool
		r.Store = newStore(t, resource.Secrets(clientOf(t, r.server)).WithTransform(func(s *corev1.Secret) *corev1.Secret {
			if s.Name == "s0" && exits.CompareAndSwap(true, false) {
				goruntime.Goexit()
			}
			return s
		}), sharedOptions(4))
		r.run()
		all := names(6)
		r.createAll(all...)
		r.reference(all...)
		time.Sleep(joined)
		r.wantPhase("at first", servingShared, all...)
		exits.Store(true)
		for _, name := range all {
			r.update(name, "1")
		}
		time.Sleep(time.Second)
		r.wantValues("a second later", "1", all...)
		time.Sleep(retried)
		r.wantPhase("in the end", servingShared, all...)
		r.stop()
	})
}

// It is the same in the first read of a shared stream, which new references wait for.
func TestTransformBlocksInTheFirstReadOfASharedStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newSharedRig(t, apiserver.Options{InMemory: true})
		b := newBlocker(t, r.rig, sharedOptions(4))
		all := names(6)
		r.createAll(all...)
		b.block("s0")
		r.reference(all...)
		r.run()
		time.Sleep(700 * time.Millisecond)
		r.wantValues("the others", "0", all[1:]...)
		b.unblock()
		time.Sleep(time.Second)
		r.wantValues("in the end", "0", all...)
		r.stop()
	})
}

// After the last reference nothing of a shared stream that cannot end refers to the object.
func TestObjectOfABlockedSharedStreamIsFreed(t *testing.T) {
	freed := make(chan struct{}) // outside the bubble, as cleanups are
	synctest.Test(t, func(t *testing.T) {
		r := newSharedRig(t, apiserver.Options{InMemory: true})
		b := newBlocker(t, r.rig, sharedOptions(4))
		r.run()
		all := names(6)
		r.createAll(all...)
		r.reference(all...)
		time.Sleep(joined)
		b.block("s0")
		r.update("s0", "1")
		time.Sleep(10 * time.Second)
		r.closeWhenFreed("s1", freed)
		r.dereference("s1")
		time.Sleep(10 * time.Second)
		collect(t, freed)
		b.unblock()
		r.stop()
	})
}

// A function of WithTransform that is only slow does not end a shared stream.
func TestTransformIsSlowInASharedStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newSharedRig(t, apiserver.Options{InMemory: true})
		r.Store = newStore(t, resource.Secrets(clientOf(t, r.server)).WithTransform(func(s *corev1.Secret) *corev1.Secret {
			time.Sleep(400 * time.Millisecond)
			return s
		}), sharedOptions(4))
		r.run()
		all := names(6)
		r.createAll(all...)
		r.reference(all...)
		time.Sleep(joined)
		for _, name := range all {
			r.update(name, "1")
		}
		time.Sleep(time.Minute)
		r.wantValues("in the end", "1", all...)
		r.wantPhase("in the end", servingShared, all...)
		r.stop()
	})
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
		b := newBlocker(t, r, objectcache.WatchOptions{BlockingStreams: blockingStreams})
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
		}), objectcache.WatchOptions{BlockingStreams: blockingStreams})
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
