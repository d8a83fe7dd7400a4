// SPDX-License-Identifier: Apache-2.0

package reflector_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/refwatch/refwatch/internal/reflector"
	"github.com/refwatch/refwatch/internal/reflector/listwatch"
	"github.com/refwatch/refwatch/test/storetest"
)

// connected is a parkable stream without a goroutine: send stands for the goroutine of a
// connection.
type connected struct {
	*fakeStream

	wake listwatch.Waker

	mu     sync.Mutex
	queue  []watch.Event
	end    error
	armed  bool
	wakes  int
	closed int
}

// newConnected returns a stream whose state is a Secret at version 5.
func newConnected() *connected {
	return &connected{fakeStream: newStream(state(secret("5"), "5")...), armed: true}
}

func (c *connected) answer() (listwatch.Stream, error) { return c, nil }

func (c *connected) Park(wake listwatch.Waker) bool {
	c.wake = wake
	return true
}

func (c *connected) TryNext() (event watch.Event, ok bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case len(c.queue) > 0:
		event, c.queue = c.queue[0], c.queue[1:]
		return event, true, nil
	case c.end != nil:
		return event, true, c.end
	}
	c.armed = true
	return event, false, nil
}

func (c *connected) send(end error, events ...watch.Event) {
	c.mu.Lock()
	c.queue = append(c.queue, events...)
	c.end = end
	wakes := c.armed
	c.armed = false
	if wakes {
		c.wakes++
	}
	c.mu.Unlock()
	if wakes {
		c.wake.Wake(false)
	}
}

// queueEvents adds events without a Wake.
func (c *connected) queueEvents(events ...watch.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.queue, c.armed = append(c.queue, events...), false
}

func (c *connected) Close() error {
	c.mu.Lock()
	c.closed++
	c.mu.Unlock()
	return c.fakeStream.Close()
}

// startParked runs a reflector that parks its streams.
func startParked(t *testing.T, source listwatch.Source, store reflector.Store, gate *reflector.Gate) *rig {
	t.Helper()
	r := &rig{Reflector: reflector.New(source, store, reflector.Options{Gate: gate})}
	done := make(chan struct{})
	r.Start(t.Context(), func() { close(done) })
	r.wait = func() { <-done }
	r.stop = func() { r.Stop(); r.wait() }
	t.Cleanup(r.stop)
	return r
}

func newSecretSlot() *storetest.Slot[*corev1.Secret] {
	return storetest.NewSlot[*corev1.Secret](key)
}

// An open, quiet stream that is parked has no goroutine, before an event and after it.
func TestNoGoroutineForAParkedStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 100
		gate := reflector.NewGate(reflector.GateOptions{})
		before := goroutinesInBubble()
		streams, slots := make([]*connected, n), make([]*storetest.Slot[*corev1.Secret], n)
		for i := range n {
			streams[i], slots[i] = newConnected(), newSecretSlot()
			startParked(t, watching(streams[i].answer), slots[i], gate)
		}
		for _, version := range []string{"6", "7"} {
			after(10 * time.Second) // a worker waits for less
			if got := goroutinesInBubble() - before; got != 0 {
				t.Errorf("goroutines before version %s: got %d more, want none", version, got)
			}
			for _, stream := range streams {
				stream.send(nil, event(watch.Modified, secret(version)))
			}
			synctest.Wait()
			for i, slot := range slots {
				if got := slot.Load(); got.ResourceVersion != version {
					t.Fatalf("state of object %d: got version %s, want %s", i, got.ResourceVersion, version)
				}
			}
		}
	})
}

