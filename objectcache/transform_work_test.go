// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"context"
	"fmt"
	goruntime "runtime"
	"strings"
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

// The function ends its goroutine: Get of a DirectStore returns that as the cause.
func TestGoexitInADirectStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, apiserver.Options{InMemory: true}, objectcache.WatchOptions{})
		store, err := objectcache.NewDirectStore(resource.Secrets(clientOf(t, r.server)).WithTransform(func(s *corev1.Secret) *corev1.Secret {
			goruntime.Goexit()
			return s
		}), objectcache.DirectOptions{})
		if err != nil {
			t.Fatal(err)
		}
		r.create("tls")
		var returned atomic.Bool
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, _ = store.Get(t.Context(), namespace, "tls")
			returned.Store(true)
		}()
		<-done
		if !returned.Load() {
			t.Error("Get has ended the goroutine of its caller, want an error")
		}
	})
}

// Without a function of WithTransform no Status says that one works.
func TestTransformingSinceWithoutAFunction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, apiserver.Options{InMemory: true}, objectcache.WatchOptions{})
		var store objectcache.Store[*corev1.Secret]
		store, err := objectcache.NewTTLStore(resource.Secrets(clientOf(t, r.server)), objectcache.TTLOptions{TTLFunc: func() (time.Duration, bool) {
			if s, _ := store.Status(namespace, "tls"); !s.TransformingSince.IsZero() {
				t.Errorf("got %+v, want no function that works", s)
			}
			return time.Minute, true
		}})
		if err != nil {
			t.Fatal(err)
		}
		stop := runStore(t.Context(), t, store)
		r.create("tls")
		store.AddReference(namespace, "tls", "pod")
		if _, err := store.Get(t.Context(), namespace, "tls"); err != nil {
			t.Error(err)
		}
		stop()
	})
}

// The stream hangs, a GET beside it is answered, and the function blocks: the error of Get, and Status, say so.
func TestErrorWhileTransformBlocksInAHedgedRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, apiserver.Options{InMemory: true}, objectcache.WatchOptions{})
		b := newBlocker(t, r, objectcache.WatchOptions{})
		r.server.Intercept(func(ctx context.Context, request apiserver.Request) *metav1.Status {
			if request.Verb == "list" || request.Verb == "watch" {
				<-ctx.Done()
			}
			return nil
		})
		b.block("tls")
		r.create("tls")
		r.run()
		r.AddReference(namespace, "tls", "pod")
		_, err := r.get("tls", 4*time.Second)
		s, _ := r.Store.Status(namespace, "tls")
		if err == nil || !strings.Contains(err.Error(), "the transform has not returned") || s.TransformingSince.IsZero() {
			t.Errorf("got %v, and the status %+v, want that the function has not returned", err, s)
		}
		b.unblock()
		r.stop()
	})
}

// The function takes six minutes for an event. The stream is not silent, and the function is not called again.
func TestFunctionOfSixMinutesForAnEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, apiserver.Options{InMemory: true}, objectcache.WatchOptions{})
		var slow atomic.Bool
		var calls atomic.Int32
		r.Store = newStore(t, resource.Secrets(clientOf(t, r.server)).WithTransform(func(s *corev1.Secret) *corev1.Secret {
			if slow.Load() {
				calls.Add(1)
				time.Sleep(6 * time.Minute)
			}
			return s
		}), objectcache.WatchOptions{})
		r.create("tls")
		r.run()
		r.AddReference(namespace, "tls", "pod")
		r.mustGet("tls")
		time.Sleep(time.Minute)
		slow.Store(true)
		r.update("tls", "1")
		time.Sleep(6*time.Minute + 10*time.Second)
		got, err := r.get("tls", time.Second)
		s, _ := r.Store.Status(namespace, "tls")
		if err != nil || string(got.Data["password"]) != "1" || calls.Load() != 1 || s.LastError != nil {
			t.Errorf("after the function has returned: got the value %q, %v, %d calls, the error %v and the status %+v, want 1, and one call, and no failure",
				got.Data["password"], err, calls.Load(), s.LastError, s)
		}
		slow.Store(false)
		time.Sleep(10 * time.Minute)
		r.stop()
	})
}

// Gets with a bound on the age are served from memory while events come each 10 ms, each of which is handled before the
// next one: the function takes 9.2 ms.
func TestGetsOfABusyObject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, apiserver.Options{InMemory: true}, objectcache.WatchOptions{})
		r.Store = newStore(t, resource.Secrets(clientOf(t, r.server)).WithTransform(func(s *corev1.Secret) *corev1.Secret {
			time.Sleep(9200 * time.Microsecond)
			return s
		}), objectcache.WatchOptions{MaxStaleness: 3 * time.Second})
		r.create("tls")
		r.run()
		r.AddReference(namespace, "tls", "pod")
		r.mustGet("tls")
		time.Sleep(10 * time.Millisecond)
		before := r.opens("tls")
		for i := range 3000 {
			next := time.Now().Add(10 * time.Millisecond)
			r.update("tls", fmt.Sprint(i))
			if i%10 == 0 {
				r.mustGet("tls")
			}
			time.Sleep(time.Until(next))
		}
		if got := r.opens("tls") - before; got > 0 {
			t.Errorf("got %d more streams in half a minute, want none: the stream brings 100 events a second", got)
		}
		r.stop()
	})
}

