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
	"github.com/refwatch/refwatch/test/testmain"
)

// What is promised about a function of WithTransform that blocks, although it must not, and one that ends its
// goroutine. TestTransformFails has those that panic, and TestTransformReaddsItsReference one that loops.

// blocker blocks a function of WithTransform for objects whose names begin with a text.
type blocker struct {
	gate   *objectcache.Gate
	prefix atomic.Pointer[string]
	free   chan struct{}
}

// newBlocker makes a store whose function of WithTransform a blocker may block. It is called in a bubble.
func newBlocker(t *testing.T, r *rig, options objectcache.WatchOptions) *blocker {
	b := &blocker{gate: objectcache.NewGate(objectcache.GateOptions{}), free: make(chan struct{})}
	options.Gate = b.gate
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

// blocked is what holds while a function blocks. The store runs; the function is freed at the end.
var blocked = map[string]struct {
	options objectcache.WatchOptions
	server  apiserver.Options
	test    func(t *testing.T, r *rig, b *blocker)
}{
	"hedged reads":             {test: testBlockedHedges},
	"a DirectStore":            {test: testBlockedDirectStore},
	"a new owner":              {test: testBlockedForANewOwner},
	"a bookmark is no contact": {server: apiserver.Options{BookmarkInterval: 30 * time.Second}, test: testBookmarkBehindAFunction},
	"an old event": {options: objectcache.WatchOptions{MaxStaleness: time.Minute}, test: func(t *testing.T, r *rig, b *blocker) {
		testOldState(t, r, b, func() { r.update("tls", "1") })
	}},
	"an old list": {
		options: objectcache.WatchOptions{MaxStaleness: time.Minute}, server: apiserver.Options{DisableWatchList: true},
		test: func(t *testing.T, r *rig, b *blocker) { testOldState(t, r, b, func() { r.server.CloseStreams(nil) }) },
	},
	"the error of a Get": {test: testErrorBesideAFunction},
}

func TestTransformBlocks(t *testing.T) {
	for name, test := range blocked {
		t.Run(name, func(t *testing.T) {
			withBlocker(t, test.server, test.options, test.test)
		})
	}
}

// withBlocker runs f with parked and with blocking streams, in a bubble.
func withBlocker(t *testing.T, server apiserver.Options, options objectcache.WatchOptions, f func(t *testing.T, r *rig, b *blocker)) {
	t.Helper()
	parkedAndBlocking(t, func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			server.InMemory = true
			r := newRig(t, server, objectcache.WatchOptions{})
			b := newBlocker(t, r, options)
			r.run()
			f(t, r, b)
			r.stop()
		})
	})
}

// The function blocks for the events of some objects and for the reads of others. That delays no other object, and is
// no outage. What has waited for it is stored when it has returned.
func TestTransformBlocksForManyObjects(t *testing.T) {
	withBlocker(t, apiserver.Options{}, objectcache.WatchOptions{}, testManyBlocked)
}

func testManyBlocked(t *testing.T, r *rig, b *blocker) {
	n := 1000
	if testmain.Race {
		n = 250
	}
	bad, others := prefixed("bad", n), names(10)
	r.createAll(append(bad, others...)...)
	r.reference(append(bad, others...)...)
	time.Sleep(10 * time.Second)
	check := func(when, value string) {
		t.Helper()
		for _, name := range others {
			r.update(name, value)
		}
		time.Sleep(time.Second)
		r.wantValues(when, value, others...)
		if cause := b.gate.Status().Cause; cause != nil {
			t.Errorf("%s: got an outage with %v, want none", when, cause)
		}
	}
	b.block("bad")
	for _, name := range bad[:n/2] {
		r.update(name, "new")
	}
	check("beside events", "1")
	r.server.CloseStreams(nil)
	check("beside reads", "2")
	time.Sleep(time.Hour)
	check("an hour later", "3")
	r.wantValues("while it blocks", "0", bad...)
	b.unblock()
	time.Sleep(30 * time.Second)
	r.wantValues("when it has returned", "new", bad[:n/2]...)
	r.wantValues("when it has returned", "0", bad[n/2:]...)
	check("when it has returned", "4")
}

