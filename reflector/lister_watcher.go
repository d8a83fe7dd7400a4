// SPDX-License-Identifier: Apache-2.0

package reflector

import (
	"context"
	"io"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/features"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/watchlist"
)

// listsOnly tells whether a source is to be listed and then watched: it says so
// (IsWatchListSemanticsUnSupported), or WatchList is off for the whole program
// (client-go's feature gate WatchListClient).
func listsOnly(source Source) bool {
	return watchlist.DoesClientNotSupportWatchListSemantics(source) ||
		!features.FeatureGates().Enabled(features.WatchListClient)
}

// FromListerWatcher makes a source of any client-go ListerWatcher: a
// cache.ListWatch over any client, client-go's own, or a fake. One that says it
// does not support WatchList semantics (IsWatchListSemanticsUnSupported, as the
// fake clientset wrapped by cache.ToListWatcherWithWatchListSemantics does) is
// listed and then watched.
//
// Its answers are decoded by the client: a frame of a JSON stream is read whole
// into memory there, however long it is, and an error of which the text may quote
// an object is shown without its text. [FromREST] reads 16 MiB of a frame at most.
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
		return nil, nil // which is found to be neither a stream nor an error
	}
	s := &watchStream{watch: w}
	// Some clients, client-go's fakes for one, do not end a watch with its context.
	s.forget = context.AfterFunc(ctx, s.stop)
	return s, nil
}

// IsWatchListSemanticsUnSupported is client-go's name for the question.
func (l *listerWatcher) IsWatchListSemanticsUnSupported() bool { return l.noWatchList }

// watchStream pulls events from a watch.Interface.
type watchStream struct {
	watch  watch.Interface
	forget func() bool // the context
	once   sync.Once   // not every watch.Interface can be stopped twice
	failed bool        // the stop did
}

func (s *watchStream) Next() (watch.Event, error) {
	event, ok := <-s.watch.ResultChan()
	if !ok {
		return watch.Event{}, io.EOF
	}
	return event, nil
}

// Close returns when the watch has closed its channel, as watch.Interface says
// it does once stopped: only then has its own goroutine ended.
func (s *watchStream) Close() error {
	s.forget()
	s.stop()
	if s.failed {
		return nil // and the channel may never be closed
	}
	for range s.watch.ResultChan() {
		// What is still in the channel is of no use to anybody.
	}
	return nil
}

// stop stops the watch once, and returns when it has been stopped.
func (s *watchStream) stop() {
	s.once.Do(func() {
		var err error
		defer func() { s.failed = err != nil }()
		defer recovered(&err)
		s.watch.Stop()
	})
}
