// SPDX-License-Identifier: Apache-2.0

package listwatch

import (
	"context"
	"io"
	"reflect"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/watchlist"

	"github.com/refwatch/refwatch/internal/redact"
)

// FromListerWatcher returns a source over any client-go ListerWatcher: see New of package reflector of the root. A
// ListerWatcher that wraps the watches of a client hides a watch.NewEmptyWatch, which is a failure to reach the server:
// the stream then ends without an event, as an answer.
func FromListerWatcher(lw toolscache.ListerWatcher) Source {
	return &listerWatcher{
		ListerWatcherWithContext: toolscache.ToListerWatcherWithContext(lw),
		noWatchList:              watchlist.DoesClientNotSupportWatchListSemantics(lw),
	}
}

type listerWatcher struct {
	toolscache.ListerWatcherWithContext

	noWatchList bool
}

func (l *listerWatcher) List(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	list, err := l.ListWithContext(ctx, options)
	return list, answered(err)
}

func (l *listerWatcher) Watch(ctx context.Context, options metav1.ListOptions) (Stream, error) {
	w, err := l.WatchWithContext(ctx, options)
	if err != nil {
		return nil, answered(err)
	}
	if w == nil {
		return nil, nil // the reflector reports that there is neither a stream nor an error
	}
	if reflect.TypeOf(w) == emptyWatch { // as a stream that ends it would be an answer, and end an outage
		return nil, errEmptyWatch
	}
	s := &watchStream{watch: w, stopped: make(chan struct{})}
	// Some clients, client-go's fakes for one, do not end a watch with its context.
	s.forget = context.AfterFunc(ctx, s.stop)
	return s, nil
}

// IsWatchListSemanticsUnSupported implements the method that client-go looks for.
func (l *listerWatcher) IsWatchListSemanticsUnSupported() bool { return l.noWatchList }

// emptyWatch is the type of the watch that a REST client of client-go returns, with no error, when the connection of
// each of its attempts was closed or timed out before an answer.
var emptyWatch = reflect.TypeOf(watch.NewEmptyWatch())

var errEmptyWatch = redact.New("client-go got no answer: its connections were closed, or timed out")

// closeTimeout is how long a watch may take to close its channel once it is stopped. A
// client-go watch does so at once. Some never do, as apimachinery's ProxyWatcher.
const closeTimeout = time.Second

// watchStream pulls events from a watch.Interface.
type watchStream struct {
	watch   watch.Interface
	forget  func() bool   // ends the wait for the end of the context
	once    sync.Once     // not every watch.Interface can be stopped twice
	stopped chan struct{} // closed when the watch has been stopped
}

// Next returns also if the watch has been stopped and does not close its channel.
func (s *watchStream) Next() (watch.Event, error) {
	select {
	case event, ok := <-s.watch.ResultChan():
		if ok {
			return event, nil
		}
	case <-s.stopped:
	}
	return watch.Event{}, io.EOF
}

// Close returns when the watch has closed its channel, which it does once it is
// stopped (see watch.Interface): only then has its goroutine ended. A watch that does not
// is abandoned after closeTimeout.
func (s *watchStream) Close() error {
	s.forget()
	s.stop()
	abandon := time.NewTimer(closeTimeout)
	defer abandon.Stop()
	for {
		select {
		case _, ok := <-s.watch.ResultChan():
			if !ok {
				return nil
			}
			// Discard the events that are still in the channel.
		case <-abandon.C:
			return nil
		}
	}
}

// stop stops the watch, once.
func (s *watchStream) stop() {
	s.once.Do(func() {
		defer close(s.stopped)
		var ignored error
		defer redact.Panic(&ignored)
		s.watch.Stop()
	})
}
