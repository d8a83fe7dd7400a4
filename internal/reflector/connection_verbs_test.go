// SPDX-License-Identifier: Apache-2.0

package reflector_test

import (
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/refwatch/refwatch/internal/reflector"
	"github.com/refwatch/refwatch/test/pushed"
	"github.com/refwatch/refwatch/test/storetest"
)

// serialSlot is a slot that reports two calls at once, and calls after its reflector has ended.
type serialSlot struct {
	*storetest.Slot[*corev1.Secret]

	t       *testing.T
	within  atomic.Int32
	ended   atomic.Bool
	taken   atomic.Int32
	refuses atomic.Bool
}

func (s *serialSlot) call(f func()) {
	if s.within.Add(1) > 1 {
		s.t.Error("the store is written by two goroutines at once")
	}
	if s.ended.Load() {
		s.t.Error("the store is written after the end")
	}
	f()
	s.within.Add(-1)
}

func (s *serialSlot) Update(object any) (err error) {
	s.call(func() { time.Sleep(time.Microsecond); err = s.Slot.Update(object) })
	return err
}

func (s *serialSlot) Replace(items []any, version string) (err error) {
	s.call(func() { err = s.Slot.Replace(items, version) })
	return err
}

func (s *serialSlot) TakeBookmark(string) bool {
	s.call(func() { s.taken.Add(1) })
	return !s.refuses.Load()
}

// callVerb calls one of the methods of a reflector.
func callVerb(r *reflector.Reflector, random *rand.Rand) {
	switch random.IntN(10) {
	case 0:
		r.Refresh()
	case 1:
		r.Pause()
	case 2, 3:
		r.Follow()
	case 4:
		r.Read()
	case 5:
		r.Expedite()
	case 6:
		r.ReadFor(uint64(random.IntN(3)))
	default:
		_ = r.Status()
		_, _ = r.ResourceVersion(), r.String()
	}
}

// Verbs beside events, bookmarks and failures lose no event and write the store from one goroutine at a time. After
// Follow it has the newest state, and after the end it is not written.
func TestVerbsBesideEventsOfAConnection(t *testing.T) {
	taken := int32(0)
	for seed := range uint64(30) {
		synctest.Test(t, func(t *testing.T) { taken += verbsBesideEvents(t, seed) })
	}
	if taken == 0 {
		t.Error("no bookmark was taken")
	}
}

func verbsBesideEvents(t *testing.T, seed uint64) int32 {
	server := pushed.New(secret)
	store := &serialSlot{Slot: newSecretSlot(), t: t}
	counters := &reflector.Counters{}
	r := reflector.New(server, store, reflector.Options{Prompt: seed%3 > 0, Counters: counters})
	ended := make(chan struct{})
	r.Start(t.Context(), func() { store.ended.Store(true); close(ended) })
	var all sync.WaitGroup
	for i := range uint64(3) {
		random := rand.New(rand.NewPCG(seed, i))
		all.Go(func() {
			for range 40 {
				callVerb(r, random)
				store.refuses.Store(random.IntN(2) == 0)
				if random.IntN(10) == 0 {
					server.FailNext()
				}
				time.Sleep(time.Duration(random.IntN(40)) * time.Millisecond)
			}
		})
	}
	random := rand.New(rand.NewPCG(seed, 7))
	all.Go(func() {
		for range 400 {
			if random.IntN(2) == 0 {
				server.Bookmark()
			} else {
				server.Write()
			}
			if random.IntN(2) == 0 {
				time.Sleep(time.Duration(random.IntN(10)) * time.Millisecond)
			}
		}
	})
	all.Wait()
	r.Follow()
	after(time.Minute)
	server.Write()
	server.Bookmark()
	after(time.Second)
	status := r.Status()
	object, version := server.Versions()
	if got := store.Load(); got.ResourceVersion != strconv.Itoa(object) || !status.Streaming || status.ResourceVersion != strconv.Itoa(version) {
		t.Errorf("seed %d: got version %s and %+v; want %d and %d", seed, got.ResourceVersion, status, object, version)
	}
	if got := counters.Stats(); got.OpenStreams != 1 || got.ParkedStreams != 1 {
		t.Errorf("seed %d: got %d open streams and %d parked ones, want one", seed, got.OpenStreams, got.ParkedStreams)
	}
	r.Stop()
	<-ended
	server.Write()
	server.Bookmark()
	after(time.Second)
	if got := counters.Stats(); got.OpenStreams != 0 || got.ParkedStreams != 0 {
		t.Errorf("seed %d: after the end: got %d open streams and %d parked ones", seed, got.OpenStreams, got.ParkedStreams)
	}
	return store.taken.Load()
}
