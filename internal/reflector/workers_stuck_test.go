// SPDX-License-Identifier: Apache-2.0

package reflector_test

import (
	goruntime "runtime"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/refwatch/refwatch/internal/reflector"
	"github.com/refwatch/refwatch/test/storetest"
)

// Stores that block, more of them than there are workers, delay other objects by a moment
// only, and the workers that were started for those end.
func TestStuckWorkersDelayNoOther(t *testing.T) {
	for _, n := range []int{max(4, goruntime.GOMAXPROCS(0)) + 6, 200} {
		t.Run(strconv.Itoa(n), func(t *testing.T) { testStuckWorkers(t, n) })
	}
}

// testStuckWorkers blocks n stores.
func testStuckWorkers(t *testing.T, n int) {
	synctest.Test(t, func(t *testing.T) {
		gate, before, free := reflector.NewGate(reflector.GateOptions{}), goroutinesInBubble(), make(chan struct{})
		release := sync.OnceFunc(func() { close(free) })
		defer release()
		var stuck []*connected
		for range n {
			stuck = append(stuck, newConnected())
			startParked(t, watching(stuck[len(stuck)-1].answer), &blockingSlot{newSecretSlot(), free}, gate)
		}
		var others []*connected
		var slots []*storetest.Slot[*corev1.Secret]
		for i := range 100 {
			others, slots = append(others, newConnected()), append(slots, newSecretSlot())
			startParked(t, watching(others[i].answer), slots[i], gate)
		}
		synctest.Wait()
		for _, version := range []string{"6", "7"} {
			for _, stream := range append(stuck, others...) {
				stream.send(nil, event(watch.Modified, secret(version)))
			}
			after(time.Second)
			for i, slot := range slots {
				if got := slot.Load(); got.ResourceVersion != version {
					t.Fatalf("other object %d after a second: got version %s, want %s", i, got.ResourceVersion, version)
				}
			}
			if got := goroutinesInBubble() - before; got > n+1 {
				t.Errorf("got %d goroutines, want one for each of %d stores that block, and one that waits", got, n)
			}
		}
		release()
		after(10 * time.Second) // a worker waits for less
		if got := goroutinesInBubble() - before; got != 0 {
			t.Errorf("in the end: got %d goroutines more than at first, want none", got)
		}
	})
}
