// SPDX-License-Identifier: Apache-2.0

package reflector_test

import (
	"context"
	"fmt"
	goruntime "runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/refwatch/refwatch/internal/reflector"
	"github.com/refwatch/refwatch/internal/reflector/listwatch"
)

// What happens if a verb comes at the same moment as something else.

// endsGoroutine is a source that ends its goroutine when its context ends.
type endsGoroutine struct{ noWatchList }

func (endsGoroutine) List(ctx context.Context, _ metav1.ListOptions) (runtime.Object, error) {
	<-ctx.Done()
	goruntime.Goexit()
	return nil, nil
}

func (endsGoroutine) Watch(context.Context, metav1.ListOptions) (listwatch.Stream, error) {
	return nil, errDown
}

// The session has ended with its goroutine, and what it has started has not.
func TestVerbsWhileAGoroutineEnds(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		for range 200 {
			r := start(t, endsGoroutine{}, reflector.Options{})
			r.Pause()
			for range 20 {
				r.Read()
				r.Follow()
				goruntime.Gosched()
			}
			r.stop()
		}
	})
}

// failsSlowly is a source that needs 300 ms to refuse a request.
type failsSlowly struct {
	*fakeSource

	err error
}

func (s failsSlowly) fail(ctx context.Context, verb string, options metav1.ListOptions) error {
	s.record(verb, options)
	select {
	case <-time.After(300 * time.Millisecond):
	case <-ctx.Done():
	}
	return s.err
}

func (s failsSlowly) List(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	return nil, s.fail(ctx, "list", options)
}

func (s failsSlowly) Watch(ctx context.Context, options metav1.ListOptions) (listwatch.Stream, error) {
	return nil, s.fail(ctx, "watch", options)
}

// Verbs alternate faster than the server answers. Each time the request under way is of no use any more. If the
// requests fail, that is no way around the back-off.
func TestVerbsThatAlternateRespectTheBackOff(t *testing.T) {
	for name, err := range map[string]error{"forbidden": forbidden(), "unavailable": unavailable()} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				r := start(t, failsSlowly{&fakeSource{}, err}, reflector.Options{})
				after(5 * time.Second)
				before := len(r.source.asked())
				for range 1500 {
					r.Pause()
					after(20 * time.Millisecond)
					r.Follow()
					after(20 * time.Millisecond)
				}
				if got := len(r.source.asked()) - before; got > 200 {
					t.Errorf("requests in a minute: got %d, want at most 200", got)
				}
			})
		})
	}
}

// Watches after a list that Pause gives up say nothing about watches.
func TestPauseDuringTheWatchAfterAList(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		source := withoutWatches{&fakeSource{onList: lists(brings("5", secret("5")))}, &atomic.Bool{}}
		r := start(t, source, reflector.Options{})
		for watches := range 3 {
			for r.source.count("watch") == watches {
				after(time.Second)
			}
			r.Pause()
			after(time.Second)
			r.Follow()
		}
		source.well.Store(true)
		after(30 * time.Second)
		if got := r.Status(); got.Polled || !got.Streaming {
			t.Errorf("got %+v, want a stream", got)
		}
	})
}

// Where WatchLists fail and watches after a list hang, the object is polled.
func TestWatchesThatHang(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := start(t, withoutWatches{&fakeSource{onList: lists(brings("5", secret("5")))}, &atomic.Bool{}}, reflector.Options{})
		after(5 * time.Minute)
		if got := r.Status(); !got.Polled || got.LastContact.Before(time.Now().Add(-3*time.Minute)) {
			t.Errorf("got %+v, want it polled, with a read of the last 3 minutes", got)
		}
	})
}

// withoutWatches is a source whose WatchLists fail, and whose watches are being opened until they end or it is well.
type withoutWatches struct {
	*fakeSource
	well *atomic.Bool
}

func (s withoutWatches) Watch(ctx context.Context, options metav1.ListOptions) (listwatch.Stream, error) {
	s.record("watch", options)
	if options.SendInitialEvents != nil {
		return nil, unavailable()
	}
	if s.well.Load() {
		return bound(ctx, newStream()), nil
	}
	<-ctx.Done()
	return nil, ctx.Err()
}

