// SPDX-License-Identifier: Apache-2.0

package reflector_test

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/watch"

	"github.com/refwatch/refwatch/internal/reflector"
)

// One worker waits some seconds for the next event, and handles it. No other worker waits, and none once no stream is
// parked.
func TestOneWorkerIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate, before := reflector.NewGate(reflector.GateOptions{}), goroutinesInBubble()
		workers := func() int { return goroutinesInBubble() - before }
		var mu sync.Mutex
		var storing []int // workers, while one stores an event
		streams, rigs := make([]*connected, 4), make([]*rig, 4)
		for i := range streams {
			streams[i] = newConnected()
			slot := &notingSlot{newSecretSlot(), func() {
				mu.Lock()
				defer mu.Unlock()
				storing = append(storing, workers())
			}}
			rigs[i] = startParked(t, watching(streams[i].answer), slot, gate)
		}
		after(time.Minute)
		if got := workers(); got != 0 {
			t.Errorf("a minute after the streams were opened: got %d workers, want none", got)
		}
		for _, version := range []string{"6", "7", "8"} {
			streams[0].send(nil, event(watch.Modified, secret(version)))
			after(4 * time.Second)
			if got := workers(); got != 1 {
				t.Errorf("4 s after version %s: got %d workers, want 1", version, got)
			}
		}
		if !slices.Equal(storing, []int{1, 1, 1}) {
			t.Errorf("got %v workers while one stored an event, want none beside it", storing)
		}
		for _, stream := range streams {
			stream.send(nil, event(watch.Modified, secret("9")))
		}
		synctest.Wait()
		if got := workers(); got != 1 {
			t.Errorf("after several events at once: got %d workers, want 1", got)
		}
		after(6 * time.Second)
		if got := workers(); got != 0 {
			t.Errorf("6 s later: got %d workers, want none", got)
		}
		streams[0].send(nil, event(watch.Modified, secret("10")))
		synctest.Wait()
		for _, rig := range rigs {
			rig.stop()
		}
		synctest.Wait()
		if got := workers(); got != 0 {
			t.Errorf("after the end of all streams: got %d workers, want none", got)
		}
	})
}

// A worker that waits ends with the last stream, also if another worker handles its end.
func TestKeptWorkerEndsWithTheLastStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate, before, free := reflector.NewGate(reflector.GateOptions{}), goroutinesInBubble(), make(chan struct{})
		slow, other := newConnected(), newConnected()
		slowRig := startParked(t, watching(slow.answer), &blockingSlot{newSecretSlot(), free}, gate)
		otherRig := startParked(t, watching(other.answer), newSecretSlot(), gate)
		after(time.Minute)
		slow.send(nil, event(watch.Modified, secret("6")))
		synctest.Wait() // a worker is in the slot
		other.send(nil, event(watch.Modified, secret("6")))
		synctest.Wait() // another one waits
		otherRig.stop()
		slowRig.Stop()
		synctest.Wait()
		if got := goroutinesInBubble() - before; got != 2 {
			t.Errorf("before the end of the last stream: got %d goroutines, want 2 workers", got)
		}
		close(free)
		slowRig.wait()
		synctest.Wait()
		if got := goroutinesInBubble() - before; got != 0 {
			t.Errorf("after the end of all streams: got %d goroutines, want none", got)
		}
	})
}
