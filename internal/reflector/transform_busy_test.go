// SPDX-License-Identifier: Apache-2.0

package reflector_test

import (
	"errors"
	"io"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/refwatch/refwatch/cache"
	"github.com/refwatch/refwatch/internal/redact"
	"github.com/refwatch/refwatch/internal/reflector"
	"github.com/refwatch/refwatch/internal/reflector/listwatch"
)

// Each event is handled before the next one arrives. So each contact is a new one.
func TestContactOfABusyStream(t *testing.T) {
	for name, test := range map[string]struct{ every, takes time.Duration }{
		"1,250 a second, no time":         {800 * time.Microsecond, 0},
		"500 a second, a function of 1.5": {2 * time.Millisecond, 1500 * time.Microsecond},
		"10 a second, a function of 99.5": {100 * time.Millisecond, 99500 * time.Microsecond},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				stream := newStream(state(secret("5"), "7")...)
				r := start(t, watching(stream.answer), reflector.Options{Transform: transforming(func(string) error { time.Sleep(test.takes); return nil })})
				after(time.Second)
				began := time.Now()
				version := 10
				for ; time.Since(began) < 10*time.Second; version++ {
					stream.events <- event(watch.Modified, secret(strconv.Itoa(version)))
					time.Sleep(test.every)
				}
				synctest.Wait()
				if got := r.Status(); got.ResourceVersion != strconv.Itoa(version-1) || time.Since(got.LastContact) > time.Second {
					t.Errorf("got version %s, and a last contact %v ago, want %d, and less than a second ago", got.ResourceVersion, time.Since(got.LastContact), version-1)
				}
			})
		})
	}
}

// A stream that brings an event each 10 ms, which is handled before the next one, is not silent. It costs no list.
func TestABusyStreamIsNotSilent(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		stream := newStream(state(secret("5"), "7")...)
		var newest atomic.Int64
		source := &fakeSource{onWatch: streams(stream.answer), onList: func(metav1.ListOptions) (runtime.Object, error) {
			version := strconv.FormatInt(newest.Load(), 10)
			return list(version, secret(version)), nil
		}}
		start(t, source, reflector.Options{Transform: transforming(func(string) error { time.Sleep(9200 * time.Microsecond); return nil })})
		after(time.Second)
		began := time.Now()
		for version := 10; time.Since(began) < 5*time.Minute; version++ {
			newest.Store(int64(version))
			stream.events <- event(watch.Modified, secret(strconv.Itoa(version)))
			time.Sleep(10 * time.Millisecond)
		}
		synctest.Wait()
		if got := source.count("list"); got > 0 {
			t.Errorf("got %d lists to verify a stream that brings 100 events a second, want none", got)
		}
	})
}

// What an error of Transform says about the server, or about malformed answers, does not count, also if it is marked.
func TestMarkedErrors(t *testing.T) {
	for name, fail := range map[string]toolscache.TransformFunc{
		"ErrStore and malformed": func(any) (any, error) {
			return nil, redact.Errorf("%w: %w", listwatch.ErrStore, cache.ErrMalformed)
		},
		"ErrStore and Retry-After": func(any) (any, error) {
			return nil, redact.Errorf("%w: %w", listwatch.ErrStore, apierrors.NewTooManyRequests("no", 3600))
		},
		"methods that panic": func(any) (any, error) { return &struct{ *corev1.Secret }{}, nil },
		"control characters": func(any) (any, error) { return nil, redact.Loggable(errors.New("a\x1b[2J\nb")) },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				var bad atomic.Bool
				stream := newStream(state(secret("5"), "7")...)
				r := start(t, watching(stream.answer, opens(state(secret("8"), "9")...)), reflector.Options{Transform: func(object any) (any, error) {
					if bad.Load() {
						return fail(object)
					}
					return object, nil
				}})
				bad.Store(true)
				stream.events <- event(watch.Modified, secret("8"))
				synctest.Wait()
				status := r.Status()
				if !errors.Is(status.LastError, listwatch.ErrStore) || status.Malformed > 0 || strings.ContainsAny(status.LastError.Error(), "\x1b\n") {
					t.Errorf("got %q, and %d malformed answers, want ErrStore in one line, and none", status.LastError, status.Malformed)
				}
				bad.Store(false)
				after(20 * time.Second)
				if got := r.slot.Load().ResourceVersion; got != "8" {
					t.Errorf("20 s later: got version %s, want 8: %+v", got, r.Status())
				}
			})
		})
	}
}

