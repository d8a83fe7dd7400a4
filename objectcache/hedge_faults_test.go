// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/objectcache/resource"
	"github.com/refwatch/refwatch/test/apiserver"
)

// A second owner comes while the GET for the first is under way.
func TestHedgedReadThatANewOwnerOvertakes(t *testing.T) {
	inBubble(t, objectcache.WatchOptions{}, func(t *testing.T, r *rig) {
		r.create("tls")
		r.server.Intercept(func(ctx context.Context, request apiserver.Request) *metav1.Status {
			switch request.Verb {
			case "get":
				sleepFor(ctx, 5*time.Millisecond)
			case "list", "watch":
				<-ctx.Done()
			}
			return nil
		})
		r.AddReference(namespace, "tls", "first")
		first := r.async(t.Context(), "tls")
		time.Sleep(5 * time.Millisecond)
		r.AddReference(namespace, "tls", "second")
		began := time.Now()
		second := r.async(t.Context(), "tls")
		<-first
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		select {
		case <-second:
			if took := time.Since(began); took > 5*time.Second {
				t.Errorf("the Get of the second owner took %v", took)
			}
		case <-ctx.Done():
			t.Error("the Get of the second owner waits for more than a minute")
			r.server.Intercept(nil)
			<-second
		}
	})
}

// A transform that panics takes the place of no other hedged read.
func TestHedgedReadsAndATransformThatPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := apiserver.New(t, apiserver.Options{InMemory: true, TLS: true})
		r := &rig{t: t, server: server, client: server.Client()}
		var panics atomic.Bool
		panics.Store(true)
		resource := resource.Secrets(clientOf(t, server)).WithTransform(func(s *corev1.Secret) *corev1.Secret {
			if panics.Load() {
				panic(canary)
			}
			return s
		})
		r.Store = newStore(t, resource, objectcache.WatchOptions{})
		r.run()
		defer r.stop()
		r.slowOpenings(95 * time.Millisecond)
		for i := range 6 {
			name := fmt.Sprint("tls-", i)
			r.create(name)
			r.AddReference(namespace, name, "pod")
			_, _ = r.get(name, 50*time.Millisecond)
		}
		panics.Store(false)
		r.create("tls")
		r.AddReference(namespace, "tls", "pod")
		began := time.Now()
		r.mustGet("tls")
		if took := time.Since(began); took > 10*time.Millisecond {
			t.Errorf("took %v", took)
		}
	})
}

// A GET is answered, and the function of WithTransform blocks. Then all rights are revoked. When the function returns,
// the object is not served.
func TestHedgedReadWhoseRightsAreRevoked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := apiserver.New(t, apiserver.Options{InMemory: true, TLS: true})
		r := &rig{t: t, server: server, client: server.Client()}
		answered, goOn := make(chan struct{}), make(chan struct{})
		resource := resource.Secrets(clientOf(t, server)).WithTransform(func(s *corev1.Secret) *corev1.Secret {
			close(answered)
			<-goOn
			return s
		})
		r.Store = newStore(t, resource, objectcache.WatchOptions{})
		r.run()
		defer r.stop()
		r.slowOpenings(95 * time.Millisecond)
		r.create("tls")
		r.AddReference(namespace, "tls", "pod")
		waits := r.async(t.Context(), "tls")
		<-answered
		server.Authorize(func(apiserver.Request) bool { return false })
		if err := (<-waits).err; !apierrors.IsForbidden(err) {
			t.Errorf("while the function blocks: got %v, want the refusal", err)
		}
		close(goOn)
		time.Sleep(time.Minute)
		if _, err := r.get("tls", time.Minute); !apierrors.IsForbidden(err) {
			t.Errorf("after it has returned: got %v, want the refusal", err)
		}
	})
}

// Gets that demand a read of their own while the opening hangs get it by a GET.
func TestHedgedReadsThatAreDemanded(t *testing.T) {
	inBubble(t, objectcache.WatchOptions{}, func(t *testing.T, r *rig) {
		r.create("tls")
		r.slowOpenings(time.Hour)
		r.AddReference(namespace, "tls", "pod")
		r.mustGet("tls")
		updated := r.update("tls", "new")
		time.Sleep(2 * time.Millisecond) // the state is older than the demanded age
		for name, options := range map[string]objectcache.GetOptions{"live": {Live: true}, "version": {NotOlderThan: updated.ResourceVersion}, "age": {MaxStaleness: time.Millisecond}} {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			s, err := r.GetWithOptions(ctx, namespace, "tls", options)
			cancel()
			if err != nil || string(s.Data["password"]) != "new" {
				t.Errorf("%s: got %v, want the new object by a GET", name, err)
			}
		}
	})
}

// The server refuses an opening and lets the next one hang, in turns. A refused state is not
// yielded again and again.
func TestHedgedReadWhoseOpeningsAreRefusedAndHang(t *testing.T) {
	inBubble(t, objectcache.WatchOptions{}, func(t *testing.T, r *rig) {
		r.create("tls")
		var asked atomic.Int32
		r.server.Intercept(func(ctx context.Context, request apiserver.Request) *metav1.Status {
			if request.Verb != "list" && request.Verb != "watch" {
				return nil
			}
			if asked.Add(1)%3 == 1 {
				sleepFor(ctx, 20*time.Millisecond)
				return &forbidden().ErrStatus
			}
			<-ctx.Done()
			return nil
		})
		s := r.subscribe()
		defer s.stop()
		r.AddReference(namespace, "tls", "pod")
		for range 60 {
			_, _ = r.get("tls", 10*time.Second)
			time.Sleep(time.Second)
		}
		if got := s.seen(); len(got) > 3 {
			t.Errorf("changes in some minutes: got %d, %.6q, want 3 at most", len(got), got)
		}
	})
}

// Openings hang, and so do four GETs. When they end, another one is dropped from the queue. Its Get asks again within a
// second.
func TestHedgedReadDroppedFromTheQueue(t *testing.T) {
	inBubble(t, objectcache.WatchOptions{}, func(t *testing.T, r *rig) {
		for i := range 5 {
			r.create(fmt.Sprint("tls-", i))
		}
		r.create("well")
		r.AddReference(namespace, "well", "pod")
		r.mustGet("well")
		var began, healthy time.Time
		var gets sync.Mutex
		r.server.Intercept(func(ctx context.Context, request apiserver.Request) *metav1.Status {
			gets.Lock()
			if request.Verb == "get" && began.IsZero() {
				began = time.Now()
				healthy = began.Add(3010 * time.Millisecond) // just after the GETs have timed out
			}
			hangs := healthy.IsZero() || time.Now().Before(healthy)
			gets.Unlock()
			if hangs {
				<-ctx.Done()
			}
			return nil
		})
		var served sync.WaitGroup
		get := func(name string) {
			r.AddReference(namespace, name, "pod")
			served.Go(func() {
				if _, err := r.Get(t.Context(), namespace, name); err != nil {
					t.Error(err)
				}
			})
		}
		for i := range 4 {
			get(fmt.Sprint("tls-", i))
		}
		time.Sleep(1900 * time.Millisecond)
		get("tls-4")
		served.Wait()
		if got := time.Since(healthy); got > 2*time.Second {
			t.Errorf("the last Get took %v more, want at most 2 s", got)
		}
	})
}