func prefixed(prefix string, n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprint(prefix, i))
	}
	return all
}

// Openings hang, and the function blocks for the objects that hedged reads have brought. Others are read beside them.
// None of those that block is read again and again.
func testBlockedHedges(t *testing.T, r *rig, b *blocker) {
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
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
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
	// One hedged read of each, and one attempt that is a GET, because lists and watches hang.
	if got := sent.Load(); got > 2*blocked {
		t.Errorf("got %d GETs of the objects that block, want %d at most", got, 2*blocked)
	}
	b.unblock()
}

// The function blocks for as many objects as a DirectStore reads at once. Others are read beside them.
func testBlockedDirectStore(t *testing.T, r *rig, b *blocker) {
	store, err := objectcache.NewDirectStore(resource.Secrets(clientOf(t, r.server)).WithTransform(func(s *corev1.Secret) *corev1.Secret {
		if s.Name != "good" {
			<-b.free
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
	b.unblock()
	gets.Wait()
}

// The function blocks for the new owner of an immutable object. Gets return the object that all others have, as beside
// a request that hangs.
func testBlockedForANewOwner(t *testing.T, r *rig, b *blocker) {
	r.create("tls", immutable)
	r.AddReference(namespace, "tls", "pod")
	r.mustGet("tls")
	b.block("tls")
	r.AddReference(namespace, "tls", "another")
	began := time.Now()
	if _, err := r.get("tls", time.Minute); err != nil || time.Since(began) > 5*time.Second {
		t.Errorf("got %v after %v, want the object within 5 s", err, time.Since(began))
	}
	b.unblock()
}

// The server sends bookmarks while the function works with an event. They do not make the state before it younger.
func testBookmarkBehindAFunction(t *testing.T, r *rig, b *blocker) {
	r.create("tls")
	r.AddReference(namespace, "tls", "pod")
	r.mustGet("tls")
	contact := func() time.Time {
		status, _ := r.Status(namespace, "tls")
		return status.LastContact
	}
	time.Sleep(75 * time.Second)
	if time.Since(contact()) > 30*time.Second {
		t.Fatalf("got a last contact %v ago, want bookmarks", time.Since(contact()))
	}
	b.block("tls")
	r.update("tls", "1")
	called := time.Now()
	time.Sleep(100 * time.Second)
	if got := contact(); got.After(called) {
		t.Errorf("got a contact %v after the function was called, want none", got.Sub(called))
	}
	b.unblock()
	synctest.Wait()
	if got := contact(); got.After(called) && !blockingStreams {
		t.Errorf("when it has returned: got a contact %v after it was called, want none", got.Sub(called))
	}
	r.wantValue("when it has returned", "tls", "1")
}

// A state is as old as what the server has sent, and not as its way through the function.
func testOldState(t *testing.T, r *rig, b *blocker, sends func()) {
	t.Helper()
	r.create("tls")
	r.AddReference(namespace, "tls", "pod")
	r.mustGet("tls")
	b.block("tls")
	sends()
	time.Sleep(time.Second)
	r.refuse(unavailable())
	r.server.CloseStreams(nil)
	time.Sleep(time.Hour)
	b.unblock()
	time.Sleep(time.Second)
	if got, err := r.get("tls", time.Second); err == nil {
		t.Errorf("got %v, which is an hour old, want an error", got)
	}
}

// The error of a Get does not say that the server is silent.
func testErrorBesideAFunction(t *testing.T, r *rig, b *blocker) {
	r.create("tls")
	b.block("tls")
	r.AddReference(namespace, "tls", "pod")
	time.Sleep(2 * time.Minute)
	_, err := r.get("tls", 50*time.Millisecond)
	if err == nil || !strings.Contains(err.Error(), "the answer is not stored yet") || strings.Contains(err.Error(), "no answer") {
		t.Errorf("got %v, want that the answer is not stored", err)
	}
	if s, _ := r.Store.Status(namespace, "tls"); !s.AskedAt.IsZero() || s.Failures > 0 {
		t.Errorf("got the status %+v, want no request that waits for its answer", s)
	}
	b.unblock()
	r.mustGet("tls")
}

// A function that ends its goroutine, as a test's FailNow does, keeps no slot, and no Run from its end. What it has not
// returned is not stored.
func TestTransformEndsItsGoroutine(t *testing.T) {
	inBubbles(t, objectcache.WatchOptions{}, func(t *testing.T, r *rig) {
		var exits atomic.Bool
		kind := resource.Secrets(clientOf(t, r.server)).WithTransform(func(s *corev1.Secret) *corev1.Secret {
			if exits.Load() && s.Name != "good" {
				goruntime.Goexit()
			}
			return s
		})
		r.stop()
		r.Store = newStore(t, kind, objectcache.WatchOptions{})
		direct, err := objectcache.NewDirectStore(kind, objectcache.DirectOptions{})
		if err != nil {
			t.Fatal(err)
		}
		r.run()
		events, reads := prefixed("event", 20), prefixed("read", 20)
		r.createAll(append(append(events, reads...), "good")...)
		r.reference(events...)
		time.Sleep(10 * time.Second)
		exits.Store(true)
		for _, name := range events {
			r.update(name, "1")
		}
		r.reference(reads...) // hedged, too
		for _, name := range reads {
			if _, err := r.get(name, 50*time.Millisecond); !errors.Is(err, objectcache.ErrNotSynced) {
				t.Errorf("Get %s: got %v, want ErrNotSynced", name, err)
			}
		}
		for range objectcache.DirectReads + 1 {
			done := make(chan struct{})
			go func() {
				defer close(done)
				_, _ = direct.Get(t.Context(), namespace, "read0")
			}()
			<-done
		}
		r.wantValues("events", "0", events...)
		r.reference("good")
		r.mustGet("good")
		if _, err := direct.Get(t.Context(), namespace, "good"); err != nil {
			t.Error(err)
		}
	})
}

// Run logs that it waits for a function of the program, once, and has logged it when it returns.
func TestRunWaitsForTransform(t *testing.T) {
	log := &slowLog{}
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, apiserver.Options{InMemory: true}, objectcache.WatchOptions{})
		b := newBlocker(t, r, objectcache.WatchOptions{})
		r.create("tls")
		stop := runStore(klog.NewContext(t.Context(), ktesting.NewLogger(log, ktesting.NewConfig(ktesting.Verbosity(0)))), t, r.Store)
		r.AddReference(namespace, "tls", "pod")
		r.mustGet("tls")
		b.block("tls")
		r.update("tls", "1")
		time.Sleep(time.Second)
		began := time.Now()
		time.AfterFunc(5500*time.Millisecond, b.unblock)
		stop()
		if got := log.written.Load(); got != 1 || time.Since(began) < 5*time.Second {
			t.Errorf("when Run has returned after %v: got %d lines with %q, want 1, after the function", time.Since(began), got, waits)
		}
		time.Sleep(10 * time.Second)
	})
	if got := log.written.Load(); got != 1 {
		t.Errorf("got %d lines with %q, want 1", got, waits)
	}
}

const waits = "The store stops, and waits for a function of the program"

// slowLog takes a second to write the line that Run waits, as to a pipe that is full.
type slowLog struct {
	ktesting.NopTL
	written atomic.Int32
}

func (l *slowLog) Log(args ...any) {
	if strings.Contains(fmt.Sprint(args...), waits) {
		time.Sleep(time.Second)
		l.written.Add(1)
	}
}
