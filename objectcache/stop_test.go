// SPDX-License-Identifier: Apache-2.0

package objectcache_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/refwatch/refwatch/internal/reflector"
	"github.com/refwatch/refwatch/objectcache"
)

func hasText(err error, text string) bool { return err != nil && strings.Contains(err.Error(), text) }

var errTakesTooLong = errors.New("the command takes too long")

// wantStopped checks the error of a Get of a store whose Run and Get had one context, which has expired.
func wantStopped(t *testing.T, when string, err error, isCause func(error) bool) {
	t.Helper()
	for _, want := range []error{objectcache.ErrStopped, context.DeadlineExceeded, errTakesTooLong} {
		if !errors.Is(err, want) {
			t.Errorf("%s: got %v, want it to be %v", when, err, want)
		}
	}
	if !isCause(err) {
		t.Errorf("%s: got %v, want the cause", when, err)
	}
	if apierrors.IsNotFound(err) {
		t.Errorf("%s: got %v, for which IsNotFound holds", when, err)
	}
}

// A program may have one context for Run and Get, as README does. A Get that waits at its end, and one that comes
// later, say why the object is not known.
func TestOneContextForRunAndGet(t *testing.T) {
	for strategy, options := range failingStrategies() {
		for name, failing := range failings() {
			t.Run(strategy+"/"+name, func(t *testing.T) {
				inFailing(t, failing, options, func(t *testing.T, r *failingRig) {
					r.begin()
					ctx, cancel := context.WithTimeoutCause(t.Context(), 3*time.Second, errTakesTooLong)
					defer cancel()
					ended := make(chan error, 1)
					go func() { ended <- r.Run(ctx) }()
					r.AddReference(namespace, "tls", "pod")
					r.AddReference(namespace, "other", "pod")
					waits := make(chan error, 1)
					go func() {
						waits <- objectcache.WaitForSync(ctx, r.Store, keyOf("tls"), keyOf("other"))
					}()
					_, err := r.Get(ctx, namespace, "tls")
					if _, direct := options.(objectcache.DirectOptions); direct && ctx.Err() == nil { // it repeats nothing
						if !failing.is(err) {
							t.Errorf("got %v, want the cause", err)
						}
						<-ctx.Done()
						if _, err := r.Get(ctx, namespace, "tls"); !errors.Is(err, objectcache.ErrStopped) || !errors.Is(err, errTakesTooLong) {
							t.Errorf("later: got %v, want ErrStopped and the cause of the context", err)
						}
						if err := <-ended; err != nil {
							t.Errorf("Run: got %v, want nil", err)
						}
						return
					}
					wantStopped(t, "waiting Get", err, failing.is)
					wantStopped(t, "WaitForSync", <-waits, failing.is)
					if err := <-ended; err != nil {
						t.Errorf("Run: got %v, want nil", err)
					}
					if _, direct := options.(objectcache.DirectOptions); direct {
						return // it knows of no failure
					}
					_, err = r.Get(t.Context(), namespace, "tls")
					wantStopped(t, "later Get", err, failing.is)
					_, err = r.TryGet(namespace, "other")
					wantStopped(t, "later TryGet", err, failing.is)
					if _, err = r.Get(ctx, namespace, "tls"); !errors.Is(err, objectcache.ErrNotSynced) {
						t.Errorf("later Get with the same context: got %v, want ErrNotSynced, too", err)
					}
				})
			})
		}
	}
}

// The last failure of an object that was in memory is kept as well. An object that was well has the error of the
// context alone, and one without references, too.
func TestLastFailureAfterTheEndOfRun(t *testing.T) {
	inFailing(t, failings()["forbidden"], objectcache.WatchOptions{}, func(t *testing.T, r *failingRig) {
		r.create("tls")
		r.create("well")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, apierrors.NewNotFound(corev1.Resource("secrets"), "another"))
		defer cancel()
		ended := make(chan error, 1)
		go func() { ended <- r.Run(ctx) }()
		r.AddReference(namespace, "tls", "pod")
		r.AddReference(namespace, "well", "pod")
		r.mustGet("tls")
		r.mustGet("well")
		r.server.Intercept(onlyOf("tls", r.failing.intercept))
		r.server.CloseStreams(nil)
		if err := <-ended; err != nil {
			t.Errorf("Run: got %v, want nil", err)
		}
		for name, forbidden := range map[string]bool{"tls": true, "well": false, "unknown": false} {
			_, err := r.Get(t.Context(), namespace, name)
			if !errors.Is(err, objectcache.ErrStopped) || !errors.Is(err, context.DeadlineExceeded) || apierrors.IsNotFound(err) {
				t.Errorf("%s: got %v, want ErrStopped and DeadlineExceeded, and not IsNotFound", name, err)
			}
			if got := apierrors.IsForbidden(err); got != forbidden {
				t.Errorf("%s: got %v, IsForbidden %t, want %t", name, err, got, forbidden)
			}
		}
		r.DeleteReference(namespace, "tls", "pod")
		if _, err := r.Get(t.Context(), namespace, "tls"); apierrors.IsForbidden(err) {
			t.Errorf("without references: got %v, want that nothing is kept", err)
		}
	})
}

// A command reads many objects within one deadline.
func TestOneContextForManyGets(t *testing.T) {
	const objects = 1000
	inFailing(t, failings()["503"], objectcache.WatchOptions{}, func(t *testing.T, r *failingRig) {
		r.begin()
		ctx, cancel := context.WithTimeoutCause(t.Context(), 2*time.Second, errTakesTooLong)
		defer cancel()
		ended := make(chan error, 1)
		go func() { ended <- r.Run(ctx) }()
		errs := make(chan error, objects)
		for i := range objects {
			name := fmt.Sprintf("tls-%d", i)
			r.AddReference(namespace, name, "pod")
			go func() {
				_, err := r.Get(ctx, namespace, name)
				errs <- err
			}()
		}
		failed := 0
		for range objects {
			err := <-errs
			wantStopped(t, "Get", err, func(err error) bool {
				return apierrors.IsServiceUnavailable(err) || errors.Is(err, reflector.ErrWaiting) || errors.Is(err, reflector.ErrNoAnswer)
			})
			if t.Failed() {
				break
			}
			if apierrors.IsServiceUnavailable(err) {
				failed++
			}
		}
		if failed < 20 {
			t.Errorf("Gets with the failure: got %d, want those of the objects that were asked for, 20 at least", failed)
		}
		if err := <-ended; err != nil {
			t.Errorf("Run: got %v, want nil", err)
		}
		synctest.Wait()
	})
}
