// SPDX-License-Identifier: Apache-2.0

package reflector_test

import (
	"errors"
	goruntime "runtime"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/watch"

	"github.com/refwatch/refwatch/internal/reflector"
	"github.com/refwatch/refwatch/internal/reflector/listwatch"
)

// panicking is a stream that panics when its events have been read, or when it is
// closed.
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

func panicsWith(value any) watchAnswer {
	return func() (listwatch.Stream, error) { panic(value) }
}

func panicsAfter(events ...watch.Event) watchAnswer {
	return func() (listwatch.Stream, error) { return panicking{fakeStream: newStream(copies(events)...)}, nil }
}

// A panic in Close changes nothing of how the session ended.
func TestPanicWhileClosing(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		closing := func() (listwatch.Stream, error) {
			return panicking{newStream(state(secret("5"), "7")...).finish(errors.New("reset")), true}, nil
		}
		r := start(t, watching(closing, closing, opens(state(secret("5"), "9")...)), reflector.Options{})
		after(time.Minute)
		if got := r.Status(); !got.Synced || got.Failures != 0 || got.ResourceVersion != "9" {
			t.Errorf("status: got %+v, want the third stream at 9", got)
		}
	})
}

// exits is a stream whose Next ends the goroutine after its events, as a test's FailNow
// does.
type exits struct{ *fakeStream }

func (e exits) Next() (watch.Event, error) {
	if len(e.events) == 0 {
		goruntime.Goexit()
	}
	return e.fakeStream.Next()
}

// A source that ends the goroutine of Run leaves no session behind.
func TestSourceThatEndsTheGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := watching(func() (listwatch.Stream, error) { return exits{newStream(state(secret("5"), "7")...)}, nil })
		source.onList = lists(brings("7", secret("5")))
		r := start(t, source, reflector.Options{})
		after(10 * time.Minute)
		if got := source.count("list"); r.Status().Streaming || got != 0 {
			t.Errorf("got status %+v and %d lists after the end, want no stream and none", r.Status(), got)
		}
	})
}
