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

	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/objectcache/derived"
)

var errNoValue = errors.New("no value")

// password returns the value of a Secret, and an error if that is "bad".
func password(s *corev1.Secret) (string, error) {
	if value := valueOf(s); value != "bad" {
		return value, nil
	}
	return "", errNoValue
}

// collectOften runs the garbage collector, and gives its cleanups time to run.
func collectOften() {
	for range 4 {
		runtime.GC()
		for range 100 {
			runtime.Gosched()
		}
	}
}

// A version from which nothing can be computed leaves the value of the last one that could,
// and Err says why. An object that is gone has no value, nor has one in its place.
func TestKeepsTheLast(t *testing.T) {
	stores := map[string]objectcache.StoreOptions{
		"watch": objectcache.WatchOptions{}, "TTL": objectcache.TTLOptions{TTL: time.Second},
		"idle": objectcache.WatchOptions{IdleTimeout: 30 * time.Second},
	}
	for name, options := range stores {
		for when, collect := range map[string]func(){"": func() {}, ", garbage is collected": collectOften} {
			t.Run(name+when, func(t *testing.T) {
				inBubble(t, options, func(t *testing.T, r *rig) {
					values := derived.New(r, password).KeepLast()
					want := func(when, value string, failed bool) {
						t.Helper()
						time.Sleep(65 * time.Second) // the idle timer fires after each 30 s
						collect()
						for range 2 {
							if got, err := values.Get(t.Context(), namespace, "tls"); err != nil || got != value {
								t.Errorf("%s: Get: got %q, %v, want %q", when, got, err, value)
							}
							if got, err := values.TryGet(namespace, "tls"); err != nil || got != value {
								t.Errorf("%s: TryGet: got %q, %v, want %q", when, got, err, value)
							}
							err := values.Err(namespace, "tls")
							if errors.Is(err, errNoValue) != failed || failed && !strings.Contains(err.Error(), `"default/tls"`) {
								t.Errorf("%s: Err: got %v, want an error: %v", when, err, failed)
							}
						}
					}
					gone := func(when string, is func(error) bool) {
						t.Helper()
						collect()
						if got, err := values.Get(t.Context(), namespace, "tls"); got != "" || !is(err) {
							t.Errorf("%s: got %q, %v, want no value", when, got, err)
						}
						if err := values.Err(namespace, "tls"); err != nil && !is(err) {
							t.Errorf("%s: Err: got %v, want nil", when, err)
						}
					}
					noValue := func(err error) bool { return errors.Is(err, errNoValue) }
					r.referenced("tls")
					want("at first", canary, false)
					r.update("tls", "bad")
					want("a bad version", canary, true)
					r.update("tls", "bad")
					want("another bad version", canary, true)
					r.update("tls", "good")
					want("a good version", "good", false)
					r.update("tls", "bad")
					want("bad again", "good", true)
					r.remove("tls")
					time.Sleep(time.Minute)
					gone("deleted", apierrors.IsNotFound)
					r.create("tls", "bad")
					time.Sleep(time.Minute)
					gone("created again", noValue)
					r.update("tls", "good")
					want("good at last", "good", false)
					r.remove("tls")
					r.create("tls", "bad")
					time.Sleep(time.Minute)
					gone("recreated before a Get", noValue)
					r.DeleteReference(namespace, "tls", "pod")
					gone("not referenced", func(err error) bool { return errors.Is(err, objectcache.ErrNotRegistered) })
				})
			})
		}
	}
}

// Without KeepLast, and for the first version, the error is that of the version.
func TestErr(t *testing.T) {
	inBubble(t, objectcache.WatchOptions{}, func(t *testing.T, r *rig) {
		plain := derived.New(r, password)
		kept := plain.KeepLast()
		r.referenced("tls")
		if err := kept.Err(namespace, "tls"); err != nil {
			t.Errorf("before a Get: got %v, want nil", err)
		}
		for _, values := range []*derived.Values[string]{plain, kept} {
			if _, err := values.TryGet(namespace, "tls"); err != nil || values.Err(namespace, "tls") != nil {
				t.Errorf("good: got %v and %v, want nil", err, values.Err(namespace, "tls"))
			}
		}
		r.update("tls", "bad")
		if _, err := plain.TryGet(namespace, "tls"); !errors.Is(err, errNoValue) || !errors.Is(plain.Err(namespace, "tls"), errNoValue) {
			t.Errorf("bad, without KeepLast: got %v and %v, want the error", err, plain.Err(namespace, "tls"))
		}
		r.create("first", "bad")
		r.AddReference(namespace, "first", "pod")
		if _, err := kept.Get(t.Context(), namespace, "first"); !errors.Is(err, errNoValue) {
			t.Errorf("the first version: got %v, want the error", err)
		}
	})
}

