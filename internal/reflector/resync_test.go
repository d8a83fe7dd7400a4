// SPDX-License-Identifier: Apache-2.0

package reflector_test

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/refwatch/refwatch/internal/reflector"
	"github.com/refwatch/refwatch/internal/reflector/listwatch"
	"github.com/refwatch/refwatch/test/apiserver"
)

// resyncedStore records when Resync is called, and whether two calls overlap.
type resyncedStore struct {
	toolscache.Store

	began    time.Time
	onResync func(call int) error // nil: it succeeds
	onUpdate func(int) error      // nil: the store does it

	mu       sync.Mutex
	resyncs  []time.Duration
	writers  int
	overlaps int
}

func newResyncedStore() *resyncedStore { return &resyncedStore{Store: newStore(), began: time.Now()} }

// write counts a call that writes the store.
func (s *resyncedStore) write() (done func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.writers++; s.writers > 1 {
		s.overlaps++
	}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.writers--
	}
}

func (s *resyncedStore) Resync() error {
	defer s.write()()
	s.mu.Lock()
	s.resyncs = append(s.resyncs, time.Since(s.began))
	call := len(s.resyncs)
	s.mu.Unlock()
	if s.onResync != nil {
		return s.onResync(call)
	}
	return nil
}

func (s *resyncedStore) Replace(items []any, version string) error {
	defer s.write()()
	return s.Store.Replace(items, version)
}

func (s *resyncedStore) Update(object any) error {
	defer s.write()()
	if s.onUpdate != nil {
		return s.onUpdate(1)
	}
	return s.Store.Update(object)
}

func (s *resyncedStore) check(t *testing.T, want ...time.Duration) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Equal(s.resyncs, want) || s.overlaps > 0 {
		t.Errorf("calls of Resync: got %v and %d overlaps, want %v and none", s.resyncs, s.overlaps, want)
	}
}

func seconds(all ...int) (durations []time.Duration) {
	for _, s := range all {
		durations = append(durations, time.Duration(s)*time.Second)
	}
	return durations
}

// Without a period Resync is never called.
func TestNoResyncByDefault(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		for _, period := range []time.Duration{0, -time.Second} {
			store := newResyncedStore()
			source := watching(opens(state(secret("5"), "7")...))
			startWith(t, source, store, reflector.Options{ResyncPeriod: period})
			after(3 * time.Hour)
			store.check(t)
		}
	})
}

// A resync delivers all that a queue's consumer knows. A period may be longer than a
// stream lives, which is an hour at most.
func TestResyncOfQueues(t *testing.T) {
	type resyncCase struct {
		queueCase

		want []string
	}
	tests := map[string]resyncCase{
		"FIFO":               {queues["FIFO"], nil},
		"DeltaFIFO":          {queues["DeltaFIFO"], []string{"Sync a=1", "Sync b=1"}},
		"RealFIFO":           {queues["RealFIFO"], []string{"Sync a=1", "Sync b=1"}},
		"RealFIFO, unlocked": {queues["RealFIFO with AtomicEvents, unlocked"], []string{"SyncAll all"}},
	}
	parkedAndBlocking(t, func(t *testing.T) {
		eachCase(t, tests, func(t *testing.T, test resyncCase) {
			s, c := newSite(t, apiserver.Options{}), newConsumer()
			s.put("a=1", "b=1")
			queue := test.make(c.known)
			c.consume(t, queue)
			startWith(t, s.source(), queue, reflector.Options{ResyncPeriod: 3 * time.Hour})
			syncs := func() (all []string) {
				for _, popped := range c.take() {
					if strings.HasPrefix(popped, "Sync") {
						all = append(all, popped)
					}
				}
				return all
			}
			after(3*time.Hour - time.Minute)
			checkPopped(t, step{name: "before the period is over"}, syncs(), nil)
			after(2 * time.Minute)
			checkPopped(t, step{name: "after a period"}, syncs(), test.want)
			after(3 * time.Hour)
			checkPopped(t, step{name: "after two periods"}, syncs(), test.want)
		})
	})
}

