// SPDX-License-Identifier: Apache-2.0

package reflector

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/refwatch/refwatch/reflector/internal/admission"
)

const (
	// streamTimeout is the shortest time after which the server is asked to end
	// a stream; it is asked for up to twice as much, at random.
	streamTimeout = 30 * time.Minute
	// initialEventsTimeout bounds the wait for the bookmark that ends the
	// initial events of an open stream. A server that does not know WatchList
	// may take the request for a plain watch, and that bookmark never comes.
	initialEventsTimeout = 15 * time.Second
	// answerTimeout bounds the wait for the state as a whole, from the request
	// on, at first. kube-apiserver gives a list as long.
	answerTimeout = time.Minute
)

var (
	// errEndedEarly is the cause when a stream ended before the state was known.
	errEndedEarly = errors.New("the stream ended before its initial events did")
	// errNoBookmark is the cause when the initial events did not end in time.
	errNoBookmark = errors.New("the server did not end the initial events of a WatchList in time")
	// errNoAnswer is the cause when the state did not come in time.
	errNoAnswer = errors.New("the server did not answer in time")
	// errSilent is the cause when a stream was silent, and a list told of
	// something that it should have brought.
	errSilent = errors.New("the stream was silent about a change")
)

// isAnswer tells whether an error that looks like one of the connection is about
// what the server said.
func isAnswer(err error) bool {
	return errors.Is(err, errEndedEarly) || errors.Is(err, errNoBookmark)
}

// session is one life of a stream: a complete read and the changes after it. Its
// end is final; what comes after it is another session.
type session struct {
	r        *Reflector
	ctx      context.Context // of this session; every request ends with it
	cancel   context.CancelFunc
	expire   func() // lets go of the limit of the read; nil once it is complete
	began    time.Time
	stream   Stream // of the stream engine; nil until it is open
	listMode bool
	// consistent says that the read was asked for at version "", rollbacks how
	// many of these the gate knew. Set before the request that brings the answer.
	consistent bool
	rollbacks  uint64
	rolledBack bool // the read proved one more

	// Guarded by r.mu.
	synced    bool // a complete read reached the store
	syncedAt  time.Time
	refreshed bool // given up for a fresh read
	verifying bool
	opened    bool      // the stream is open
	askedAt   time.Time // when the request for the state was sent
	readFor   uint64    // the number that ReadFor had been given by then

	mu    sync.Mutex
	ended bool
	err   error          // why; nil for a stream's regular end
	calls sync.WaitGroup // requests and pumps under way; none is added once ended
}

// nextSession waits for admission and returns the session that it is for, nil if
// there is to be none any more.
func (r *Reflector) nextSession(ctx context.Context) *session {
	if r.member.Acquire(ctx) != nil {
		return nil
	}
	s := &session{r: r}
	s.ctx, s.cancel = context.WithCancel(ctx)
	if !r.begin(s) {
		s.cancel()
		r.member.Release(admission.Outcome{})
		return nil
	}
	return s
}

// begin makes a session the one under way, unless there is to be none any more.
func (r *Reflector) begin(s *session) bool {
	lists := r.listsOnly || r.usesLists()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stopped || s.ctx.Err() != nil {
		return false
	}
	s.listMode = lists || r.listNext
	r.listNext = false
	r.session = s
	return true
}

// run runs a session to its end.
func (s *session) run() {
	s.began = time.Now()
	s.expire = s.limit(s.r.answerLimit(), func(s *session) { s.end(errNoAnswer) })
	if s.r.engine == ClientGoEngine {
		s.runClientGo()
	} else {
		s.runStream()
	}
	s.end(nil)
	if s.expire != nil {
		s.expire()
	}
	s.calls.Wait()
}

