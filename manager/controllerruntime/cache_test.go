// SPDX-License-Identifier: Apache-2.0

package controllerruntime_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/refwatch/refwatch/manager/controllerruntime"
	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/test/apiserver"
)

// A Get opens one named watch. Further Gets are answered from memory, and see changes.
func TestGetIsAnsweredFromMemory(t *testing.T) {
	inBubble(t, controllerruntime.CacheOptions{}, cache.Options{}, func(t *testing.T, r *rig) {
		r.create("one", "1")
		r.create("other", "x")
		for range 1000 {
			r.wantValue("one", "1")
		}
		r.update("one", "2")
		r.wantValue("one", "2")
		r.remove("one")
		if _, err := r.get("one"); !apierrors.IsNotFound(err) {
			t.Errorf("deleted: got %v, want NotFound", err)
		}
		if got := secretRequests(r.server); !slices.Equal(got, []string{"watch one"}) {
			t.Errorf("got requests %q, want one watch of one", got)
		}
	})
}

// A Get that waits without a timeout ends with the cache.
func TestGetsEndWithTheCache(t *testing.T) {
	inBubble(t, controllerruntime.CacheOptions{SyncTimeout: -1}, cache.Options{}, func(t *testing.T, r *rig) {
		release := r.hold("one")
		defer release()
		ended := make(chan error)
		go func() {
			_, err := r.get("one")
			ended <- err
		}()
		time.Sleep(time.Hour)
		r.stop()
		if err := <-ended; !errors.Is(err, objectcache.ErrStopped) {
			t.Errorf("got %v, want ErrStopped", err)
		}
	})
}

// Start and Get may have one context. At its end, and later, a Get says why it has not got the object.
func TestOneContextForStartAndGet(t *testing.T) {
	onServer(t, func(t *testing.T, server *apiserver.Server) {
		server.Authorize(func(request apiserver.Request) bool { return request.Resource != "secrets" })
		c, err := controllerruntime.NewCache(controllerruntime.CacheOptions{})(server.Config(), cache.Options{})
		if err != nil {
			t.Fatal(err)
		}
		cause := errors.New("the command takes too long")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, cause)
		defer cancel()
		ended := make(chan error, 1)
		go func() { ended <- c.Start(ctx) }()
		synctest.Wait()
		if err := c.Get(ctx, keyOfOne, &corev1.Secret{}); !apierrors.IsForbidden(err) {
			t.Errorf("before the end: got %v, want Forbidden", err)
		}
		<-ctx.Done()
		for name, ctx := range map[string]context.Context{"the same context": ctx, "another context": t.Context()} {
			err := c.Get(ctx, keyOfOne, &corev1.Secret{})
			for _, want := range []error{objectcache.ErrStopped, context.DeadlineExceeded, cause} {
				if !errors.Is(err, want) {
					t.Errorf("%s: got %v, want it to be %v", name, err, want)
				}
			}
			if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), keyOfOne.Name) {
				t.Errorf("%s: got %v, want Forbidden, and the name", name, err)
			}
		}
		if err := <-ended; err != nil {
			t.Errorf("Start: got %v, want nil", err)
		}
	})
}

// A cache whose context has ended before Start ends at once.
func TestStartWithEndedContext(t *testing.T) {
	onServer(t, func(t *testing.T, server *apiserver.Server) {
		c, err := controllerruntime.NewCache(controllerruntime.CacheOptions{})(server.Config(), cache.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.GetInformer(t.Context(), &corev1.Secret{}); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := c.Start(ctx); err != nil {
			t.Errorf("Start: got %v, want nil", err)
		}
		if err := c.Get(t.Context(), keyOfOne, &corev1.Secret{}); !errors.Is(err, objectcache.ErrStopped) {
			t.Errorf("Get: got %v, want ErrStopped", err)
		}
	})
}

// An object that cannot exist is absent, with an informer and without one, and causes no request. No lease keeps it in
// memory.
func TestObjectThatCannotExist(t *testing.T) {
	inBubble(t, controllerruntime.CacheOptions{}, cache.Options{}, func(t *testing.T, r *rig) {
		for range 2 {
			for _, name := range []string{"My_Secret", "", "a/b"} {
				if _, err := r.get(name); !apierrors.IsNotFound(err) || !errors.Is(err, objectcache.ErrInvalidName) {
					t.Errorf("%q: got %v, want NotFound and ErrInvalidName", name, err)
				}
			}
			if _, err := r.cache.GetInformer(t.Context(), &corev1.Secret{}); err != nil {
				t.Fatal(err)
			}
		}
		if got := secretRequests(r.server); len(got) > 0 {
			t.Errorf("got requests %q, want none", got)
		}
		got := r.storeOf(&corev1.Secret{}).Stats()
		if got.Gets[objectcache.GetNotRegistered] != 0 {
			t.Errorf("got Gets %v, want none of what is not registered", got.Gets)
		}
		if got.Objects != 0 || got.References != 0 {
			t.Errorf("got %d objects and %d references, want none", got.Objects, got.References)
		}
	})
}