// A store that pauses its reflector when it has the state of a list causes no watch.
func TestPauseInOnChange(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var r *reflector.Reflector
		source := listing(&fakeSource{onList: lists(brings("5", secret("5")))})
		rig := start(t, source, reflector.Options{OnChange: func() { r.Pause() }}, func(given *reflector.Reflector) { r = given })
		after(time.Hour)
		if got, want := rig.source.asked(), []string{"list "}; !slices.Equal(got, want) || !r.Status().Synced || r.Status().Failures > 0 {
			t.Errorf("got the requests %q and the status %+v, want %q and a state", got, r.Status(), want)
		}
	})
}

// Follow while the stream is being opened sends no other request.
func TestFollowWhileAStreamIsBeingOpened(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		source := neverOpens{&fakeSource{}}
		r := start(t, source, reflector.Options{})
		for range 5 {
			r.Follow()
			after(time.Second)
		}
		if got, want := r.source.asked(), []string{"WatchList "}; !slices.Equal(got, want) {
			t.Errorf("requests: got %q, want %q", got, want)
		}
	})
}

// Follow while a Read is under way lets that end, and then opens the stream.
func TestFollowWhileAReadIsUnderWay(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		source := versions()
		list := source.onList
		source.onList = func(options metav1.ListOptions) (runtime.Object, error) {
			time.Sleep(time.Second)
			return list(options)
		}
		r := start(t, source, reflector.Options{}, readOne)
		r.Follow()
		after(2 * time.Second)
		if got, want := r.source.asked(), []string{"list ", "WatchList "}; !slices.Equal(got, want) || !r.Status().Streaming {
			t.Errorf("requests: got %q, want %q, and a stream", got, want)
		}
	})
}

// Admissions that were given up before a request are no failures: an old one is forgotten.
func TestPausesWithoutARequest(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		source := listing(&fakeSource{onList: lists(listFails(forbidden()), brings("5"))})
		r := start(t, source, reflector.Options{}, readOne)
		r.Pause()
		for range 12 {
			after(5 * time.Second)
			r.Read()
			r.Pause()
		}
		after(5 * time.Second)
		r.Read()
		after(time.Millisecond)
		if got := r.Status(); !got.Synced {
			t.Errorf("status: got %+v after %d requests, want a state", got, len(r.source.seen()))
		}
	})
}

// closes is a stream that calls a function when it is closed.
type closes struct {
	*fakeStream
	call func()
}

func (c closes) Close() error {
	c.call()
	return c.fakeStream.Close()
}

// A Retry-After holds over a pause, also if Pause is called as it arrives.
func TestRetryAfterHoldsOverAPause(t *testing.T) {
	for _, atOnce := range []bool{false, true} {
		t.Run(fmt.Sprint("at once ", atOnce), func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				var r *reflector.Reflector
				refused := newStream(errorEvent(apierrors.NewTooManyRequests("slow down", 30)))
				source := watching(
					func() (listwatch.Stream, error) {
						return closes{refused, func() {
							if atOnce {
								r.Pause()
							}
						}}, nil
					},
					opens(state(secret("5"), "9")...),
				)
				start(t, source, reflector.Options{}, func(given *reflector.Reflector) { r = given })
				after(time.Second)
				r.Pause()
				after(time.Second)
				r.Follow()
				after(20 * time.Second)
				if got := source.asked(); len(got) != 1 {
					t.Errorf("requests within the Retry-After: got %q, want 1", got)
				}
				after(time.Minute)
				if got := source.asked(); len(got) != 2 || !r.Status().Synced {
					t.Errorf("requests: got %q, want 2, and a state", got)
				}
			})
		})
	}
}

// A reflector that was stopped before it is started ends at once.
func TestStartAfterStop(t *testing.T) {
	for name, before := range map[string]verb{"following": follow, "paused": pause} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				r := start(t, versions(), reflector.Options{}, before, (*reflector.Reflector).Stop)
				r.wait()
				if got := len(r.source.seen()); got > 0 {
					t.Errorf("requests: got %d, want none", got)
				}
			})
		})
	}
}
