// SPDX-License-Identifier: Apache-2.0

package reflector

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

const (
	// streamTimeout is the shortest time after which the server is asked to end
	// a stream; client-go asks for up to twice as much, at random.
	streamTimeout = 30 * time.Minute
	// initialEventsTimeout bounds the wait for the bookmark that ends the
	// initial events of an open stream. A server that does not know WatchList
	// may take the request for a plain watch, and that bookmark never comes.
	initialEventsTimeout = 15 * time.Second
	// quieter is added to the level of all that client-go's Reflector logs: it
	// warns at level 0 of streams that are short or silent, which is reported
	// here.
	quieter = 3
)

var (
	// errOver is all that client-go's Reflector is ever told: the session is
	// over. The cause stays here. It must not look like a refused connection or
	// a 429, which client-go would answer with a back-off of its own.
	errOver = errors.New("session over")
	// errEndedEarly is the cause when a stream ended before the state was known.
	errEndedEarly = errors.New("the stream ended before its initial events did")
	// errNoBookmark is the cause when the initial events did not end in time.
	errNoBookmark = errors.New("the server did not end the initial events of a WatchList in time")
)

// session is one life of a stream, run by client-go's Reflector: a complete
// read and the changes after it. It stands between that reflector and the
// source as its ListerWatcher. What client-go would do once a stream has ended
// (relist, resume by a plain watch, back off) never happens: every further
// request is answered with errOver.
type session struct {
	r        *Reflector
	ctx      context.Context // of this session; every request ends with it
	cancel   context.CancelFunc
	listMode bool
	// consistent tells that the read was asked for at version "". Set before
	// the request that brings the answer.
	consistent bool
	synced     bool // a complete read reached the store; guarded by r.mu

	mu    sync.Mutex
	ended bool
	err   error          // why; nil for a stream's regular end
	calls sync.WaitGroup // requests and pumps under way; none is added once ended
}

// runSession runs one session to its end. It tells whether the session had
// synced and why it ended.
func (r *Reflector) runSession(ctx context.Context) (synced bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s := &session{r: r, ctx: ctx, cancel: cancel}
	s.listMode = r.setSession(s)
	defer r.setSession(nil)

	quiet := logr.Discard() // of its wonder at a client that cannot do WatchList
	engine := toolscache.NewReflectorWithOptions(s, nil, sessionStore{s}, toolscache.ReflectorOptions{
		Name:            r.name,
		TypeDescription: r.name,
		MinWatchTimeout: streamTimeout,
		Logger:          &quiet,
	})
	logger := klog.FromContext(ctx).V(quieter)
	_ = engine.ListAndWatchWithContext(klog.NewContext(ctx, logger)) // errOver, or nil when ctx ended
	s.end(nil)
	s.calls.Wait()
	if !s.synced && s.err == nil {
		return false, errEndedEarly
	}
	return s.synced, s.err
}

// end ends the session; the first cause is the one that is kept.
func (s *session) end(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ended {
		s.ended, s.err = true, err
		s.cancel()
	}
}

// enter admits a request unless the session is over. The caller ends it with
// calls.Done.
func (s *session) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended || s.ctx.Err() != nil {
		return false
	}
	s.calls.Add(1)
	return true
}

// IsWatchListSemanticsUnSupported is client-go's name for the question.
func (s *session) IsWatchListSemanticsUnSupported() bool { return s.listMode }

// ListWithContext implements client-go's ListerWatcherWithContext. Without
// WatchList it begins a session. With WatchList it is how client-go reacts to a
// failed stream; the session is over then, unless WatchList itself was refused.
func (s *session) ListWithContext(context.Context, metav1.ListOptions) (runtime.Object, error) {
	if !s.enter() {
		return nil, errOver
	}
	defer s.calls.Done()
	version := s.r.noteOpen()
	s.consistent = version == ""
	// client-go's own options would ask for "0", which may be served from any
	// past, and for pages, which are read from etcd.
	list, err := s.r.source.List(s.ctx, metav1.ListOptions{ResourceVersion: version})
	if err == nil {
		err = s.checkList(list)
	}
	if err != nil {
		s.end(err)
		return nil, errOver
	}
	return list, nil
}

func (s *session) checkList(list runtime.Object) error {
	header, err := meta.ListAccessor(list)
	if err != nil || !meta.IsListType(list) {
		return fmt.Errorf("%w: a %T where a list belongs", ErrMalformed, list)
	}
	return s.r.noteRead(header.GetResourceVersion(), s.consistent)
}

// WatchWithContext implements client-go's ListerWatcherWithContext: a WatchList
// at the version that the reflector chooses, or the watch that follows a list.
func (s *session) WatchWithContext(_ context.Context, options metav1.ListOptions) (watch.Interface, error) {
	if !s.enter() {
		return nil, errOver
	}
	defer s.calls.Done()
	watchList := options.SendInitialEvents != nil
	if watchList {
		options.ResourceVersion = s.r.noteOpen()
		s.consistent = options.ResourceVersion == ""
	}
	stream, err := s.r.source.Watch(s.ctx, options)
	switch {
	case err == nil:
	case watchList && refusesWatchList(err):
		s.useLists() // as client-go does next, for the session is not over
		return nil, errOver
	default:
		s.end(err)
		return nil, errOver
	}
	w := &sessionWatch{session: s, stream: stream, events: make(chan watch.Event), done: make(chan struct{})}
	s.calls.Go(func() { w.pump(watchList) })
	return w, nil
}

// useLists remembers that this server does not do WatchList.
func (s *session) useLists() {
	klog.FromContext(s.ctx).V(2).Info("The server does not do WatchList, using list and watch", "reflector", s.r.name)
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	s.r.listMode = true
}

// List implements client-go's ListerWatcher; its contextless half is not used.
func (s *session) List(options metav1.ListOptions) (runtime.Object, error) {
	return s.ListWithContext(s.ctx, options)
}

// Watch implements client-go's ListerWatcher; its contextless half is not used.
func (s *session) Watch(options metav1.ListOptions) (watch.Interface, error) {
	return s.WatchWithContext(s.ctx, options)
}
