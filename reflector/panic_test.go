// SPDX-License-Identifier: Apache-2.0

package reflector_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/refwatch/refwatch/reflector"
	"github.com/refwatch/refwatch/reflector/internal/failure"
	"github.com/refwatch/refwatch/reflector/listwatch"
)

// panicking is a stream that panics once its events have been read, or when it
// is closed.
type panicking struct {
	*fakeStream

	closing bool
}

func (p panicking) Next() (watch.Event, error) {
	if len(p.events) == 0 && !p.closing {
		panic(canary)
	}
	return p.fakeStream.Next()
}

func (p panicking) Close() error {
	_ = p.fakeStream.Close()
	if p.closing {
		panic(errors.New(canary))
	}
	return nil
}

func panicsWith(value any) func() (listwatch.Stream, error) {
	return func() (listwatch.Stream, error) { panic(value) }
}

func panicsAfter(events ...watch.Event) func() (listwatch.Stream, error) {
	return func() (listwatch.Stream, error) { return panicking{fakeStream: newStream(events...)}, nil }
}

// A panic in a source fails the attempt and no more. It is tried again as any
// failure is, and what was panicked with is kept to itself.
func TestPanicOfASourceIsAFailure(t *testing.T) {
	good := opens(state(secret("5"), "7")...)
	listing := func(panics any) func(metav1.ListOptions) (runtime.Object, error) {
		calls := 0
		return func(metav1.ListOptions) (runtime.Object, error) {
			if calls++; calls < 4 && panics != nil {
				panic(panics)
			}
			return list("7", *secret("5")), nil
		}
	}
	var none map[string]int
	tests := map[string]listwatch.Source{
		"Watch, a string":          &fakeSource{onList: listing(nil), onWatch: streams(panicsWith(canary), panicsWith(canary), good)},
		"Watch, an error":          &fakeSource{onList: listing(nil), onWatch: streams(panicsWith(errors.New(canary)), good)},
		"Watch, of the runtime":    &fakeSource{onList: listing(nil), onWatch: streams(func() (listwatch.Stream, error) { none[canary]++; return nil, nil }, good)},
		"Watch, neither of both":   &fakeSource{onList: listing(nil), onWatch: streams(fails(nil), good)},
		"Next, before the state":   &fakeSource{onList: listing(nil), onWatch: streams(panicsAfter(event(watch.Added, secret("5"))), good)},
		"Next, after the state":    &fakeSource{onWatch: streams(panicsAfter(state(secret("5"), "7")...), good)},
		"List":                     listOnly{&fakeSource{onList: listing(canary), onWatch: streams(opens())}},
		"Watch after a list":       listOnly{&fakeSource{onList: listing(nil), onWatch: streams(panicsWith(canary), opens())}},
		"Next after a list":        listOnly{&fakeSource{onList: listing(nil), onWatch: streams(panicsAfter(), opens())}},
		"Next, with nothing in it": &fakeSource{onWatch: streams(opens(append(state(secret("5"), "7"), event(watch.Added, nil))...), good)},
	}
	for name, source := range tests {
		t.Run(name, func(t *testing.T) {
			var status reflector.Status
			log := logged(t, "10", func() {
				synctest.Test(t, func(t *testing.T) {
					r := start(t, source, reflector.Options{})
					if status = r.Status(); status.Failures == 0 || failure.Of(status.LastError) != failure.Malformed {
						t.Errorf("status: got %+v of class %q, want a failure that is not the connection's", status, failure.Of(status.LastError))
					}
					after(time.Minute)
					if status = r.Status(); !status.Synced || status.Failures != 0 {
						t.Errorf("status after a minute: got %+v, want it well again", status)
					}
				})
			})
			for what, text := range map[string]string{"log": log, "error": fmt.Sprintf("%v %+v %#v", status.LastError, status.LastError, status.LastError)} {
				if strings.Contains(text, canary) {
					t.Errorf("the %s holds what was panicked with:\n%s", what, text)
				}
			}
		})
	}
}

