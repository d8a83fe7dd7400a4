// SPDX-License-Identifier: Apache-2.0

package reflector_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/refwatch/refwatch/cache"
	"github.com/refwatch/refwatch/reflector"
	"github.com/refwatch/refwatch/reflector/listwatch"
)

// The server may mix changes into the initial events (KEP-3157).
func TestChangesAmongInitialEvents(t *testing.T) {
	recreated := secret("8")
	recreated.UID = "two"
	tests := map[string]struct {
		events []watch.Event
		want   string // version held; "" for no object
	}{
		"modified":            {[]watch.Event{event(watch.Added, secret("5")), event(watch.Modified, secret("6"))}, "6"},
		"deleted":             {[]watch.Event{event(watch.Added, secret("5")), event(watch.Deleted, secret("6"))}, ""},
		"recreated":           {[]watch.Event{event(watch.Added, secret("5")), event(watch.Deleted, secret("6")), event(watch.Added, recreated)}, "8"},
		"created late":        {[]watch.Event{bookmark("6", false), event(watch.Added, secret("7"))}, "7"},
		"a bookmark between":  {[]watch.Event{event(watch.Added, secret("5")), bookmark("6", false)}, "5"},
		"deleted, not added":  {[]watch.Event{event(watch.Deleted, secret("6"))}, ""},
		"modified, not added": {[]watch.Event{event(watch.Modified, secret("6"))}, "6"},
		"nothing":             {nil, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				stream := newStream(test.events...)
				r := start(t, &fakeSource{onWatch: streams(func() (listwatch.Stream, error) { return stream, nil })}, reflector.Options{})
				if got := r.slot.Load(); got.Synced || got.Exists {
					t.Errorf("state before the bookmark: got %+v, want nothing known", got)
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
}

// What a stream brought before it ended early is not taken for the state.
func TestEndAmongInitialEvents(t *testing.T) {
	for name, end := range map[string]error{"regular": io.EOF, "broken": io.ErrUnexpectedEOF} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := start(t, &fakeSource{onWatch: streams(
					opens(state(secret("5"), "7")...),
				)}, reflector.Options{})
				r.stop()
				r = start(t, &fakeSource{onWatch: streams(
					breaks(end, event(watch.Added, secret("8")), event(watch.Modified, secret("9"))),
					opens(),
				)}, reflector.Options{})
				if got := r.slot.Load(); got.Synced || got.Exists {
					t.Errorf("state: got %+v, want nothing known", got)
				}
				if got := r.Status(); got.Failures != 1 || got.LastError == nil || got.ResourceVersion != "" {
					t.Errorf("status: got %+v, want a failure and no version", got)
				}
			})
		})
	}
}

// A selection may hold many objects; any store of client-go's keeps them.
func TestManyObjects(t *testing.T) {
	named := func(name, version string) *corev1.Secret {
		object := secret(version)
		object.Name = name
		return object
	}
	synctest.Test(t, func(t *testing.T) {
		stream := newStream(
			event(watch.Added, named("a", "1")), event(watch.Added, named("b", "2")), event(watch.Added, named("c", "3")),
			event(watch.Modified, named("a", "4")), event(watch.Deleted, named("b", "5")), bookmark("6", true),
		)
		store := toolscache.NewStore(toolscache.MetaNamespaceKeyFunc)
		r := reflector.New(&fakeSource{onWatch: streams(
			func() (listwatch.Stream, error) { return stream, nil },
			opens(event(watch.Added, named("d", "9")), bookmark("20", true)),
		)}, store, reflector.Options{ClientGoReflector: clientGo})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); r.Run(ctx) }()
		want := func(when string, want map[string]string) {
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
		want("after the state", map[string]string{"a": "4", "c": "3"})
		stream.events <- event(watch.Added, named("b", "7"))
		stream.events <- event(watch.Deleted, named("a", "8"))
		stream.events <- event(watch.Modified, named("c", "9"))
		want("after changes", map[string]string{"b": "7", "c": "9"})
		if got := r.Status().ResourceVersion; got != "9" {
			t.Errorf("version: got %q, want 9", got)
		}
		stream.finish(io.EOF)
		after(time.Second)
		want("after another state", map[string]string{"d": "9"})
		cancel()
		<-done
	})
}

// goroutine is the name of the calling one.
func goroutine() string {
	stack := make([]byte, 64)
	return string(bytes.Fields(stack[:runtime.Stack(stack, false)])[1])
}

// readers is a stream that notes who reads it.
type readers struct {
	*fakeStream

	mu  sync.Mutex
	all map[string]bool
}

func (r *readers) Next() (watch.Event, error) {
	r.mu.Lock()
	r.all[goroutine()] = true
	r.mu.Unlock()
	return r.fakeStream.Next()
}

// A stream has one reader all its life; with the engine of this package that is
// Run itself.
func TestOneReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stream := &readers{fakeStream: newStream(state(secret("5"), "7")...), all: map[string]bool{}}
		stream.ctx = t.Context()
		source := &fakeSource{onWatch: streams(func() (listwatch.Stream, error) { return stream, nil })}
		slot := cache.NewSlot(key, cache.SlotOptions[*corev1.Secret]{})
		r := reflector.New(source, slot, reflector.Options{ClientGoReflector: clientGo})
		running := make(chan string, 1)
		done := make(chan struct{})
		go func() {
			defer close(done)
			running <- goroutine()
			r.Run(t.Context())
		}()
		for _, version := range []string{"8", "9", "10"} {
			after(time.Minute)
			stream.events <- event(watch.Modified, secret(version))
		}
		synctest.Wait()
		stream.mu.Lock()
		got, run := slices.Collect(maps.Keys(stream.all)), <-running
		stream.mu.Unlock()
		if len(got) != 1 || !clientGo && got[0] != run {
			t.Errorf("goroutines that read: got %v, want one, and with the stream engine %s of Run", got, run)
		}
		r.Stop()
		_ = stream.Close()
		<-done
	})
}

