// SPDX-License-Identifier: Apache-2.0

package derived_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/objectcache/derived"
	"github.com/refwatch/refwatch/test/apiserver"
)

func TestOncePerVersion(t *testing.T) {
	inBubble(t, objectcache.WatchOptions{}, func(t *testing.T, r *rig) {
		var calls atomic.Int32
		lengths := derived.New(r, func(s *corev1.Secret) (int, error) {
			calls.Add(1)
			return len(s.Data["password"]), nil
		})
		r.referenced("tls")
		for version, value := range []string{canary, "12", "123"} {
			if version > 0 {
				r.update("tls", value)
			}
			var all sync.WaitGroup
			for range 100 {
				all.Go(func() {
					if got, err := lengths.Get(t.Context(), namespace, "tls"); err != nil || got != len(value) {
						t.Errorf("Get: got %d, %v, want %d", got, err, len(value))
					}
				})
			}
			all.Wait()
			if got, err := lengths.TryGet(namespace, "tls"); err != nil || got != len(value) {
				t.Errorf("TryGet: got %d, %v, want %d", got, err, len(value))
			}
			if got := calls.Load(); got != int32(version)+1 {
				t.Errorf("calls after %d versions: got %d", version+1, got)
			}
		}
		r.remove("tls")
		if _, err := lengths.Get(t.Context(), namespace, "tls"); !apierrors.IsNotFound(err) {
			t.Errorf("deleted: got %v, want NotFound", err)
		}
		r.DeleteReference(namespace, "tls", "pod")
		if _, err := lengths.TryGet(namespace, "tls"); !errors.Is(err, objectcache.ErrNotRegistered) {
			t.Errorf("not registered: got %v", err)
		}
	})
}

// A Get that fails for another reason than absence keeps the value of the last one.
func TestOutlivesAFailedGet(t *testing.T) {
	inBubble(t, objectcache.WatchOptions{MaxStaleness: time.Minute}, func(t *testing.T, r *rig) {
		calls := 0
		values := derived.New(r, func(*corev1.Secret) (int, error) { calls++; return calls, nil })
		r.referenced("tls")
		if _, err := values.TryGet(namespace, "tls"); err != nil {
			t.Fatal(err)
		}
		release := make(chan struct{})
		r.server.Intercept(func(_ context.Context, request apiserver.Request) *metav1.Status {
			if request.Verb == "watch" || request.Verb == "list" {
				<-release
			}
			return nil
		})
		r.server.CloseStreams(nil)
		time.Sleep(2 * time.Minute)
		if _, err := values.TryGet(namespace, "tls"); !errors.Is(err, objectcache.ErrStale) {
			t.Errorf("too old: got %v, want ErrStale", err)
		}
		close(release)
		if got, err := values.Get(t.Context(), namespace, "tls"); err != nil || got != 1 {
			t.Errorf("afterwards: got %d, %v, want the value of before", got, err)
		}
	})
}

func TestErrors(t *testing.T) {
	inBubble(t, objectcache.WatchOptions{}, func(t *testing.T, r *rig) {
		errBad, calls := errors.New("no certificate"), 0
		values := derived.New(r, func(s *corev1.Secret) (string, error) {
			calls++
			switch s.Name {
			case "panic":
				panic(valueOf(s))
			case "goexit":
				runtime.Goexit()
			}
			return "", fmt.Errorf("%w: %s", errBad, strings.Repeat("long ", 10000))
		})
		for range 2 {
			r.AddReference(namespace, "panic", "pod")
		}
		r.create("panic")
		r.referenced("bad")
		for range 3 {
			if _, err := values.Get(t.Context(), namespace, "bad"); !errors.Is(err, errBad) || !strings.Contains(err.Error(), `"default/bad"`) || len(err.Error()) > 5000 {
				t.Errorf("got %.200v, want the error of derive, in part, and the key", err)
			}
			if _, err := values.Get(t.Context(), namespace, "panic"); err == nil || strings.Contains(err.Error(), canary) {
				t.Errorf("panic: got %v, want an error without object data", err)
			}
		}
		if calls != 2 {
			t.Errorf("calls: got %d, want one for each object", calls)
		}
		r.referenced("goexit")
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, _ = values.Get(t.Context(), namespace, "goexit")
		}()
		<-done
		if _, err := values.Get(t.Context(), namespace, "goexit"); err == nil {
			t.Error("a function that has ended its goroutine: got no error")
		}
	})
}

// After the last reference neither the object nor its value is kept, although no Get
// comes any more. A Get that finds no object drops the value of the last one, whoever
// holds that.
func TestIsNotKept(t *testing.T) {
	for name, get := range map[string]bool{"garbage collection": false, "Get": true} {
		dropped := make(chan struct{}) // outside the bubble, as cleanups are
		t.Run(name, func(t *testing.T) {
			inBubble(t, objectcache.WatchOptions{}, func(t *testing.T, r *rig) {
				values := derived.New(r, func(*corev1.Secret) (*[1 << 10]byte, error) {
					v := new([1 << 10]byte)
					runtime.AddCleanup(v, func(dropped chan struct{}) { close(dropped) }, dropped)
					return v, nil
				})
				r.referenced("tls")
				var object *corev1.Secret
				if get {
					object = r.mustGet("tls")
				}
				done := make(chan struct{})
				go func() { // the stack of the test could keep the value
					defer close(done)
					if _, err := values.Get(t.Context(), namespace, "tls"); err != nil {
						t.Error(err)
					}
				}()
				<-done
				r.DeleteReference(namespace, "tls", "pod")
				if get {
					if _, err := values.TryGet(namespace, "tls"); err == nil {
						t.Error("no reference: want an error")
					}
				}
				collect(t, dropped)
				runtime.KeepAlive(values)
				runtime.KeepAlive(object)
			})
		})
	}
}

func BenchmarkGet(b *testing.B) {
	_, store, stop := serveSecret()
	defer stop()
	store.AddReference(namespace, "tls", "pod")
	values, ctx := derived.New(store, func(*corev1.Secret) (string, error) { return "value", nil }), b.Context()
	if _, err := values.Get(ctx, namespace, "tls"); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		_, _ = values.Get(ctx, namespace, "tls")
	}
}