// A parked stream does not end with the context of Start, also not after a verification,
// which has a context: Stop ends it.
func TestParkedStreamIsStopped(t *testing.T) {
	type test struct {
		silence time.Duration
		lists   int
	}
	tests := map[string]test{"parked": {time.Minute, 0}, "verified": {3 * time.Minute, 1}}
	eachCase(t, tests, func(t *testing.T, test test) {
		ctx, cancel := context.WithCancel(t.Context())
		stream, slot := newConnected(), newSecretSlot()
		source := watching(stream.answer)
		source.onList = lists(brings("5", secret("5")))
		r := reflector.New(source, slot, reflector.Options{})
		ended := false
		r.Start(ctx, func() { ended = true })
		after(test.silence)
		cancel()
		stream.send(nil, event(watch.Modified, secret("6")))
		synctest.Wait()
		if got := slot.Load().ResourceVersion; got != "6" || ended || !r.Status().Streaming {
			t.Errorf("after the end of the context: got version %s, ended %v; want 6 and an open stream", got, ended)
		}
		if got := source.count("list"); got != test.lists {
			t.Errorf("got %d lists, want %d", got, test.lists)
		}
		r.Stop()
		synctest.Wait()
		if !ended {
			t.Error("after Stop: the reflector has not ended")
		}
	})
}

// slowToPark is a stream whose Park takes a second. It then returns parks.
type slowToPark struct {
	*connected

	parks  bool
	during func() // called by Park at first
}

func (s *slowToPark) Park(wake listwatch.Waker) bool {
	s.wake = wake
	s.during()
	time.Sleep(time.Second)
	return s.parks
}

// A session that ends while its stream is being parked, or turns out not to be parkable,
// ends once.
func TestEndDuringPark(t *testing.T) {
	for name, parks := range map[string]bool{"parked": true, "cannot be parked": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				stream := &slowToPark{connected: newConnected(), parks: parks}
				source := watching(func() (listwatch.Stream, error) { return stream, nil })
				r := reflector.New(source, newSecretSlot(), reflector.Options{})
				stream.during = r.Stop
				ends := 0
				r.Start(t.Context(), func() { ends++ })
				after(time.Minute)
				if ends != 1 || stream.closed != 1 {
					t.Errorf("got %d ends of the reflector and %d of the stream, want one of each", ends, stream.closed)
				}
			})
		})
	}
}

// An event that comes while the stream is being parked is stored.
func TestEventDuringPark(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stream, slot := &slowToPark{connected: newConnected(), parks: true}, newSecretSlot()
		stream.during = func() { stream.send(nil, event(watch.Modified, secret("6"))) }
		startParked(t, watching(func() (listwatch.Stream, error) { return stream, nil }), slot, nil)
		after(time.Minute)
		if got := slot.Load(); got.ResourceVersion != "6" {
			t.Errorf("got version %s, want 6", got.ResourceVersion)
		}
	})
}

// blockingSlot blocks while it stores an event.
type blockingSlot struct {
	*storetest.Slot[*corev1.Secret]

	free chan struct{}
}

func (s *blockingSlot) Update(object any) error {
	<-s.free
	return s.Slot.Update(object)
}

// A store that takes long for one object delays no other object, and the events of the
// one keep their order.
func TestSlowStoreDelaysNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := reflector.NewGate(reflector.GateOptions{})
		slow, blocked := newConnected(), &blockingSlot{newSecretSlot(), make(chan struct{})}
		startParked(t, watching(slow.answer), blocked, gate)
		other, slot := newConnected(), newSecretSlot()
		startParked(t, watching(other.answer), slot, gate)
		synctest.Wait()
		for version := 6; version < 100; version++ {
			slow.send(nil, event(watch.Modified, secret(fmt.Sprint(version))))
			other.send(nil, event(watch.Modified, secret(fmt.Sprint(version))))
		}
		synctest.Wait()
		if got := slot.Load(); got.ResourceVersion != "99" {
			t.Errorf("the other object: got version %s, want 99", got.ResourceVersion)
		}
		if got := blocked.Load(); got.ResourceVersion != "5" {
			t.Errorf("the slow object: got version %s, want 5", got.ResourceVersion)
		}
		close(blocked.free)
		synctest.Wait()
		if got := blocked.Load(); got.ResourceVersion != "99" {
			t.Errorf("the slow object in the end: got version %s, want 99", got.ResourceVersion)
		}
	})
}