// A source that panics for ever is asked as often as one that fails for ever,
// and ends when it is stopped.
func TestPanicsBackOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := &fakeSource{
			onWatch: streams(panicsWith(canary)),
			onList:  func(metav1.ListOptions) (runtime.Object, error) { panic(canary) },
		}
		r := start(t, source, reflector.Options{})
		after(10 * time.Minute)
		if got := len(source.seen()); got < 40 || got > 120 {
			t.Errorf("requests in 10 minutes: got %d, want one each 7.5 to 15 s and a few at first", got)
		}
		r.stop()
	})
}

// A panic of the list that verifies a silent stream leaves the stream alone, and
// nothing of it at the gate.
func TestPanicOfAVerification(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := reflector.NewGate(reflector.GateOptions{})
		lists := 0
		r := start(t, &fakeSource{
			onWatch: streams(opens(state(secret("5"), "7")...)),
			onList:  func(metav1.ListOptions) (runtime.Object, error) { lists++; panic(canary) },
		}, reflector.Options{Gate: gate})
		after(10 * time.Minute)
		if got := r.Status(); lists == 0 || asked(r.source) != 1 || got.Failures != 0 || gate.Status().Opening != 0 {
			t.Errorf("status after %d lists: got %+v, %d at the gate, want the stream as it was", lists, got, gate.Status().Opening)
		}
		r.stop()
	})
}

// A panic in Close, and in the Stop of a watch.Interface, changes nothing of
// how the session went. The latter is stopped once, whatever happens.
func TestPanicWhileClosing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		closing := func() (listwatch.Stream, error) {
			return panicking{newStream(state(secret("5"), "7")...).finish(errors.New("reset")), true}, nil
		}
		r := start(t, &fakeSource{onWatch: streams(closing, closing, opens(state(secret("5"), "9")...))}, reflector.Options{})
		after(time.Minute)
		if got := r.Status(); !got.Synced || got.Failures != 0 || got.ResourceVersion != "9" {
			t.Errorf("status: got %+v, want the third stream at 9", got)
		}
	})
}

// stopsOnce is a watch.Interface that can be stopped once, as any that closes
// its channel in Stop.
type stopsOnce struct {
	events chan watch.Event
	stops  atomic.Int32
}

func (s *stopsOnce) ResultChan() <-chan watch.Event { return s.events }

func (s *stopsOnce) Stop() {
	if s.stops.Add(1) == 1 {
		close(s.events)
	}
}

// However a watch of a ListerWatcher ends, it is stopped once.
func TestWatchIsStoppedOnce(t *testing.T) {
	ends := map[string]func(listwatch.Stream, context.CancelFunc){
		"closed twice":               func(s listwatch.Stream, _ context.CancelFunc) { _, _ = s.Close(), s.Close() },
		"context, then closed":       func(s listwatch.Stream, cancel context.CancelFunc) { cancel(); synctest.Wait(); _ = s.Close() },
		"closed, then context":       func(s listwatch.Stream, cancel context.CancelFunc) { _ = s.Close(); cancel() },
		"context and closed at once": func(s listwatch.Stream, cancel context.CancelFunc) { cancel(); _ = s.Close() },
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				w := &stopsOnce{events: make(chan watch.Event)}
				source := listwatch.FromListerWatcher(&toolscache.ListWatch{
					WatchFuncWithContext: func(context.Context, metav1.ListOptions) (watch.Interface, error) {
						return w, nil
					},
				})
				stream, err := source.Watch(ctx, metav1.ListOptions{})
				if err != nil {
					t.Fatal(err)
				}
				end(stream, cancel)
				synctest.Wait()
				if _, err := stream.Next(); err == nil {
					t.Error("Next after the end: got an event, want an error")
				}
				if got := w.stops.Load(); got != 1 {
					t.Errorf("stops: got %d, want 1", got)
				}
			})
		})
	}
}