// finish ends a session. It reports whether there is to be another.
func (r *Reflector) finish(ctx context.Context, s *session) bool {
	r.gate.silence.remove(r)
	over := r.over(ctx)
	r.mu.Lock()
	r.session = nil
	err, syncedAt, refreshed := s.err, s.syncedAt, s.refreshed
	r.mu.Unlock()
	switch {
	case over:
		r.member.Release(admission.Outcome{})
		return false
	case syncedAt.IsZero():
		err = cmp.Or(err, errEndedEarly)
		r.member.Release(outcomeOf(err))
	default:
		outcome := outcomeOf(err)
		if refreshed {
			outcome.Kind = admission.Answered
		}
		r.member.Ended(time.Since(syncedAt), outcome)
	}
	r.noteEnd(ctx, err)
	if Classify(err) == TooLarge {
		r.member.Expedite() // what the consistent read shows matters to all
	}
	return !r.over(ctx)
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

// list reads the selection, at the version that the reflector chooses.
func (s *session) list() (list runtime.Object, version string, err error) {
	s.listMode = true
	version = s.r.noteOpen(s)
	// client-go's own options would ask for "0", which may be served from any
	// past, and for pages, which are read from etcd.
	list, err = listFrom(s.ctx, s.r.source, metav1.ListOptions{ResourceVersion: version})
	if err != nil {
		return nil, "", s.noteListError(err)
	}
	if version, err = versionOf(list); err == nil {
		err = s.r.noteRead(s, version)
	}
	return list, version, err
}

// versionOf returns the version of a list. Pages are not asked for: a list that
// is one of them is not the state.
func versionOf(list runtime.Object) (string, error) {
	header, err := meta.ListAccessor(list)
	if err != nil || !meta.IsListType(list) {
		return "", fmt.Errorf("%w: a %T where a list belongs", ErrMalformed, list)
	}
	if header.GetContinue() != "" {
		return "", fmt.Errorf("%w: a page of a list, where the list was asked for", ErrMalformed)
	}
	return header.GetResourceVersion(), wellFormed(header.GetResourceVersion())
}

// check tells whether an event is what it should be. initial says that the
// initial events have not ended.
func (s *session) check(event watch.Event, initial bool) error {
	switch event.Type {
	case watch.Added, watch.Modified, watch.Deleted:
		if _, err := meta.Accessor(event.Object); err != nil {
			return fmt.Errorf("%w: an event that holds a %T", ErrMalformed, event.Object)
		}
		return s.r.check(event.Object)
	case watch.Bookmark:
		object, err := meta.Accessor(event.Object)
		if err != nil {
			return fmt.Errorf("%w: a bookmark that holds a %T", ErrMalformed, event.Object)
		}
		version := object.GetResourceVersion()
		if initial && endsInitialEvents(event) {
			return s.r.noteRead(s, version)
		}
		return wellFormed(version)
	case watch.Error:
		if status, ok := event.Object.(*metav1.Status); ok {
			return harmless(apierrors.FromObject(status))
		}
		return fmt.Errorf("%w: an error event that holds a %T", ErrMalformed, event.Object)
	default:
		return fmt.Errorf("%w: an event of type %q", ErrMalformed, event.Type)
	}
}

// endsInitialEvents knows the bookmark that ends the initial events (KEP-3157).
func endsInitialEvents(event watch.Event) bool {
	if event.Type != watch.Bookmark {
		return false
	}
	object, err := meta.Accessor(event.Object)
	return err == nil && object.GetAnnotations()[metav1.InitialEventsAnnotationKey] == "true"
}

// limit calls expire if it is not stopped in time. The timer's goroutine counts
// as a call of the session.
//
// The runtime may keep a stopped timer, and so all that its function reaches,
// until long after. What it reaches is therefore let go of when it is stopped,
// lest an object stays in memory that nobody references any more.
func (s *session) limit(timeout time.Duration, expire func(*session)) (stop func()) {
	var limited atomic.Pointer[session]
	limited.Store(s)
	s.calls.Add(1)
	timer := time.AfterFunc(timeout, func() {
		if session := limited.Swap(nil); session != nil {
			defer session.calls.Done()
			expire(session)
		}
	})
	return func() {
		timer.Stop()
		if session := limited.Swap(nil); session != nil {
			session.calls.Done()
		}
	}
}

// limitInitialEvents ends the session if the initial events do not end in time.
func (s *session) limitInitialEvents() (stop func()) {
	return s.limit(initialEventsTimeout, func(s *session) {
		s.noteBroken(errNoBookmark)
		s.end(errNoBookmark)
	})
}
