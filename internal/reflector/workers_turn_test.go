// SPDX-License-Identifier: Apache-2.0

package reflector_test

import (
	"fmt"
	goruntime "runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/refwatch/refwatch/internal/reflector"
	"github.com/refwatch/refwatch/test/storetest"
)

// notingSlot calls note before it stores an event.
type notingSlot struct {
	*storetest.Slot[*corev1.Secret]

	note func()
}

func (s *notingSlot) Update(object any) error {
	s.note()
	return s.Slot.Update(object)
}

// An object whose worker always finds another event does not delay other objects until
// there is none.
func TestWorkersTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const events = 1000
		n := max(4, goruntime.GOMAXPROCS(0)) // as many as there are workers
		gate, free := reflector.NewGate(reflector.GateOptions{}), make(chan struct{})
		var stored, before atomic.Int64
		busy := make([]*connected, n)
		for i := range busy {
			busy[i] = newConnected()
			slot := &notingSlot{newSecretSlot(), func() { <-free; stored.Add(1) }}
			startParked(t, watching(busy[i].answer), slot, gate)
		}
		other := newConnected()
		startParked(t, watching(other.answer), &notingSlot{newSecretSlot(), func() { before.Store(stored.Load()) }}, gate)
		synctest.Wait()
		for _, stream := range busy {
			var all []watch.Event
			for i := range events {
				all = append(all, event(watch.Modified, secret(fmt.Sprint(6+i))))
			}
			stream.send(nil, all...)
		}
		synctest.Wait()
		other.send(nil, event(watch.Modified, secret("6")))
		close(free)
		synctest.Wait()
		if got, most := before.Load(), int64(n*100); got == 0 || got > most || stored.Load() != int64(n*events) {
			t.Errorf("got %d of %d events before that of the other object, want 1 to %d", got, stored.Load(), most)
		}
	})
}

// Workers that are slow, but not stuck, get no others beside them.
func TestSlowWorkersAreNotStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := max(4, goruntime.GOMAXPROCS(0))
		gate, before := reflector.NewGate(reflector.GateOptions{}), goroutinesInBubble()
		streams := make([]*connected, 20*n)
		for i := range streams {
			streams[i] = newConnected()
			slot := &notingSlot{newSecretSlot(), func() { time.Sleep(30 * time.Millisecond) }}
			startParked(t, watching(streams[i].answer), slot, gate)
		}
		synctest.Wait()
		for _, stream := range streams {
			stream.send(nil, event(watch.Modified, secret("6")))
		}
		after(300 * time.Millisecond) // half of them are stored
		if got := goroutinesInBubble() - before; got != n {
			t.Errorf("got %d workers, want %d", got, n)
		}
		after(time.Second)
	})
}

// Stores that end all workers at once delay no other object.
func TestStoresThatEndAllWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate, free := reflector.NewGate(reflector.GateOptions{}), make(chan struct{})
		var streams []*connected
		for range max(4, goruntime.GOMAXPROCS(0)) {
			streams = append(streams, newConnected())
			slot := &notingSlot{newSecretSlot(), func() { <-free; goruntime.Goexit() }}
			startParked(t, watching(streams[len(streams)-1].answer), slot, gate)
		}
		other, slot := newConnected(), newSecretSlot()
		startParked(t, watching(other.answer), slot, gate)
		synctest.Wait()
		for _, stream := range append(streams, other) {
			stream.send(nil, event(watch.Modified, secret("6")))
		}
		synctest.Wait()
		close(free)
		synctest.Wait() // no time passes
		if got := slot.Load().ResourceVersion; got != "6" {
			t.Errorf("the other object: got version %s, want 6", got)
		}
	})
}
