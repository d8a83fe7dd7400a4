// SPDX-License-Identifier: Apache-2.0

package listwatch

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/refwatch/refwatch/internal/redact"
	"github.com/refwatch/refwatch/internal/reflector/internal/failure"
)

// stopsOnce is a watch.Interface that must be stopped once: it closes its channel in
// Stop.
type stopsOnce struct {
	events chan watch.Event
	panics bool
	stops  atomic.Int32
}

func (s *stopsOnce) ResultChan() <-chan watch.Event { return s.events }

func (s *stopsOnce) Stop() {
	if s.stops.Add(1) == 1 {
		close(s.events)
	}
	if s.panics {
		panic(canary)
	}
}

// openWatch returns the stream of a ListerWatcher that returns w and err.
func openWatch(ctx context.Context, w watch.Interface, err error) (Stream, error) {
	return FromListerWatcher(&toolscache.ListWatch{
		WatchFuncWithContext: func(context.Context, metav1.ListOptions) (watch.Interface, error) { return w, err },
	}).Watch(ctx, metav1.ListOptions{})
}

// A watch of a ListerWatcher is stopped once, however it ends. A panic in Stop does not
// leave the stream.
func TestWatchIsStoppedOnce(t *testing.T) {
	ends := map[string]func(Stream, context.CancelFunc){
		"closed twice":               func(s Stream, _ context.CancelFunc) { _, _ = s.Close(), s.Close() },
		"context, then closed":       func(s Stream, cancel context.CancelFunc) { cancel(); synctest.Wait(); _ = s.Close() },
		"closed, then context":       func(s Stream, cancel context.CancelFunc) { _ = s.Close(); cancel() },
		"context and closed at once": func(s Stream, cancel context.CancelFunc) { cancel(); _ = s.Close() },
	}
	for name, end := range ends {
		for stop, panics := range map[string]bool{"": false, ", Stop panics": true} {
			t.Run(name+stop, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					w := &stopsOnce{events: make(chan watch.Event), panics: panics}
					stream, err := openWatch(ctx, w, nil)
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
}

func TestWatchThatFails(t *testing.T) {
	refused := errors.New("refused")
	if stream, err := openWatch(t.Context(), nil, refused); stream != nil || !errors.Is(err, refused) {
		t.Errorf("an error: got %v and %v, want no stream and the error", stream, err)
	}
	// The reflector reports that there is neither.
	if stream, err := openWatch(t.Context(), nil, nil); stream != nil || err != nil {
		t.Errorf("neither: got %v and %v, want nil and nil", stream, err)
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// If no attempt of client-go gets an answer, it returns a watch without events, and no error. To a reflector that is a
// failure to reach the server: an answer would end an outage.
func TestWatchWithoutAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lost := roundTripper(func(*http.Request) (*http.Response, error) { return nil, io.EOF })
		client, err := kubernetes.NewForConfig(&rest.Config{Host: "https://server", Transport: lost})
		if err != nil {
			t.Fatal(err)
		}
		w, err := client.CoreV1().Secrets("shop").Watch(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatalf("client-go returned %v, want no error: this test is without a reason", err)
		}
		stream, err := openWatch(t.Context(), w, nil)
		if stream != nil || failure.Of(err) != failure.Unreachable {
			t.Errorf("got %v and error %v, want no stream and that the server was not reached", stream, err)
		}
		if got := redact.Error(err).Error(); got != "client-go got no answer: its connections were closed, or timed out" {
			t.Errorf("in a log: got %q, want the error", got)
		}
	})
}

// closing is a watch that closes its channel some time after its Stop, or never. It sends an
// event in between, which waits for a reader.
type closing struct {
	*watch.ProxyWatcher

	events chan watch.Event
	after  time.Duration // negative: never
	closed atomic.Bool
}

func (c *closing) Stop() {
	c.ProxyWatcher.Stop()
	switch {
	case c.after == 0:
		c.closed.Store(true)
		close(c.events)
	case c.after > 0:
		time.AfterFunc(c.after/2, func() {
			c.events <- watch.Event{}
			time.Sleep(c.after / 2)
			c.closed.Store(true)
			close(c.events)
		})
	}
}

// Close waits for a watch that closes its channel, and abandons another one after a second. A
// Next that blocks returns in any case.
func TestCloseOfAWatch(t *testing.T) {
	type test struct {
		after, takes time.Duration
		closed       bool
	}
	tests := map[string]test{
		"at once":  {0, 0, true},
		"late":     {900 * time.Millisecond, 900 * time.Millisecond, true},
		"too late": {1100 * time.Millisecond, time.Second, false},
		"never":    {-1, time.Second, false},
	}
	ends := map[string]func(Stream, context.CancelFunc) error{
		"closed":               func(s Stream, _ context.CancelFunc) error { return s.Close() },
		"context, then closed": func(s Stream, cancel context.CancelFunc) error { cancel(); synctest.Wait(); return s.Close() },
	}
	for name, test := range tests {
		for how, end := range ends {
			t.Run(name+", "+how, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					events := make(chan watch.Event)
					w := &closing{ProxyWatcher: watch.NewProxyWatcher(events), events: events, after: test.after}
					stream, err := openWatch(ctx, w, nil)
					if err != nil {
						t.Fatal(err)
					}
					read := make(chan error, 1)
					go func() {
						_, err := stream.Next()
						read <- err
					}()
					synctest.Wait()
					began := time.Now()
					if err := end(stream, cancel); err != nil || time.Since(began) != test.takes || w.closed.Load() != test.closed {
						t.Errorf("Close: got error %v after %v, closed: %v; want %+v", err, time.Since(began), w.closed.Load(), test)
					}
					if err := <-read; !errors.Is(err, io.EOF) {
						t.Errorf("Next: got %v, want EOF", err)
					}
					time.Sleep(time.Second) // for the timer of the watch
				})
			})
		}
	}
}
