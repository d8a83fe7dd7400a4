// SPDX-License-Identifier: Apache-2.0

package reflector_test

import (
	"context"
	"errors"
	goruntime "runtime"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/refwatch/refwatch/internal/reflector"
	"github.com/refwatch/refwatch/internal/reflector/listwatch"
	"github.com/refwatch/refwatch/test/storetest"
)

func newStore() toolscache.Store { return toolscache.NewStore(toolscache.MetaNamespaceKeyFunc) }

// failingStore fails each Update, with an error whose text prints the object.
type failingStore struct{ toolscache.Store }

func (failingStore) Update(object any) error {
	return toolscache.KeyError{Obj: object, Err: errors.New("no key")}
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
