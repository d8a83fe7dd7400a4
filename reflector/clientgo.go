// SPDX-License-Identifier: Apache-2.0

package reflector

import (
	"context"
	"errors"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// quieter is added to the level of all that client-go's Reflector logs: it
// warns at level 0 of streams that are short or silent, which is reported here.
const quieter = 3

// errOver is all that client-go's Reflector is ever told: the session is over.
// The cause stays here. It must not look like a refused connection or a 429,
// which client-go would answer with a back-off of its own.
var errOver = errors.New("session over")

// clientGoSession is a session run by client-go's Reflector. It stands between
// that reflector and the source as its ListerWatcher. What client-go would do
// once a stream has ended (relist, resume by a plain watch, back off) never
// happens: every further request is answered with errOver.
type clientGoSession struct{ *session }

// runClientGo is the engine that is client-go's own.
func (s *session) runClientGo() {
	quiet := logr.Discard() // of its wonder at a client that cannot do WatchList
	engine := toolscache.NewReflectorWithOptions(clientGoSession{s}, nil, sessionStore{s}, toolscache.ReflectorOptions{
		Name:            s.r.name,
		TypeDescription: s.r.name,
		MinWatchTimeout: streamTimeout,
		Logger:          &quiet,
	})
	logger := klog.FromContext(s.ctx).V(quieter)
	var err error // of a store that panics
	defer func() {
		if err != nil {
			s.end(err)
		}
	}()
	defer recovered(&err)
	_ = engine.ListAndWatchWithContext(klog.NewContext(s.ctx, logger)) // errOver, or nil when ctx ended
}

// IsWatchListSemanticsUnSupported is client-go's name for the question.
func (s clientGoSession) IsWatchListSemanticsUnSupported() bool { return s.listMode }

// ListWithContext implements client-go's ListerWatcherWithContext. Without
// WatchList it begins a session. With WatchList it is how client-go reacts to a
// failed stream; the session is over then, unless WatchList itself was refused.
func (s clientGoSession) ListWithContext(context.Context, metav1.ListOptions) (runtime.Object, error) {
	if !s.enter() {
		return nil, errOver
	}
	defer s.calls.Done()
	list, _, err := s.list()
	if err != nil {
		s.end(err)
		return nil, errOver
	}
	return list, nil
}

// WatchWithContext implements client-go's ListerWatcherWithContext: a WatchList
// at the version that the reflector chooses, or the watch that follows a list.
func (s clientGoSession) WatchWithContext(_ context.Context, options metav1.ListOptions) (watch.Interface, error) {
	if !s.enter() {
		return nil, errOver
	}
	defer s.calls.Done()
	watchList := options.SendInitialEvents != nil
	if watchList {
		options.ResourceVersion = s.r.noteOpen(s.session)
	} else if err := s.watchRefusal(); err != nil {
		s.end(err)
		return nil, errOver
	}
	stream, err := watchFrom(s.ctx, s.r.source, options)
	if !watchList {
		s.noteWatch(err)
	}
	switch {
	case err == nil:
		s.noteOpened()
	case watchList && s.triesList(err):
		return nil, errOver // client-go lists next, for the session is not over
	default:
		s.end(err)
		return nil, errOver
	}
	w := &sessionWatch{session: s.session, stream: stream, events: make(chan watch.Event), done: make(chan struct{})}
	s.calls.Go(func() { w.pump(watchList) })
	return w, nil
}

// List implements client-go's ListerWatcher; its contextless half is not used.
func (s clientGoSession) List(options metav1.ListOptions) (runtime.Object, error) {
	return s.ListWithContext(s.ctx, options)
}

// Watch implements client-go's ListerWatcher; its contextless half is not used.
func (s clientGoSession) Watch(options metav1.ListOptions) (watch.Interface, error) {
	return s.WatchWithContext(s.ctx, options)
}
