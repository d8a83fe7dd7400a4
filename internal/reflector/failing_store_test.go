// SPDX-License-Identifier: Apache-2.0

package reflector_test

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/refwatch/refwatch/internal/reflector"
	"github.com/refwatch/refwatch/test/storetest"
)

// brokenSlot is a slot whose first two complete reads fail.
type brokenSlot struct {
	*storetest.Slot[*corev1.Secret]

	fail     func() error
	failures int
}

func (b *brokenSlot) Replace(items []any, version string) error {
	if b.failures++; b.failures <= 2 {
		return b.fail()
	}
	return b.Slot.Replace(items, version)
}

// A store that fails or panics in Replace ends the session, although another event is in
// the stream already. client-go then leaves without stopping the watch.
func TestStoreThatFailsInReplace(t *testing.T) {
	tests := map[string]func() error{
		"error": func() error { return errors.New(canary) },
		"panic": func() error { panic(canary) },
	}
	parkedAndBlocking(t, func(t *testing.T) {
		eachCase(t, tests, func(t *testing.T, fail func() error) {
			gate := reflector.NewGate(reflector.GateOptions{})
			store := &brokenSlot{Slot: storetest.NewSlot[*corev1.Secret](key), fail: fail}
			events := append(state(secret("5"), "7"), event(watch.Modified, secret("10")), event(watch.Modified, secret("11")))
			r := startWith(t, watching(opens(events...)), store, reflector.Options{Gate: gate})
			after(time.Minute)
			if got := r.Status(); !got.Synced || got.Failures != 0 || gate.Status().Opening != 0 {
				t.Errorf("got status %+v and gate %+v, want the third read stored and nothing opening", got, gate.Status())
			}
			if got := r.source.count("list"); got != 0 {
				t.Errorf("lists: got %d, want none: the WatchList is not at fault", got)
			}
			checkSecrecy(t, "error", fmt.Sprint(r.Status().LastError))
		})
	})
}

// A read that the store refuses ends the session, although another event is in the
// stream already.
func TestRefusedReadWithAnEventBehindIt(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		gate := reflector.NewGate(reflector.GateOptions{})
		newer := append(state(secret("9"), "7"), event(watch.Modified, secret("10")), event(watch.Modified, secret("11")))
		r := start(t, watching(opens(newer...), opens(state(secret("12"), "12")...)), reflector.Options{Gate: gate})
		after(time.Minute)
		if got := r.Status(); !got.Synced || gate.Status().Opening != 0 {
			t.Errorf("got status %+v and gate %+v, want the second read stored and nothing opening", got, gate.Status())
		}
	})
}

// A store that has failed gets no later event of the same stream.
func TestNoEventAfterAFailedOne(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		events := state(secret("5"), "5")
		for _, version := range []string{"6", "7", "8"} {
			events = append(events, event(watch.Modified, secret(version)))
		}
		store := &failsAt6{Store: newStore()}
		startWith(t, watching(opens(events...), opens()), store, reflector.Options{})
		after(time.Second)
		if got := strings.Join(store.updates, " "); got != "6" {
			t.Errorf("updates: got %q, want only the one that fails", got)
		}
	})
}

// failsAt6 is a store that fails to store version 6.
type failsAt6 struct {
	toolscache.Store

	updates []string
}

func (f *failsAt6) Update(object any) error {
	version := object.(*corev1.Secret).ResourceVersion
	f.updates = append(f.updates, version)
	if version == "6" {
		return errors.New("disk full")
	}
	return f.Store.Update(object)
}

// fullSlot is a slot whose first read is stored, and no other.
type fullSlot struct {
	*storetest.Slot[*corev1.Secret]

	reads int
}

func (f *fullSlot) Replace(items []any, version string) error {
	if f.reads++; f.reads > 1 {
		return errors.New("disk full")
	}
	return f.Slot.Replace(items, version)
}

// Stores that fail say nothing about the server: reflectors of the same resource are not
// held up.
func TestFailingStoresAreNoOutage(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		gate := reflector.NewGate(reflector.GateOptions{})
		for range 10 {
			store := &fullSlot{Slot: storetest.NewSlot[*corev1.Secret](key)}
			startWith(t, watching(breaks(io.EOF, state(secret("5"), "7")...)), store, reflector.Options{Gate: gate})
		}
		for range 60 {
			after(time.Second)
			if got := gate.Status(); got.Cause != nil {
				t.Fatalf("gate: got %+v, want no outage", got)
			}
		}
	})
}

// checksOnly is a store with one of the optional methods.
type checksOnly struct {
	toolscache.Store

	slot *storetest.Slot[*corev1.Secret]
}

func (c checksOnly) Check(object runtime.Object) error { return c.slot.Check(object) }

// A store may have one of the optional methods without the others.
func TestStoreWithCheckAlone(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		store := checksOnly{newStore(), storetest.NewSlot[*corev1.Secret](key)}
		source := watching(opens(append(state(secret("5"), "7"), event(watch.Added, otherSecret("8")))...), opens())
		startWith(t, source, store, reflector.Options{})
		after(time.Second)
		if got := store.ListKeys(); len(got) != 1 || got[0] != key.String() {
			t.Errorf("objects: got %v, want only %v", got, key)
		}
	})
}