// Resync is called only while a stream is open: not before the first state, and not in an
// outage. The times do not depend on the streams.
func TestResyncOnlyWithAStream(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		down := fails(errDown)
		store, began := newResyncedStore(), time.Now()
		source := &fakeSource{onList: lists(brings("9", secret("5")))}
		first, second := newStream(state(secret("5"), "7")...), opens(state(secret("5"), "9")...)
		source.onWatch = func(metav1.ListOptions) (listwatch.Stream, error) {
			switch now := time.Since(began); {
			case now < 90*time.Second, now > 5*time.Minute && now < 10*time.Minute:
				return down()
			case now < 5*time.Minute:
				return first, nil
			}
			return second()
		}
		r := startWith(t, source, store, reflector.Options{ResyncPeriod: time.Minute})
		after(5*time.Minute + time.Second)
		store.check(t, seconds(120, 180, 240, 300)...)
		first.finish(io.ErrUnexpectedEOF)
		after(7*time.Minute + 30*time.Second)
		want := seconds(120, 180, 240, 300, 660, 720)
		store.check(t, want...)
		r.stop()
		after(time.Hour)
		store.check(t, want...)
	})
}

// A Resync that fails ends the stream, and another one follows.
func TestResyncThatFails(t *testing.T) {
	tests := map[string]func() error{
		"error": func() error { return errors.New(canary) },
		"panic": func() error { panic(canary) },
	}
	parkedAndBlocking(t, func(t *testing.T) {
		eachCase(t, tests, func(t *testing.T, fail func() error) {
			store := newResyncedStore()
			store.onResync = func(call int) error {
				if call > 1 {
					return nil
				}
				return fail()
			}
			source := watching(opens(state(secret("5"), "7")...))
			r := startWith(t, source, store, reflector.Options{ResyncPeriod: time.Minute})
			after(3*time.Minute + time.Second)
			store.check(t, seconds(60, 120, 180)...)
			status := r.Status()
			if got := source.count("WatchList"); got != 2 || status.LastError == nil || !status.Streaming {
				t.Errorf("got %d streams and status %+v, want another stream, and the error", got, status)
			}
			checkSecrecy(t, "error", fmt.Sprint(status.LastError))
		})
	})
}

// Resync waits for a call that writes the store, and the other way round. So does the
// state of the next stream.
func TestResyncIsSerialized(t *testing.T) {
	pause := func(int) error { time.Sleep(90 * time.Second); return nil }
	type slowCase struct {
		slow   func(*resyncedStore)
		events []watch.Event // at 1:30, before the stream ends
		want   []time.Duration
	}
	update := []watch.Event{event(watch.Modified, secret("8"))}
	tests := map[string]slowCase{
		"slow Update":              {func(s *resyncedStore) { s.onUpdate = pause }, update, seconds(60, 180, 240)},
		"slow Resync":              {func(s *resyncedStore) { s.onResync = pause }, update, seconds(60, 210)},
		"slow Resync, then a read": {func(s *resyncedStore) { s.onResync = pause }, nil, seconds(60, 210)},
	}
	parkedAndBlocking(t, func(t *testing.T) {
		eachCase(t, tests, func(t *testing.T, test slowCase) {
			store := newResyncedStore()
			test.slow(store)
			stream := newStream(state(secret("5"), "7")...)
			next := opens(state(secret("8"), "9")...)
			startWith(t, watching(stream.answer, next), store, reflector.Options{ResyncPeriod: time.Minute})
			after(90 * time.Second)
			for _, event := range test.events {
				stream.events <- event
			}
			stream.finish(io.EOF)
			after(3 * time.Minute)
			store.check(t, test.want...)
		})
	})
}

// Run waits for a Resync that is under way.
func TestStopDuringResync(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		store, done := newResyncedStore(), false
		store.onResync = func(int) error {
			time.Sleep(time.Second)
			done = true
			return nil
		}
		r := startWith(t, watching(opens(state(secret("5"), "7")...)), store, reflector.Options{ResyncPeriod: time.Minute})
		after(time.Minute)
		r.Stop()
		r.wait()
		if !done {
			t.Error("Run returned before Resync")
		}
	})
}
