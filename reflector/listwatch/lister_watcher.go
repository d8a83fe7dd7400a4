// SPDX-License-Identifier: Apache-2.0

package listwatch

import (
	"context"
	"io"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/watchlist"

	"github.com/refwatch/refwatch/reflector/internal/redact"
)

// FromListerWatcher returns a source over any client-go ListerWatcher, for instance a
// cache.ListWatch. If the ListerWatcher says that it does not support WatchList
// (IsWatchListSemanticsUnSupported, as a fake clientset does that is wrapped by
// cache.ToListWatcherWithWatchListSemantics), a reflector lists and then watches it.
//
// The client decodes the answers: it reads a frame of a JSON stream into memory
// whole, however long the frame is. [FromREST] reads at most 4 MiB of a frame.
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
	return l.ListWithContext(ctx, options)
}

func (l *listerWatcher) Watch(ctx context.Context, options metav1.ListOptions) (Stream, error) {
	w, err := l.WatchWithContext(ctx, options)
	if err != nil {
		return nil, err
	}
	if w == nil {
		return nil, nil // the reflector reports that there is neither a stream nor an error
	}
	s := &watchStream{watch: w}
	// Some clients, client-go's fakes for one, do not end a watch with its context.
	s.forget = context.AfterFunc(ctx, s.stop)
	return s, nil
}

// IsWatchListSemanticsUnSupported implements the method that client-go looks for.
func (l *listerWatcher) IsWatchListSemanticsUnSupported() bool { return l.noWatchList }

// watchStream pulls events from a watch.Interface.
type watchStream struct {
	watch  watch.Interface
	forget func() bool // ends the wait for the end of the context
	once   sync.Once   // not every watch.Interface can be stopped twice
	failed bool        // Stop panicked
}

func (s *watchStream) Next() (watch.Event, error) {
	event, ok := <-s.watch.ResultChan()
	if !ok {
		return watch.Event{}, io.EOF
	}
	return event, nil
}

// Close returns when the watch has closed its channel, which it does once it is
// stopped (see watch.Interface): only then has its goroutine ended.
func (s *watchStream) Close() error {
	s.forget()
	s.stop()
	if s.failed {
		return nil // and the channel may never be closed
	}
	for range s.watch.ResultChan() {
		// Discard the events that are still in the channel.
	}
	return nil
}

// stop stops the watch, once.
func (s *watchStream) stop() {
	s.once.Do(func() {
		var err error
		defer func() { s.failed = err != nil }()
		defer redact.Panic(&err)
		s.watch.Stop()
	})
}
