// SPDX-License-Identifier: Apache-2.0

package reflector_test

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/refwatch/refwatch/cache"
	"github.com/refwatch/refwatch/reflector"
	"github.com/refwatch/refwatch/reflector/listwatch"
)

// pushingServer is a server of one Secret whose streams are parked. push is what the goroutine of a connection does.
type pushingServer struct {
	connection sync.Mutex

	mu              sync.Mutex
	version, object int
	stream          *pushedStream
	fails           int // attempts that fail next
}

func (p *pushingServer) List(context.Context, metav1.ListOptions) (runtime.Object, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fails > 0 {
		p.fails--
		return nil, errDown
	}
	return list(strconv.Itoa(p.version), secret(strconv.Itoa(p.object))), nil
}

func (p *pushingServer) Watch(_ context.Context, options metav1.ListOptions) (listwatch.Stream, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fails > 0 {
		p.fails--
		return nil, unavailable()
	}
	s := &pushedStream{}
	if options.SendInitialEvents != nil {
		s.queue = state(secret(strconv.Itoa(p.object)), strconv.Itoa(p.version))
	} else if asked, _ := strconv.Atoi(options.ResourceVersion); asked < p.object {
		s.queue = []watch.Event{event(watch.Modified, secret(strconv.Itoa(p.object)))}
	}
	p.stream = s
	return s, nil
}

// push writes the object, or something else, and sends the event or a bookmark.
func (p *pushingServer) push(isBookmark bool) {
	p.connection.Lock()
	defer p.connection.Unlock()
	p.mu.Lock()
	p.version++
	e := bookmark(strconv.Itoa(p.version), false)
	if !isBookmark {
		p.object = p.version
		e = event(watch.Modified, secret(strconv.Itoa(p.version)))
	}
	s := p.stream
	p.mu.Unlock()
	if s != nil {
		s.push(e)
	}
}

type pushedStream struct {
	mu      sync.Mutex
	queue   []watch.Event
	wake    listwatch.Waker
	waiting bool
	closed  bool
}

func (s *pushedStream) Next() (e watch.Event, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || len(s.queue) == 0 {
		return e, io.EOF
	}
	e, s.queue = s.queue[0], s.queue[1:]
	return e, nil
}

func (s *pushedStream) Park(wake listwatch.Waker) bool {
	s.mu.Lock()
	s.wake, s.waiting = wake, len(s.queue) == 0
	waits := s.waiting
	s.mu.Unlock()
	if !waits {
		wake.Wake(true)
	}
	return true
}

func (s *pushedStream) TryNext() (e watch.Event, ok bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return e, true, errors.New("closed")
	}
	if len(s.queue) > 0 {
		e, s.queue = s.queue[0], s.queue[1:]
		return e, true, nil
	}
	s.waiting = true
	return e, false, nil
}

func (s *pushedStream) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed, s.queue = true, nil
	return nil
}

func (s *pushedStream) push(e watch.Event) {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return
	}
	if e.Type == watch.Bookmark && s.waiting && len(s.queue) == 0 {
		s.mu.Unlock()
		if s.wake.TakeBookmark(e.Object.(*corev1.Secret).ResourceVersion) {
			return
		}
		s.mu.Lock()
	}
	s.queue = append(s.queue, e)
	wakes := s.waiting
	s.waiting = false
	s.mu.Unlock()
	if wakes {
		s.wake.Wake(true)
	}
}

// serialSlot is a slot that reports two calls at once, and calls after its reflector has ended.
type serialSlot struct {
	*cache.Slot[*corev1.Secret]

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
	for seed := range uint64(60) {
		synctest.Test(t, func(t *testing.T) { taken += verbsBesideEvents(t, seed) })
	}
	if taken == 0 {
		t.Error("no bookmark was taken")
	}
}

func verbsBesideEvents(t *testing.T, seed uint64) int32 {
	server := &pushingServer{version: 10, object: 5}
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
					server.mu.Lock()
					server.fails = 1
					server.mu.Unlock()
				}
				time.Sleep(time.Duration(random.IntN(40)) * time.Millisecond)
			}
		})
	}
	random := rand.New(rand.NewPCG(seed, 7))
	all.Go(func() {
		for range 400 {
			server.push(random.IntN(2) == 0)
			if random.IntN(2) == 0 {
				time.Sleep(time.Duration(random.IntN(10)) * time.Millisecond)
			}
		}
	})
	all.Wait()
	r.Follow()
	after(time.Minute)
	server.push(false)
	server.push(true)
	after(time.Second)
	status := r.Status()
	if got := store.Load(); got.ResourceVersion != strconv.Itoa(server.object) || !status.Streaming || status.ResourceVersion != strconv.Itoa(server.version) {
		st := server.stream
		t.Logf("stream: queue %d, waiting %v, closed %v, wake %v", len(st.queue), st.waiting, st.closed, st.wake != nil)
		t.Errorf("seed %d: got version %s and %+v; want %d and %d", seed, got.ResourceVersion, status, server.object, server.version)
	}
	if got := counters.Stats(); got.OpenStreams != 1 || got.ParkedStreams != 1 {
		t.Errorf("seed %d: got %d open streams and %d parked ones, want one", seed, got.OpenStreams, got.ParkedStreams)
	}
	r.Stop()
	<-ended
	server.push(false)
	server.push(true)
	after(time.Second)
	if got := counters.Stats(); got.OpenStreams != 0 || got.ParkedStreams != 0 {
		t.Errorf("seed %d: after the end: got %d open streams and %d parked ones", seed, got.OpenStreams, got.ParkedStreams)
	}
	return store.taken.Load()
}