// bubbled is how many goroutines there are in the bubble of the calling one.
func bubbled() int {
	stack := make([]byte, 1<<20)
	all := string(stack[:runtime.Stack(stack, true)])
	header, _, _ := strings.Cut(all, "\n") // goroutine 7 [running, synctest bubble 3]:
	_, bubble, _ := strings.Cut(header, ", ")
	return strings.Count(all, ", "+bubble)
}

// An open stream needs the goroutine of Run and no other.
func TestOneGoroutineForAStream(t *testing.T) {
	if clientGo {
		t.Skip("client-go's needs more")
	}
	synctest.Test(t, func(t *testing.T) {
		const n = 100
		before := bubbled()
		gate := reflector.NewGate(reflector.GateOptions{})
		for range n {
			start(t, &fakeSource{onWatch: streams(opens(append(state(secret("5"), "7"), event(watch.Modified, secret("9")))...))},
				reflector.Options{Gate: gate})
		}
		for when, pause := range map[string]time.Duration{"at first": time.Second, "later": time.Minute} {
			after(pause)
			if got := bubbled() - before; got != n {
				t.Errorf("goroutines %s: got %d, want %d", when, got, n)
			}
		}
	})
}

// fresh is a source whose objects nobody else holds.
type fresh struct{ freed chan struct{} }

func (f fresh) Watch(ctx context.Context, _ metav1.ListOptions) (listwatch.Stream, error) {
	object := secret("5")
	runtime.AddCleanup(object, func(freed chan struct{}) { close(freed) }, f.freed)
	stream := newStream(state(object, "7")...)
	stream.ctx = ctx
	return stream, nil
}

func (fresh) List(context.Context, metav1.ListOptions) (k8sruntime.Object, error) {
	return nil, errors.New("not asked for")
}

// After the end of Run nothing reaches the object: no timer of the reflector's,
// stopped though it may be, and not the gate.
func TestNothingIsHeldAfterTheEnd(t *testing.T) {
	freed := make(chan struct{})
	gate := reflector.NewGate(reflector.GateOptions{})
	synctest.Test(t, func(t *testing.T) {
		done := make(chan struct{})
		go func() { // whose stack is gone when the object should be
			defer close(done)
			slot := cache.NewSlot(key, cache.SlotOptions[*corev1.Secret]{})
			r := reflector.New(fresh{freed}, slot, reflector.Options{ClientGoReflector: clientGo, Gate: gate})
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
	runtime.KeepAlive(gate)
}

// collect garbage until freed is closed. A cleanup runs some time after a
// collection, so a few may be needed.
func collect(t *testing.T, freed <-chan struct{}) {
	t.Helper()
	for range 1000 {
		runtime.GC()
		select {
		case <-freed:
			return
		default:
			runtime.Gosched()
		}
	}
	t.Error("the object is still reachable")
}

// A store that fails ends the session; what it said stays unsaid, for it may
// print the object.
func TestStoreThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := &fakeSource{onWatch: streams(opens(append(state(secret("5"), "7"), event(watch.Modified, secret("8")))...))}
		r := reflector.New(source, failingStore{toolscache.NewStore(toolscache.MetaNamespaceKeyFunc)}, reflector.Options{ClientGoReflector: clientGo})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		r.Run(ctx)
		status := r.Status()
		if status.LastError == nil || !strings.Contains(status.LastError.Error(), "KeyError") || strings.Contains(fmt.Sprint(status.LastError), canary) {
			t.Errorf("error: got %v, want the type of the store's alone", status.LastError)
		}
		if len(source.seen()) < 3 {
			t.Errorf("requests: got %d, want the stream opened again and again", len(source.seen()))
		}
	})
}

// A stream is closed when the session ends, whatever ended it.
func TestStreamIsClosed(t *testing.T) {
	tests := map[string]func(*fakeStream, *rig){
		"end":            func(s *fakeStream, _ *rig) { s.finish(io.EOF) },
		"break":          func(s *fakeStream, _ *rig) { s.finish(io.ErrUnexpectedEOF) },
		"foreign object": func(s *fakeStream, _ *rig) { s.events <- event(watch.Added, &corev1.Pod{}) },
		"error event":    func(s *fakeStream, _ *rig) { s.events <- event(watch.Error, &metav1.Status{Code: 410}) },
		"refresh":        func(_ *fakeStream, r *rig) { r.Refresh() },
		"stop":           func(_ *fakeStream, r *rig) { r.stop() },
	}
	for name, end := range tests {
		for synced, events := range map[string][]watch.Event{"synced": state(secret("5"), "7"), "not synced": nil} {
			t.Run(name+", "+synced, func(t *testing.T) {
				if name == "refresh" && synced == "not synced" {
					t.Skip("it is reading already")
				}
				synctest.Test(t, func(t *testing.T) {
					stream := newStream(events...)
					first := func() (listwatch.Stream, error) { return stream, nil }
					r := start(t, &fakeSource{onWatch: streams(first, opens(state(secret("5"), "9")...))}, reflector.Options{})
					end(stream, r)
					after(time.Second)
					select {
					case <-stream.closed:
					default:
						t.Error("the stream is not closed")
					}
				})
			})
		}
	}
}