// The last value is that of the newest version that could be computed, whichever came first.
func TestKeepsTheLastOfASlowVersion(t *testing.T) {
	inBubble(t, objectcache.WatchOptions{}, func(t *testing.T, r *rig) {
		release := make(chan struct{})
		values := derived.New(r, func(s *corev1.Secret) (string, error) {
			if valueOf(s) == canary {
				<-release
			}
			return password(s)
		}).KeepLast()
		r.referenced("tls")
		slow := make(chan string, 1)
		go func() {
			value, _ := values.Get(t.Context(), namespace, "tls")
			slow <- value
		}()
		time.Sleep(time.Second)
		r.update("tls", "bad")
		if _, err := values.TryGet(namespace, "tls"); !errors.Is(err, errNoValue) {
			t.Errorf("nothing computed yet: got %v, want the error", err)
		}
		close(release)
		if got := <-slow; got != canary {
			t.Errorf("the slow version: got %q, want its value", got)
		}
		if got, err := values.TryGet(namespace, "tls"); err != nil || got != canary {
			t.Errorf("computed: got %q, %v, want the value of the slow version", got, err)
		}
	})
}

// Versions come while many Gets compute. Once there is a value, no Get is without one.
func TestKeepsTheLastForAll(t *testing.T) {
	inBubble(t, objectcache.WatchOptions{}, func(t *testing.T, r *rig) {
		values := derived.New(r, password).KeepLast()
		r.referenced("tls")
		if _, err := values.Get(t.Context(), namespace, "tls"); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		var gets sync.WaitGroup
		for range 8 {
			gets.Go(func() {
				for ctx.Err() == nil {
					if value, err := values.TryGet(namespace, "tls"); err != nil || value == "" {
						t.Errorf("got %q, %v, want a value", value, err)
						return
					}
					time.Sleep(time.Millisecond)
				}
			})
		}
		for range 50 {
			for _, value := range []string{"good", "bad", "bad"} {
				r.update("tls", value)
				time.Sleep(2 * time.Millisecond)
			}
			runtime.GC()
		}
		stop()
		gets.Wait()
	})
}

// After the last reference the kept value leaves memory, although no Get comes any more.
func TestLastIsNotKept(t *testing.T) {
	for name, value := range map[string]string{"of the current version": "good", "of the version before": "bad"} {
		dropped := make(chan struct{}) // outside the bubble, as cleanups are
		t.Run(name, func(t *testing.T) {
			inBubble(t, objectcache.WatchOptions{}, func(t *testing.T, r *rig) {
				values := derived.New(r, func(s *corev1.Secret) (*[1 << 10]byte, error) {
					if _, err := password(s); err != nil {
						return nil, err
					}
					v := new([1 << 10]byte)
					runtime.AddCleanup(v, func(dropped chan struct{}) { close(dropped) }, dropped)
					return v, nil
				}).KeepLast()
				r.referenced("tls")
				get := func() {
					done := make(chan struct{})
					go func() { // the stack of the test could keep the value
						defer close(done)
						if _, err := values.Get(t.Context(), namespace, "tls"); err != nil {
							t.Error(err)
						}
					}()
					<-done
				}
				get()
				if value == "bad" {
					r.update("tls", value)
					get()
				}
				r.DeleteReference(namespace, "tls", "pod")
				collect(t, dropped)
				runtime.KeepAlive(values)
			})
		})
	}
}

// Values that the program has dropped leave memory, though the objects are still referenced.
func TestThatNobodyHasIsFreed(t *testing.T) {
	for _, keep := range []bool{false, true} {
		var dropped atomic.Int32
		t.Run(fmt.Sprint("keep: ", keep), func(t *testing.T) {
			inBubble(t, objectcache.WatchOptions{}, func(t *testing.T, r *rig) {
				r.referenced("tls")
				done := make(chan struct{})
				go func() {
					defer close(done)
					for range 20 {
						values := derived.New(r, func(s *corev1.Secret) (*[1 << 12]byte, error) {
							v := new([1 << 12]byte)
							runtime.AddCleanup(v, func(n *atomic.Int32) { n.Add(1) }, &dropped)
							return v, nil
						})
						if keep {
							values = values.KeepLast()
						}
						_, _ = values.Get(t.Context(), namespace, "tls")
					}
				}()
				<-done
				for _, value := range []string{"1", "2", "3"} {
					r.update("tls", value)
					r.mustGet("tls")
					collectOften()
					collectOften()
				}
				if got := dropped.Load(); got < 18 {
					t.Errorf("got %d values dropped of 20 that nobody has", got)
				}
			})
		})
	}
}

// A DirectStore holds no object, so KeepLast has no value of an earlier version, whatever the garbage collector does.
func TestKeepsNothingForADirectStore(t *testing.T) {
	inBubble(t, objectcache.DirectOptions{}, func(t *testing.T, r *rig) {
		values := derived.New(r, password).KeepLast()
		r.create("tls")
		r.update("tls", "good")
		if got, err := values.Get(t.Context(), namespace, "tls"); err != nil || got != "good" {
			t.Fatalf("got %q, %v, want the value", got, err)
		}
		r.update("tls", "bad")
		if got, err := values.Get(t.Context(), namespace, "tls"); err == nil {
			t.Errorf("a bad version: got %q, want its error", got)
		}
	})
}
