// SPDX-License-Identifier: Apache-2.0

package reflector_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	goruntime "runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/refwatch/refwatch/reflector"
	"github.com/refwatch/refwatch/reflector/listwatch"
	"github.com/refwatch/refwatch/test/storetest"
)

func newStore() toolscache.Store { return toolscache.NewStore(toolscache.MetaNamespaceKeyFunc) }

// failingStore fails each Update, with an error whose text prints the object.
type failingStore struct{ toolscache.Store }

func (failingStore) Update(object any) error {
	return toolscache.KeyError{Obj: object, Err: errors.New("no key")}
}

// An error of the store ends the session, and appears without its text.
func TestStoreThatFails(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		source := watching(opens(append(state(secret("5"), "7"), event(watch.Modified, secret("8")))...))
		r := startWith(t, source, failingStore{newStore()}, reflector.Options{})
		after(time.Minute)
		status := r.Status()
		if status.LastError == nil || !strings.Contains(status.LastError.Error(), "KeyError") {
			t.Errorf("error: got %v, want the type of the store's error", status.LastError)
		}
		checkSecrecy(t, "error", fmt.Sprint(status.LastError))
		if len(source.seen()) < 3 {
			t.Errorf("requests: got %d, want the stream opened again and again", len(source.seen()))
		}
	})
}

// A selection may hold many objects, in any store of client-go.
func TestManyObjects(t *testing.T) {
	named := func(name, version string) *corev1.Secret {
		object := secret(version)
		object.Name = name
		return object
	}
	inBubble(t, func(t *testing.T) {
		stream := newStream(
			event(watch.Added, named("a", "1")), event(watch.Added, named("b", "2")), event(watch.Added, named("c", "3")),
			event(watch.Modified, named("a", "4")), event(watch.Deleted, named("b", "5")), bookmark("6", true),
		)
		store := newStore()
		r := startWith(t, watching(stream.answer, opens(event(watch.Added, named("d", "9")), bookmark("20", true))), store, reflector.Options{})
		check := func(when string, want map[string]string) {
			t.Helper()
			synctest.Wait()
			got := map[string]string{}
			for _, object := range store.List() {
				got[object.(*corev1.Secret).Name] = object.(*corev1.Secret).ResourceVersion
			}
			if !maps.Equal(got, want) {
				t.Errorf("%s: got %v, want %v", when, got, want)
			}
		}
		check("after the state", map[string]string{"a": "4", "c": "3"})
		stream.events <- event(watch.Added, named("b", "7"))
		stream.events <- event(watch.Deleted, named("a", "8"))
		stream.events <- event(watch.Modified, named("c", "9"))
		check("after changes", map[string]string{"b": "7", "c": "9"})
		if got := r.Status().ResourceVersion; got != "9" {
			t.Errorf("version: got %q, want 9", got)
		}
		stream.finish(io.EOF)
		after(time.Second)
		check("after another state", map[string]string{"d": "9"})
	})
}

// freeable is a source whose objects have no other references. It reports when the
// first one is freed.
type freeable struct{ freed chan struct{} }

func (f freeable) Watch(ctx context.Context, _ metav1.ListOptions) (listwatch.Stream, error) {
	object := secret("5")
	goruntime.AddCleanup(object, func(freed chan struct{}) { close(freed) }, f.freed)
	stream := newStream(state(object, "7")...)
	stream.ctx = ctx
	return stream, nil
}

func (freeable) List(context.Context, metav1.ListOptions) (runtime.Object, error) {
	return nil, errors.New("no list is expected")
}

// After Run has ended nothing refers to the object: neither a stopped timer nor the
// gate.
func TestObjectIsFreedAfterTheEnd(t *testing.T) {
	parkedAndBlocking(t, func(t *testing.T) {
		freed := make(chan struct{})
		gate := reflector.NewGate(reflector.GateOptions{})
		synctest.Test(t, func(t *testing.T) {
			done := make(chan struct{})
			go func() { // the stack of which is gone before the collection
				defer close(done)
				slot := storetest.NewSlot[*corev1.Secret](key)
				r := reflector.New(parkable(freeable{freed}), slot, reflector.Options{Gate: gate})
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				r.Run(ctx)
				if !slot.Load().Exists {
					t.Error("no object was read")
				}
			}()
			<-done
			collect(t, freed)
		})
		goruntime.KeepAlive(gate)
	})
}

// freeableList is a source of lists of two objects. It reports when the memory of the
// first list is freed.
type freeableList struct {
	noWatchList

	freed chan struct{}
}

func (l freeableList) List(context.Context, metav1.ListOptions) (runtime.Object, error) {
	all := list("9", otherSecret("5"), secret("6"))
	// The items lie in one piece of memory: it is freed as a whole.
	goruntime.AddCleanup(&all.Items[0], func(freed chan struct{}) { close(freed) }, l.freed)
	return all, nil
}

func (freeableList) Watch(ctx context.Context, _ metav1.ListOptions) (listwatch.Stream, error) {
	stream := newStream()
	stream.ctx = ctx
	return stream, nil
}

// A stored object does not keep the list in memory that it came with.
func TestListIsFreed(t *testing.T) {
	parkedAndBlocking(t, func(t *testing.T) {
		source := freeableList{freed: make(chan struct{})}
		synctest.Test(t, func(t *testing.T) {
			store := newStore()
			startWith(t, source, store, reflector.Options{})
			synctest.Wait()
			collect(t, source.freed)
			if got := len(store.ListKeys()); got != 2 {
				t.Errorf("objects: got %d, want both still there", got)
			}
		})
	})
}
