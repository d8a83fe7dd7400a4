// SPDX-License-Identifier: Apache-2.0

package reflector

import (
	"context"
	"io"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/watchlist"
)

// FromListerWatcher makes a source of any client-go ListerWatcher: a
// cache.ListWatch over any client, client-go's own, or a fake. One that says it
// does not support WatchList semantics (IsWatchListSemanticsUnSupported, as the
// fake clientset wrapped by cache.ToListWatcherWithWatchListSemantics does) is
// listed and then watched.
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
	// Some clients, client-go's fakes for one, do not end a watch with its context.
	return watchStream{w, context.AfterFunc(ctx, w.Stop)}, nil
}

// IsWatchListSemanticsUnSupported is client-go's name for the question.
func (l *listerWatcher) IsWatchListSemanticsUnSupported() bool { return l.noWatchList }

// watchStream pulls events from a watch.Interface.
type watchStream struct {
	watch  watch.Interface
	forget func() bool // the context
}

func (s watchStream) Next() (watch.Event, error) {
	event, ok := <-s.watch.ResultChan()
	if !ok {
		return watch.Event{}, io.EOF
	}
	return event, nil
}

// Close returns when the watch has closed its channel, as watch.Interface says
// it does once stopped: only then has its own goroutine ended.
func (s watchStream) Close() error {
	s.forget()
	s.watch.Stop()
	for range s.watch.ResultChan() {
		// What is still in the channel is of no use to anybody.
	}
	return nil
}
