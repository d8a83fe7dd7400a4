// SPDX-License-Identifier: Apache-2.0

package reflector_test

import (
	"context"
	"io"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/watch"

	"github.com/refwatch/refwatch/internal/reflector"
	"github.com/refwatch/refwatch/internal/reflector/listwatch"
)

// hidden is a stream that cannot be parked, like one whose body a wrapper of the client
// hides. park is called while the reflector tries.
type hidden struct {
	*fakeStream

	park func()
}

func (h *hidden) Park(listwatch.Waker) bool { h.park(); return false }

func (h *hidden) TryNext() (event watch.Event, ok bool, err error) { return event, true, io.EOF }

// A reflector that is stopped, or must read again, while it tries to park a stream that
// cannot be parked ends its session once, with one session after it.
func TestEndWhileParkingFails(t *testing.T) {
	type test struct {
		end             func(*reflector.Reflector)
		ended, requests int
	}
	tests := map[string]test{
		"Stop":            {(*reflector.Reflector).Stop, 1, 1},
		"Refresh":         {(*reflector.Reflector).Refresh, 0, 2},
		"Refresh, panics": {func(r *reflector.Reflector) { r.Refresh(); time.Sleep(time.Second); panic("no") }, 0, 2},
	}
	eachCase(t, tests, func(t *testing.T, test test) {
		stream := &hidden{fakeStream: newStream(state(secret("5"), "5")...)}
		first := func() (listwatch.Stream, error) { return stream, nil }
		source := watching(first, opens(state(secret("7"), "7")...))
		r := reflector.New(source, newSecretSlot(), reflector.Options{})
		stream.park = func() {
			test.end(r)
			time.Sleep(time.Second) // a worker may run meanwhile
		}
		var ended atomic.Int32
		r.Start(t.Context(), func() { ended.Add(1) })
		after(time.Minute)
		if got := int(ended.Load()); got != test.ended {
			t.Errorf("the reflector has ended %d times, want %d", got, test.ended)
		}
		if got := source.count("WatchList"); got != test.requests {
			t.Errorf("got %d requests, want %d", got, test.requests)
		}
		r.Stop()
		after(time.Second)
		if got := ended.Load(); got != 1 {
			t.Errorf("after Stop: the reflector has ended %d times, want once", got)
		}
	})
}

// Run ends with its context, also where no goroutine of the reflector waits for it.
func TestRunEndsWithItsContext(t *testing.T) {
	tests := map[string]func() (listwatch.Stream, error){
		"parked stream":   newConnected().answer,
		"pause":           func() (listwatch.Stream, error) { return nil, io.ErrUnexpectedEOF },
		"blocking stream": opens(state(secret("5"), "5")...),
	}
	eachCase(t, tests, func(t *testing.T, first func() (listwatch.Stream, error)) {
		r := reflector.New(watching(first), newSecretSlot(), reflector.Options{})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { r.Run(ctx); close(done) }()
		synctest.Wait()
		cancel()
		synctest.Wait()
		select {
		case <-done:
		default:
			t.Error("Run has not returned")
			r.Stop()
		}
	})
}
