// SPDX-License-Identifier: Apache-2.0

package reflector_test

import (
	"bytes"
	"io"
	"maps"
	"runtime"
	"slices"
	"strings"
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

// The server may mix changes into the initial events (KEP-3157).
func TestChangesAmongInitialEvents(t *testing.T) {
	recreated := secret("8")
	recreated.UID = "two"
	type test struct {
		events []watch.Event
		want   string // version of the object in the end; "" for no object
	}
	tests := map[string]test{
		"modified":            {[]watch.Event{event(watch.Added, secret("5")), event(watch.Modified, secret("6"))}, "6"},
		"deleted":             {[]watch.Event{event(watch.Added, secret("5")), event(watch.Deleted, secret("6"))}, ""},
		"recreated":           {[]watch.Event{event(watch.Added, secret("5")), event(watch.Deleted, secret("6")), event(watch.Added, recreated)}, "8"},
		"created late":        {[]watch.Event{bookmark("6", false), event(watch.Added, secret("7"))}, "7"},
		"a bookmark between":  {[]watch.Event{event(watch.Added, secret("5")), bookmark("6", false)}, "5"},
		"deleted, not added":  {[]watch.Event{event(watch.Deleted, secret("6"))}, ""},
		"modified, not added": {[]watch.Event{event(watch.Modified, secret("6"))}, "6"},
		"nothing":             {nil, ""},
		"an older one again":  {[]watch.Event{event(watch.Added, secret("6")), event(watch.Modified, secret("5"))}, "6"},
		"an older deletion":   {[]watch.Event{event(watch.Added, secret("6")), event(watch.Deleted, secret("5"))}, "6"},
		"older than deleted":  {[]watch.Event{event(watch.Deleted, secret("6")), event(watch.Added, secret("5"))}, ""},
		"deleted at its last": {[]watch.Event{event(watch.Added, secret("5")), event(watch.Deleted, secret("5"))}, ""},
		"and then repeated":   {[]watch.Event{event(watch.Deleted, secret("5")), event(watch.Added, secret("5"))}, ""},
	}
	parkedAndBlocking(t, func(t *testing.T) {
		eachCase(t, tests, func(t *testing.T, test test) {
			stream := newStream(test.events...)
			r := start(t, watching(stream.answer), reflector.Options{})
			if got := r.slot.Load(); got.Synced || got.Exists {
				t.Errorf("state before the bookmark: got %+v, want it not synced", got)
			}
			stream.events <- bookmark("9", true)
			synctest.Wait()
			got := r.slot.Load()
			if !got.Synced || got.Exists != (test.want != "") || got.Exists && got.ResourceVersion != test.want {
				t.Errorf("state: got %+v, want version %q", got, test.want)
			}
			if got := r.Status(); got.ResourceVersion != "9" || got.Failures != 0 {
				t.Errorf("status: got %+v, want synced at 9", got)
			}
		})
	})
}

// The initial events of a stream that ended early are not the state.
func TestEndAmongInitialEvents(t *testing.T) {
	parkedAndBlocking(t, func(t *testing.T) {
		eachCase(t, map[string]error{"regular": io.EOF, "broken": io.ErrUnexpectedEOF}, func(t *testing.T, end error) {
			r := start(t, watching(
				breaks(end, event(watch.Added, secret("8")), event(watch.Modified, secret("9"))),
				opens(),
			), reflector.Options{})
			if got := r.slot.Load(); got.Synced || got.Exists {
				t.Errorf("state: got %+v, want it not synced", got)
			}
			if got := r.Status(); got.Failures != 1 || got.LastError == nil || got.ResourceVersion != "" {
				t.Errorf("status: got %+v, want a failure and no version", got)
			}
		})
	})
}

// After a bookmark, an older event is not stored: the bookmark promises that all older
// changes have been delivered.
func TestEventBelowABookmarkIsDropped(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := start(t, watching(opens(append(state(secret("5"), "7"),
			bookmark("20", false), event(watch.Modified, secret("15")))...)), reflector.Options{})
		if got := r.slot.Load(); got.ResourceVersion != "5" {
			t.Errorf("state: got %+v, want version 5", got)
		}
	})
}

// goroutine returns the number of the calling goroutine.
func goroutine() string {
	stack := make([]byte, 64)
	return string(bytes.Fields(stack[:runtime.Stack(stack, false)])[1])
}

// readStream records the goroutines that read it.
type readStream struct {
	*fakeStream

	mu      sync.Mutex
	readers map[string]bool
}

func (s *readStream) Next() (watch.Event, error) {
	s.mu.Lock()
	s.readers[goroutine()] = true
	s.mu.Unlock()
	return s.fakeStream.Next()
}

// A stream that is not parked has one reader all its life.
func TestOneReader(t *testing.T) { synctest.Test(t, testOneReader) }

func testOneReader(t *testing.T) {
	stream := &readStream{fakeStream: newStream(state(secret("5"), "7")...), readers: map[string]bool{}}
	stream.ctx = t.Context()
	slot := storetest.NewSlot[*corev1.Secret](key)
	source := watching(func() (listwatch.Stream, error) { return stream, nil })
	r := reflector.New(source, slot, reflector.Options{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.Run(t.Context())
	}()
	for _, version := range []string{"8", "9", "10"} {
		after(time.Minute)
		stream.events <- event(watch.Modified, secret(version))
	}
	synctest.Wait()
	stream.mu.Lock()
	got := slices.Collect(maps.Keys(stream.readers))
	stream.mu.Unlock()
	if len(got) != 1 {
		t.Errorf("goroutines that read: got %v, want one", got)
	}
	r.Stop()
	_ = stream.Close()
	<-done
}

// goroutinesInBubble returns how many goroutines there are in the bubble of the caller.
func goroutinesInBubble() int {
	stack := make([]byte, 1<<20)
	all := string(stack[:runtime.Stack(stack, true)])
	header, _, _ := strings.Cut(all, "\n") // goroutine 7 [running, synctest bubble 3]:
	_, bubble, _ := strings.Cut(header, ", ")
	return strings.Count(all, ", "+bubble)
}

// An open stream that is not parked needs one goroutine.
func TestOneGoroutineForAStream(t *testing.T) {
	blockStreams(t)
	synctest.Test(t, func(t *testing.T) {
		const n = 100
		before := goroutinesInBubble()
		gate := reflector.NewGate(reflector.GateOptions{})
		for range n {
			start(t, watching(opens(append(state(secret("5"), "7"), event(watch.Modified, secret("9")))...)), reflector.Options{Gate: gate})
		}
		for _, pause := range []time.Duration{time.Second, time.Minute} {
			after(pause)
			if got := goroutinesInBubble() - before; got != n {
				t.Errorf("goroutines after %v more: got %d, want %d", pause, got, n)
			}
		}
	})
}