// An object of another type than ExpectedType does not reach the store, also if Transform has made it.
func TestExpectedTypeAndTransform(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		store := toolscache.NewStore(toolscache.MetaNamespaceKeyFunc)
		startWith(t, watching(opens(state(secret("5"), "7")...)), store, reflector.Options{
			ExpectedType: &corev1.Secret{},
			Transform: func(object any) (any, error) {
				return &corev1.ConfigMap{ObjectMeta: object.(*corev1.Secret).ObjectMeta}, nil
			},
		})
		after(time.Second)
		for _, got := range store.List() {
			t.Errorf("the store has a %T", got)
		}
	})
}

// An event that Transform works with is stored, also if a caller asks for a newer read meanwhile.
func TestRefreshWhileTransformWorks(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		free := make(chan struct{})
		source := watching(opens(append(state(secret("5"), "7"), event(watch.Modified, secret("8")))...), opens())
		r := start(t, source, reflector.Options{Transform: transforming(func(version string) error {
			if version == "8" {
				<-free
			}
			return nil
		})})
		r.Refresh()
		after(time.Second)
		close(free)
		after(time.Second)
		if got := r.slot.Load().ResourceVersion; got != "8" {
			t.Errorf("while the newer read is under way: got version %s, want 8", got)
		}
	})
}

// What has waited behind the read of a second stream is as old as that read.
func TestEventsThatWaitForTheReadOfAnotherStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		free := make(chan struct{})
		first, second := newStream(state(secret("5"), "7")...), newStream(state(secret("8"), "8")...)
		r := start(t, watching(first.answer, second.answer), reflector.Options{Transform: transforming(func(version string) error {
			if version == "8" {
				<-free
			}
			return nil
		})})
		first.events <- bookmark("7", false)
		after(time.Second)
		first.finish(io.EOF)
		after(10 * time.Second)
		read := r.Status().AnsweredAt
		second.events <- event(watch.Modified, secret("9"))
		after(time.Minute)
		close(free)
		synctest.Wait()
		if got := r.Status(); got.ResourceVersion != "9" || read.IsZero() || !got.LastContact.Equal(read) {
			t.Errorf("got version %s, and a last contact at %v, want 9, and %v", got.ResourceVersion, got.LastContact, read)
		}
	})
}

// Many events that come with one that the function blocks for are as old, also if others have their turn in between.
func TestManyEventsThatWaitForTransform(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		free := make(chan struct{})
		stream := newStream(state(secret("5"), "7")...)
		r := start(t, watching(stream.answer), reflector.Options{Transform: transforming(func(version string) error {
			if version == "10" {
				<-free
			}
			return nil
		})})
		after(time.Second)
		arrived := time.Now()
		for version := 10; version < 50; version++ {
			stream.events <- event(watch.Modified, secret(strconv.Itoa(version)))
		}
		after(time.Minute)
		close(free)
		synctest.Wait()
		if got := r.Status(); got.ResourceVersion != "49" || !got.LastContact.Equal(arrived) {
			t.Errorf("got version %s, and a last contact %v after the events, want 49, and none", got.ResourceVersion, got.LastContact.Sub(arrived))
		}
	})
}

// While the function works with an event, others arrive. A session that ends does not wait for them.
func TestSessionEndsBeforeEventsThatWait(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		stream := newStream(state(secret("5"), "7")...)
		r := start(t, watching(stream.answer, opens(state(secret("500"), "500")...)), reflector.Options{Transform: transforming(func(version string) error {
			if version != "5" {
				time.Sleep(time.Second)
			}
			return nil
		})})
		after(time.Second)
		for version := 10; version < 100; version++ {
			stream.events <- event(watch.Modified, secret(strconv.Itoa(version)))
		}
		after(500 * time.Millisecond)
		r.Refresh()
		began := time.Now()
		after(5 * time.Second)
		if got := r.slot.Load().ResourceVersion; got != "500" {
			t.Errorf("5 s after Refresh: got version %s, want 500", got)
		}
		r.stop()
		if took := time.Since(began); took > 6*time.Second {
			t.Errorf("the reflector has ended %v after Refresh, want 5 s", took)
		}
	})
}
