// SPDX-License-Identifier: Apache-2.0

package controllerruntime_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/refwatch/refwatch/manager/controllerruntime"
	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/test/apiserver"
)

var errShutdown = errors.New("shutting down")

// endedContexts are contexts that have ended, with the errors that must be found.
var endedContexts = map[string]struct {
	end  func(context.Context) (context.Context, context.CancelFunc)
	want []error
}{
	"canceled": {
		end: func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(ctx)
			cancel()
			return ctx, cancel
		},
		want: []error{context.Canceled},
	},
	"canceled with a cause": {
		end: func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancelCause(ctx)
			cancel(errShutdown)
			return ctx, func() { cancel(nil) }
		},
		want: []error{context.Canceled, errShutdown},
	},
	"canceled because another object was absent": {
		end: func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancelCause(ctx)
			cancel(apierrors.NewNotFound(corev1.Resource("secrets"), "another"))
			return ctx, func() { cancel(nil) }
		},
		want: []error{context.Canceled},
	},
	"canceled because another object was forbidden": {
		end: func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancelCause(ctx)
			cancel(apierrors.NewForbidden(corev1.Resource("secrets"), "another", nil))
			return ctx, func() { cancel(nil) }
		},
		want: []error{context.Canceled},
	},
	"expired": {
		end: func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithDeadline(ctx, time.Now().Add(-time.Second))
		},
		want: []error{context.DeadlineExceeded},
	},
	"expires in a second": {
		end: func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, time.Second)
		},
		want: []error{context.DeadlineExceeded},
	},
}

// reads are the calls of a cache that take a context and may wait.
var reads = map[string]func(ctx context.Context, c cache.Cache) error{
	"Get": func(ctx context.Context, c cache.Cache) error { return c.Get(ctx, keyOfOne, &corev1.Secret{}) },
	"List": func(ctx context.Context, c cache.Cache) error {
		return c.List(ctx, &corev1.SecretList{}, client.InNamespace(namespace))
	},
	"GetInformer": func(ctx context.Context, c cache.Cache) error {
		_, err := c.GetInformer(ctx, &corev1.Secret{})
		return err
	},
}

// classOf returns what a program can tell about an error.
func classOf(err error) string {
	if notStarted := (*cache.ErrCacheNotStarted)(nil); errors.As(err, &notStarted) {
		return "not started"
	}
	if err == nil {
		return "none"
	}
	reason := apierrors.ReasonForError(err)
	if status := (*apierrors.StatusError)(nil); errors.As(err, &status) && status.ErrStatus.Reason != reason {
		return fmt.Sprintf("both %s and %s", status.ErrStatus.Reason, reason)
	}
	return string(reason)
}

