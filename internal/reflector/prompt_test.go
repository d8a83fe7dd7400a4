// SPDX-License-Identifier: Apache-2.0

package reflector_test

import (
	"errors"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/klog/v2"

	"github.com/refwatch/refwatch/internal/reflector"
	"github.com/refwatch/refwatch/test/storetest"
)

// startPrompt runs a reflector until the test ends.
func startPrompt(t *testing.T, stream *connected, store reflector.Store, options reflector.Options) {
	r := reflector.New(watching(stream.answer), store, options)
	ended := make(chan struct{})
	r.Start(t.Context(), func() { close(ended) })
	t.Cleanup(func() { r.Stop(); <-ended })
}

// A small event of a prompt reflector is stored on the goroutine that reads the connection, and any other one is not.
func TestPromptStore(t *testing.T) {
	type test struct {
		options       reflector.Options
		small, stored bool
	}
	tests := map[string]test{
		"prompt":        {reflector.Options{Prompt: true}, true, true},
		"a large event": {reflector.Options{Prompt: true}, false, false},
		"another store": {reflector.Options{}, true, false},
	}
	eachCase(t, tests, func(t *testing.T, test test) {
		stream, slot := newConnected(), newSecretSlot()
		startPrompt(t, stream, slot, test.options)
		after(time.Minute)
		for _, version := range []string{"6", "7"} {
			stream.queueEvents(event(watch.Modified, secret(version)))
			stream.wake.Wake(test.small)
			if got := slot.Load().ResourceVersion == version; got != test.stored {
				t.Errorf("version %s when Wake has returned: stored is %v, want %v", version, got, test.stored)
			}
			synctest.Wait()
			if got := slot.Load().ResourceVersion; got != version {
				t.Errorf("later: got version %s, want %s", got, version)
			}
		}
	})
}

// A worker stores the events that are too many for one turn. None is lost, and their order is kept.
func TestPromptStoreWithManyEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stream, slot := newConnected(), newSecretSlot()
		startPrompt(t, stream, slot, reflector.Options{Prompt: true})
		after(time.Minute)
		var events []watch.Event
		for version := range 18 {
			events = append(events, event(watch.Modified, secret(strconv.Itoa(version+6))))
		}
		stream.queueEvents(events...)
		stream.wake.Wake(true)
		if got := slot.Load().ResourceVersion; got != "21" { // 16 events a turn
			t.Errorf("after a turn: got version %s, want 21", got)
		}
		synctest.Wait()
		if got := slot.Load().ResourceVersion; got != "23" {
			t.Errorf("in the end: got version %s, want 23", got)
		}
	})
}

// The goroutine that reads the connection does not wait for the logger when a session ends.
func TestPromptStoreWithASlowLogger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		logger := funcr.New(func(string, string) { time.Sleep(time.Hour) }, funcr.Options{Verbosity: 4})
		stream := newConnected()
		r := reflector.New(watching(stream.answer), newSecretSlot(), reflector.Options{Prompt: true})
		ended := make(chan struct{})
		r.Start(klog.NewContext(t.Context(), logger), func() { close(ended) })
		after(time.Minute)
		stream.mu.Lock()
		stream.end = errors.New("reset")
		stream.mu.Unlock()
		began := time.Now()
		stream.wake.Wake(true)
		if took := time.Since(began); took > 0 {
			t.Errorf("Wake took %v, want no time", took)
		}
		r.Stop()
		<-ended
	})
}

// namingSlot is a slot that names its reflector.
type namingSlot struct {
	*storetest.Slot[*corev1.Secret]
}

func (namingSlot) ReflectorName() string { return `secrets "shop/tls"` }

// A reflector has the name of its options, or that of its store.
func TestName(t *testing.T) {
	naming := namingSlot{newSecretSlot()}
	for want, r := range map[string]*reflector.Reflector{
		"reflector":            reflector.New(watching(), newSecretSlot(), reflector.Options{}),
		naming.ReflectorName(): reflector.New(watching(), naming, reflector.Options{}),
		"mine":                 reflector.New(watching(), naming, reflector.Options{Name: "mine"}),
	} {
		if got := r.String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// observingSlot is a slot that is told of changes.
type observingSlot struct {
	*storetest.Slot[*corev1.Secret]

	changes *atomic.Int32
}

func (s observingSlot) ReflectorChanged() { s.changes.Add(1) }

// A store that is an Observer is told of a read, an event and a failure, unless there is an OnChange.
func TestObserver(t *testing.T) {
	for name, onChange := range map[string]bool{"observer": false, "OnChange": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store, functions := observingSlot{newSecretSlot(), &atomic.Int32{}}, &atomic.Int32{}
				var options reflector.Options
				want, other := store.changes, functions
				if onChange {
					options.OnChange = func() { functions.Add(1) }
					want, other = functions, store.changes
				}
				events := append(state(secret("5"), "7"), event(watch.Modified, secret("8")))
				r := reflector.New(watching(breaks(errors.New("reset"), events...)), store, options)
				ended := make(chan struct{})
				r.Start(t.Context(), func() { close(ended) })
				synctest.Wait()
				if want.Load() != 3 || other.Load() != 0 {
					t.Errorf("after a read, an event and a failure: got %d and %d changes, want 3 and 0", want.Load(), other.Load())
				}
				r.Stop()
				<-ended
			})
		})
	}
}