// A Get that demands a newer state, and gives up, does not keep the update from others that the function works with.
func TestDemandWhileTransformWorks(t *testing.T) {
	for name, demand := range map[string]objectcache.GetOptions{"Live": {Live: true}, "MaxStaleness": {MaxStaleness: 500 * time.Millisecond}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, apiserver.Options{InMemory: true}, objectcache.WatchOptions{})
				r.Store = newStore(t, resource.Secrets(clientOf(t, r.server)).WithTransform(func(s *corev1.Secret) *corev1.Secret {
					time.Sleep(3 * time.Second)
					return s
				}), objectcache.WatchOptions{})
				r.create("tls")
				r.run()
				r.AddReference(namespace, "tls", "pod")
				r.mustGetWithin("tls", 10*time.Second)
				r.update("tls", "1")
				time.Sleep(300 * time.Millisecond)
				_, _ = r.demandFor(time.Second, "tls", demand)
				time.Sleep(1800 * time.Millisecond)
				r.wantValue("when the function has returned", "tls", "1")
				r.stop()
			})
		})
	}
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
		time.AfterFunc(5500*time.Millisecond, b.unblock)
		stop()
		if got := log.written.Load(); got != 1 {
			t.Errorf("when Run has returned: got %d lines with %q, want 1", got, waits)
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

// Two calls at a time for one object: that of a GET beside the first read takes 2 s, that of its stream blocks. Status
// says that the function works with the object as long as it does.
func TestTwoCallsAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, apiserver.Options{InMemory: true}, objectcache.WatchOptions{})
		var calls atomic.Int32
		free := make(chan struct{})
		r.Store = newStore(t, resource.Secrets(clientOf(t, r.server)).WithTransform(func(s *corev1.Secret) *corev1.Secret {
			if calls.Add(1) == 1 {
				time.Sleep(2 * time.Second)
			} else {
				<-free
			}
			return s
		}), objectcache.WatchOptions{})
		r.slowOpenings(500 * time.Millisecond)
		r.create("tls")
		r.run()
		r.AddReference(namespace, "tls", "pod")
		r.mustGetWithin("tls", 5*time.Second) // from the GET
		time.Sleep(10 * time.Second)
		if calls.Load() != 2 {
			t.Fatalf("got %d calls, want 2", calls.Load())
		}
		s, _ := r.Store.Status(namespace, "tls")
		if s.TransformingSince.IsZero() {
			t.Errorf("a call has worked with the object for 10 s: got the status %+v", s)
		}
		_, err := r.demandFor(3*time.Second, "tls", objectcache.GetOptions{Live: true})
		t.Logf("Get: %v", err)
		if err == nil || !strings.Contains(err.Error(), "has not returned") {
			t.Errorf("Get: got %v, want that the function has not returned", err)
		}
		close(free)
		time.Sleep(time.Second)
		r.stop()
	})
}

// The function works with what a GET beside the first read has brought. Later the server does not answer: the error
// of a Get says so.
func TestCauseIsThatOfAnotherCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, apiserver.Options{InMemory: true}, objectcache.WatchOptions{})
		var calls atomic.Int32
		free := make(chan struct{})
		r.Store = newStore(t, resource.Secrets(clientOf(t, r.server)).WithTransform(func(s *corev1.Secret) *corev1.Secret {
			if calls.Add(1) == 1 {
				<-free
			}
			return s
		}), objectcache.WatchOptions{})
		var hang atomic.Bool
		r.server.Intercept(func(ctx context.Context, request apiserver.Request) *metav1.Status {
			switch {
			case hang.Load():
				<-ctx.Done()
			case request.Verb == "list" || request.Verb == "watch":
				time.Sleep(500 * time.Millisecond)
			}
			return nil
		})
		r.create("tls")
		r.run()
		r.AddReference(namespace, "tls", "pod")
		r.mustGet("tls") // from the stream
		time.Sleep(time.Minute)
		s, _ := r.Store.Status(namespace, "tls")
		t.Logf("calls %d, status %+v", calls.Load(), s)
		hang.Store(true)
		_, err := r.demandFor(4*time.Second, "tls", objectcache.GetOptions{Live: true})
		if err == nil || !strings.Contains(err.Error(), "no answer") {
			t.Errorf("the server does not answer: got %v", err)
		}
		close(free)
		hang.Store(false)
		time.Sleep(time.Second)
		r.stop()
	})
}
