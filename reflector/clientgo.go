// SPDX-License-Identifier: Apache-2.0

package reflector

import (
	"context"
	"errors"
	"sync"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/refwatch/refwatch/reflector/internal/redact"
	"github.com/refwatch/refwatch/reflector/listwatch"
)

// quieter is added to the level of the lines that client-go's Reflector logs: it warns
// at level 0 about short and silent streams, which this package reports.
const quieter = 3

// errOver is the only error that client-go's Reflector gets: the session is over. The
// session keeps the cause. errOver must not look like a refused connection or a 429,
// which client-go would answer with a back-off of its own.
var errOver = errors.New("session over")

// runClientGo is the other engine, client-go's own Reflector, for one session. What
// client-go does after a stream has ended (relist, resume by a plain watch, back off)
// never happens: every further request gets errOver.
func (s *session) runClientGo() (err error) {
	quiet := logr.Discard() // client-go logs that the client cannot serve WatchList
	store := &clientGoStore{session: s}
	engine := toolscache.NewReflectorWithOptions(clientGoSession{s}, nil, store, toolscache.ReflectorOptions{
		Name:            s.r.name,
		TypeDescription: s.r.name,
		MinWatchTimeout: streamTimeout,
		Logger:          &quiet,
	})
	logger := klog.FromContext(s.context()).V(quieter)
	defer redact.Panic(&err)                                                 // of the store
	_ = engine.ListAndWatchWithContext(klog.NewContext(s.context(), logger)) // errOver, or nil when ctx ended
	return store.err
}

// clientGoSession is the ListerWatcher of client-go's Reflector.
type clientGoSession struct{ *session }

// IsWatchListSemanticsUnSupported implements the method that client-go looks for.
func (s clientGoSession) IsWatchListSemanticsUnSupported() bool { return s.listMode }

// ListWithContext implements client-go's ListerWatcherWithContext. Without WatchList
// it begins a session. With WatchList it is how client-go reacts to a failed stream;
// the session is over then, unless the WatchList itself was refused.
func (s clientGoSession) ListWithContext(context.Context, metav1.ListOptions) (runtime.Object, error) {
	if s.isOver() || !s.calls.begin() {
		return nil, errOver
	}
	defer s.calls.end()
	list, _, err := s.list()
	if err != nil {
		s.end(err)
		return nil, errOver
	}
	return list, nil
}

// WatchWithContext implements client-go's ListerWatcherWithContext: a WatchList at the
// version that progress chooses, or the watch that follows a list.
func (s clientGoSession) WatchWithContext(_ context.Context, options metav1.ListOptions) (watch.Interface, error) {
	if s.isOver() || !s.calls.begin() {
		return nil, errOver
	}
	defer s.calls.end()
	watchList := options.SendInitialEvents != nil
	if watchList {
		options.ResourceVersion = s.ask()
	} else if err := s.r.chooser.WatchRefusal(); err != nil {
		s.end(err)
		return nil, errOver
	}
	stream, err := s.watch(options)
	if !watchList {
		s.watchAnswered(err)
	}
	if err != nil {
		// After OpenFailed client-go lists next, for the session is not over.
		if !watchList || !s.r.chooser.OpenFailed(s.r.ctx, err, s.began) {
			s.end(err)
		}
		return nil, errOver
	}
	w := &clientGoWatch{session: s.session, stream: stream, events: make(chan watch.Event), done: make(chan struct{})}
	if !s.calls.begin() {
		closeStream(stream)
		return nil, errOver
	}
	go func() {
		defer s.calls.end()
		w.pump(watchList)
	}()
	return w, nil
}

// List implements client-go's ListerWatcher. client-go does not call it.
func (s clientGoSession) List(options metav1.ListOptions) (runtime.Object, error) {
	return s.ListWithContext(s.context(), options)
}

// Watch implements client-go's ListerWatcher. client-go does not call it.
func (s clientGoSession) Watch(options metav1.ListOptions) (watch.Interface, error) {
	return s.WatchWithContext(s.context(), options)
}

// clientGoStore is the store of client-go's Reflector. A failure ends the session.
// client-go does not get the error of an event: it would log the whole object.
type clientGoStore struct {
	*session

	err error // the first failure; the stream may have ended before it
}

var _ toolscache.ReflectorBookmarkStore = (*clientGoStore)(nil)

func (s *clientGoStore) Add(object any) error    { return s.event(watch.Added, object) }
func (s *clientGoStore) Update(object any) error { return s.event(watch.Modified, object) }
func (s *clientGoStore) Delete(object any) error { return s.event(watch.Deleted, object) }
func (s *clientGoStore) Resync() error           { return s.r.store.Resync() }

func (s *clientGoStore) event(kind watch.EventType, object any) error {
	if s.err != nil {
		return nil // the store may not skip an event
	}
	if s.err = s.apply(watch.Event{Type: kind, Object: object.(runtime.Object)}); s.err != nil {
		s.end(s.err)
	}
	return nil
}

// Replace stores a complete read.
func (s *clientGoStore) Replace(items []any, version string) error {
	if s.err = s.replace(items, version); s.err != nil {
		s.end(s.err)
		return errOver
	}
	return nil
}

// Bookmark records that all changes up to version have been delivered.
func (s *clientGoStore) Bookmark(version string) error {
	bookmark := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{ResourceVersion: version}}
	return s.event(watch.Bookmark, bookmark)
}

// clientGoWatch hands the events of a stream to client-go's Reflector. Errors, and
// events that do not belong to the selection, end the session before client-go sees
// them: it would log them, objects included.
type clientGoWatch struct {
	session *session
	stream  listwatch.Stream
	events  chan watch.Event

	once sync.Once
	done chan struct{}
}

// ResultChan implements watch.Interface.
func (w *clientGoWatch) ResultChan() <-chan watch.Event { return w.events }

// Stop implements watch.Interface.
func (w *clientGoWatch) Stop() {
	w.once.Do(func() {
		close(w.done)
		closeStream(w.stream)
	})
}

// pump hands over events until the stream ends or is stopped. initial is set if the
// stream begins with the state.
func (w *clientGoWatch) pump(initial bool) {
	defer close(w.events)
	defer w.Stop()
	s, stopTimer := w.session, func() {}
	if initial {
		stopTimer = s.limitInitialEvents()
	}
	defer stopTimer()
	for {
		event, err := w.next(initial)
		if err != nil {
			if initial && !s.isOver() {
				err = s.r.chooser.EndedEarly(s.r.ctx, err, s.began)
			}
			s.end(err)
			return
		}
		if initial && endsInitialEvents(event) {
			initial = false
			stopTimer()
		}
		select {
		case w.events <- event:
		case <-w.done:
			return
		case <-s.context().Done(): // client-go may leave without a Stop
			return
		}
	}
}

// next returns the next event, if it belongs to the selection.
func (w *clientGoWatch) next(initial bool) (event watch.Event, err error) {
	defer redact.Panic(&err)
	event, err = w.stream.Next()
	if err != nil {
		return event, streamError(err)
	}
	return event, w.session.check(event, initial)
}