// newPair returns a cache of referenced objects and the stock cache.
func newPair(t *testing.T, server *apiserver.Server) (ours, stock cache.Cache) {
	t.Helper()
	newCache := controllerruntime.NewCache(controllerruntime.CacheOptions{LiveList: true})
	ours, err := newCache(server.Config(), cache.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if stock, err = cache.New(server.Config(), cache.Options{}); err != nil {
		t.Fatal(err)
	}
	return ours, stock
}

// With a context that has ended, a read fails as that of the stock cache does, and has the
// cause: before Start, while the server does not answer, and from memory.
func TestEndedContexts(t *testing.T) {
	for name, test := range endedContexts {
		for call, read := range reads {
			check := func(t *testing.T, when string, ours, stock cache.Cache) {
				t.Helper()
				ctx, cancel := test.end(t.Context())
				defer cancel()
				err, want := read(ctx, ours), read(ctx, stock)
				if call == "List" && when != "hanging" || call == "GetInformer" && when == "hanging" {
					return // List reads from the server; the informer has synced
				}
				if got, want := classOf(err), classOf(want); got != want {
					t.Errorf("%s: got %s (%v), want %s as of the stock cache", when, got, err, want)
				}
				if errors.Is(err, objectcache.ErrNotStarted) || call == "Get" && when == "hanging" && !strings.Contains(err.Error(), `"default/one"`) {
					t.Errorf("%s: got %v, want the key, and nothing of Run", when, err)
				}
				for _, cause := range test.want {
					if apierrors.IsTimeout(want) && !errors.Is(err, cause) {
						t.Errorf("%s: got %v, want %v among the causes", when, err, cause)
					}
				}
			}
			t.Run(name+"/"+call, func(t *testing.T) {
				onServer(t, func(t *testing.T, server *apiserver.Server) {
					r := &rig{t: t, server: server, client: server.Client()}
					r.create("one", "1")
					release := r.hold("one", "")
					ours, stock := newPair(t, server)
					check(t, "before Start", ours, stock)
					stops := []func(){start(t, ours), start(t, stock)}
					check(t, "hanging", ours, stock)
					release()
					for _, c := range []cache.Cache{ours, stock} {
						if err := read(t.Context(), c); err != nil {
							t.Fatal(err)
						}
					}
					check(t, "in memory", ours, stock)
					for _, stop := range stops {
						stop()
					}
				})
			})
		}
	}
}

// A refusal of the server is the error, also if the context has ended.
func TestRefusalAndEndedContext(t *testing.T) {
	inBubble(t, controllerruntime.CacheOptions{}, cache.Options{}, func(t *testing.T, r *rig) {
		r.server.Authorize(func(request apiserver.Request) bool { return request.Resource != "secrets" })
		if _, err := r.get("one"); !apierrors.IsForbidden(err) {
			t.Fatalf("got %v, want Forbidden", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		err := r.cache.Get(ctx, keyOfOne, &corev1.Secret{})
		if !apierrors.IsForbidden(err) || !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want Forbidden and Canceled", err)
		}
	})
}

// While discovery fails, a Get names the object, and its error is ErrNotSynced with the cause.
func TestFirstGetWhileDiscoveryFails(t *testing.T) {
	onServer(t, func(t *testing.T, server *apiserver.Server) {
		mapper := failingMapper{meta.NewDefaultRESTMapper(nil)}
		made, err := controllerruntime.NewCache(controllerruntime.CacheOptions{})(server.Config(), cache.Options{Mapper: mapper})
		if err != nil {
			t.Fatal(err)
		}
		stop := start(t, made)
		defer stop()
		err = made.Get(t.Context(), keyOfOne, &corev1.Secret{})
		if !errors.Is(err, objectcache.ErrNotSynced) || !apierrors.IsServiceUnavailable(err) || !strings.Contains(err.Error(), keyOfOne.String()) {
			t.Errorf("got %v, want not synced, unavailable, and the name", err)
		}
	})
}

// failingMapper is one of a server that is not available.
type failingMapper struct{ meta.RESTMapper }

func (failingMapper) RESTMapping(schema.GroupKind, ...string) (*meta.RESTMapping, error) {
	return nil, apierrors.NewServiceUnavailable("starting")
}

// The first Get of a kind, whose resource the server has not said when the cache ends, returns ErrStopped then, and
// does not wait for what never runs.
func TestFirstGetWhileTheCacheEnds(t *testing.T) {
	onServer(t, func(t *testing.T, server *apiserver.Server) {
		known := meta.NewDefaultRESTMapper(nil)
		known.Add(corev1.SchemeGroupVersion.WithKind("Secret"), meta.RESTScopeNamespace)
		mapper := &hangingMapper{RESTMapper: known, release: make(chan struct{})}
		made, err := controllerruntime.NewCache(controllerruntime.CacheOptions{SyncTimeout: -1})(server.Config(), cache.Options{Mapper: mapper})
		if err != nil {
			t.Fatal(err)
		}
		stop := start(t, made)
		ended := make(chan error, 1)
		go func() { ended <- made.Get(t.Context(), keyOfOne, &corev1.Secret{}) }()
		synctest.Wait()
		stop()
		close(mapper.release)
		synctest.Wait()
		select {
		case err := <-ended:
			if !errors.Is(err, objectcache.ErrStopped) {
				t.Errorf("got %v, want ErrStopped", err)
			}
		default:
			t.Fatal("the Get waits, want ErrStopped")
		}
	})
}

// A reconciler copies the error of Get into a status. Its text is the same as long as the cause is, before and after
// SyncTimeout.
func TestTextOfErrorsIsStable(t *testing.T) {
	for name, begin := range map[string]func(r *rig){
		"forbidden": func(r *rig) {
			r.server.Authorize(func(request apiserver.Request) bool { return request.Resource != "secrets" })
		},
		"hanging": func(r *rig) { r.hold("one") },
		"throttled": func(r *rig) {
			r.server.Intercept(func(_ context.Context, request apiserver.Request) *metav1.Status {
				if request.Resource != "secrets" {
					return nil
				}
				return &apierrors.NewTooManyRequests("too many requests", 1).ErrStatus
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, controllerruntime.CacheOptions{}, cache.Options{}, func(t *testing.T, r *rig) {
				begin(r)
				texts := map[string]bool{}
				for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
					_, err := r.get("one")
					texts[fmt.Sprint(err)] = true
				}
				if len(texts) != 1 {
					t.Errorf("got %d texts, want 1: %q", len(texts), slices.Sorted(maps.Keys(texts)))
				}
			})
		})
	}
}
