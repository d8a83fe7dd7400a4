// SPDX-License-Identifier: Apache-2.0

package reflector

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/refwatch/refwatch/cache"
	"github.com/refwatch/refwatch/internal/redact"
	"github.com/refwatch/refwatch/internal/reflector/internal/admission"
	"github.com/refwatch/refwatch/internal/reflector/internal/course"
	"github.com/refwatch/refwatch/internal/reflector/internal/failure"
	"github.com/refwatch/refwatch/internal/reflector/internal/moment"
	"github.com/refwatch/refwatch/internal/reflector/listwatch"
	"github.com/refwatch/refwatch/internal/states"
)

const (
	// shortestStream and longestStream are after how long the server is asked to end a stream.
	shortestStream, longestStream = 30 * time.Minute, 54 * time.Minute
	// streamLimit is after how long a stream ends that server or proxy have not ended, and up to
	// 256 s earlier: not all at once. An open stream outlives the right to it, and the loss of an event.
	streamLimit = time.Hour - silenceCheck
)

var (
	// errEnded is the cause of a session that was ended from this side, without a
	// failure.
	errEnded = errors.New("the session was ended")
	// errNoStream is the error of a source that returned neither a stream nor an error.
	errNoStream = fmt.Errorf("%w: the source returned neither a stream nor an error", cache.ErrMalformed)
)

// session is one life of a stream: a complete read and the changes after it, or the read
// alone. Its end is final; another session follows it. One goroutine at a time owns the
// fields: the one that runs the session, or the worker or reader of a connection that handles
// its parked stream. Others call end and context.
type session struct {
	r         *Reflector
	began     moment.Moment
	arrived   moment.Moment    // since when what a parked stream has waits; 0 if it has nothing
	stream    listwatch.Stream // nil until it is open
	stopWait  func()           // stops the wait for an answer; nil if there is none
	life      life             // whether it lasts, why it has ended, and what it has under way
	once      bool             // ends when the state is stored
	verb      course.Verb      // with which it reads
	state     bool             // the server has answered with the state
	earlier   bool             // its failure is that of an attempt before
	workState workState        // guarded by workers.mu
}

func newSession(r *Reflector, once bool) *session {
	return &session{r: r, began: moment.Now(), once: once, verb: r.verbs.next(once)}
}

// opens reports whether a stream follows the read, if that succeeds.
func (s *session) opens() bool {
	return s.verb == course.WatchList || s.verb == course.List && s.r.verbs.unwatched() == nil
}

// use makes verb that of the next request for the state, and begins the wait for its answer. It precedes runStream for
// the first one. Each request has a wait of its own: the one before it may have been answered late.
func (s *session) use(verb course.Verb) {
	s.verb = verb
	s.wait(s.afterSilence(s.verb.AnswerTimeout(s.r.member.Patience()), func(s *session) { s.end(failure.ErrNoAnswer) }))
}

// wait makes a timer the wait for an answer, in place of the one before. stop stops the timer.
func (s *session) wait(stop func()) {
	s.stopWaiting()
	s.stopWait = stop
}

// stopWaiting ends the wait for an answer.
func (s *session) stopWaiting() {
	if s.stopWait != nil {
		s.stopWait()
		s.stopWait = nil
	}
}

// finish ends the session, unless it has ended. It returns nil if all that the session
// has started has ended, or else a channel that is closed then.
func (s *session) finish(err error) (ended <-chan struct{}) {
	s.life.end(cmp.Or(err, errEnded))
	if s.stream != nil {
		closeStream(s.stream)
	}
	s.stopWaiting()
	return s.life.finishCalls()
}

// end ends the session. The first cause is kept; nil is a regular end. It may be called
// from any goroutine, with Reflector.mu held.
func (s *session) end(cause error) {
	if s.life.end(cmp.Or(cause, errEnded)) {
		s.r.gate.workers.add(s) // no goroutine waits for the parked stream
	}
}

// context returns the context that ends with the session, for a request.
func (s *session) context() context.Context {
	return s.life.context(s.r.ctx, &s.r.gate.counters, s.requestSent, s.partArrived)
}

// requestSent is called when a request was sent, or could not be: then it is sent again.
func (s *session) requestSent(err error) {
	if err == nil && s.r.progress.requestSent() {
		s.r.member.Sent()
	}
}

// partArrived is called when a part of an answer has arrived.
func (s *session) partArrived() {
	if first, is := s.r.progress.partArrived(); is {
		s.r.member.Arriving(first)
	}
}

// isOver reports whether the session was ended from this side.
func (s *session) isOver() bool { return s.life.cause() != nil }

// isParked reports whether the workers handle the stream.
func (s *session) isParked() bool { return s.life.isParked() }

// ask begins the request for the state. It returns the version to read at. Only WatchLists
// share consistent reads: the version of a list may be one that no watch cache has reached
// yet, and the request at that version would wait for it.
func (s *session) ask() (version string) {
	gate, shared := s.r.gate, consistentRead{}
	if s.verb == course.WatchList {
		shared = gate.reads.of(s.r.resource())
	}
	return s.r.progress.ask(gate.streams.restoreCount(), &gate.reads, shared)
}

// cause returns why the session ended, nil for a regular end.
func (s *session) cause() error {
	if err := s.life.cause(); !errors.Is(err, errEnded) {
		return err
	}
	return nil
}

// list lists the selection, at the version that progress chooses, and checks the
// list.
func (s *session) list() (list runtime.Object, version string, err error) {
	// Without options of its own a list is complete and not of any past: no limit, and not
	// version "0".
	asked := s.ask()
	if list, err = s.listAt(s.context(), asked); err != nil {
		return nil, "", err
	}
	if version, err = versionOf(list); err == nil {
		err = s.checkRead(version, asked)
	}
	return list, version, err
}

// itemsOf returns the objects in a list, if they are of the expected type.
func (s *session) itemsOf(list runtime.Object) (items []any, err error) {
	if items, err = itemsOf(list); err == nil {
		err = s.r.expected().checkAll(items)
	}
	return items, err
}

// listAt lists the selection at a version; an empty one asks for a consistent read. A
// source may panic.
func (s *session) listAt(ctx context.Context, version string) (list runtime.Object, err error) {
	defer redact.Panic(&err)
	list, err = s.r.source.List(ctx, metav1.ListOptions{ResourceVersion: version})
	return list, redact.Error(err)
}

// peek lists the selection, and the store gets nothing of it. A source may panic.
func (s *session) peek(ctx context.Context) (list runtime.Object, err error) {
	source, ok := s.r.source.(listwatch.Resumable)
	if !ok {
		return s.listAt(ctx, "")
	}
	defer redact.Panic(&err)
	list, err = source.Peek(ctx, metav1.ListOptions{})
	return list, redact.Error(err)
}

// watch opens a stream. A source may panic.
func (s *session) watch(options metav1.ListOptions) (stream listwatch.Stream, err error) {
	defer redact.Panic(&err)
	stream, err = s.r.source.Watch(s.context(), options)
	if err == nil && stream == nil {
		return nil, errNoStream
	}
	if err == nil {
		s.r.progress.streamOpened(s.r.counters)
	}
	return stream, redact.Error(err)
}

// closeStream closes a stream and ignores its failure.
func closeStream(stream listwatch.Stream) {
	var ignored error
	defer redact.Panic(&ignored)
	_ = stream.Close()
}

// check returns an error if an event does not belong to the selection.
func (s *session) check(event watch.Event) error {
	s.r.counters.countEvent(event.Type)
	if err := checkEvent(event); err != nil {
		return err
	}
	if err := s.r.expected().check(event.Object); err != nil || event.Type == watch.Bookmark {
		return err
	}
	return s.r.store.check(event.Object)
}

// checkRead checks the version of a complete read that is about to be stored, and that was
// asked for at a version. If it proves a restore of etcd, the store and the other reflectors of the
// gate are notified.
func (s *session) checkRead(version, asked string) error {
	if err := states.CheckVersion(version); err != nil {
		return err
	}
	if order, _ := states.CompareVersions(version, asked); order < 0 {
		return fmt.Errorf("%w: a read at a version that is older than the one asked for", cache.ErrMalformed)
	}
	restored, proves, known := s.r.progress.checkRead(version)
	if restored {
		s.r.store.newEpoch()
	}
	if proves {
		s.r.progress.restoreProved(s.r.gate.streams.prove(known))
	}
	return nil
}

// answered is called when the server has answered the read, by a list or a WatchList: others are
// admitted, and may read at its version, whatever the store does with it. It
// reports whether the selection can be watched, as far as is known.
func (s *session) answered(version string) (watchable bool) {
	s.state = true
	watchable = s.r.verbs.stored(s.verb, s.began.Since(), s.r.member.Patience()) || s.once
	read := s.r.progress.stateAnswered(version)
	if s.verb == course.WatchList {
		s.r.gate.reads.add(s.r.resource(), read)
	}
	s.stopWaiting()
	s.r.member.Answered()
	return watchable
}

// replace stores a complete read.
func (s *session) replace(items []any, version string) error {
	if err := s.r.store.checkRead(items, version); err != nil {
		return err
	}
	watchable := s.answered(version)
	if s.verb == course.WatchList {
		s.arrived = moment.Now() // the stream goes on while the store works with the state
	}
	if err := s.r.store.replace(items, version); err != nil {
		return err
	}
	s.stateStored(version, watchable)
	return nil
}

// stateStored follows the state's way into the store.
func (s *session) stateStored(version string, watchable bool) {
	s.r.progress.stateStored(version, watchable, s.once)
	s.r.member.Release(admission.Outcome{Kind: admission.Synced})
	s.r.gate.streams.add(s)
	if !s.once {
		s.r.refreshRestored(s.r.gate.streams.restoreCount()) // proved before s was added
	}
	s.r.changed()
	s.r.logRecovery(false)
}

// apply stores an event after the complete read. It had arrived at the given moment.
func (s *session) apply(event watch.Event, arrived moment.Moment) error {
	version, err := s.r.store.apply(event)
	if err != nil {
		return err
	}
	s.r.progress.contact(version, arrived)
	s.r.changed()
	return nil
}

// after calls f when the time has passed, unless stop is called before. The session
// waits for f.
func (s *session) after(timeout time.Duration, f func(*session)) (stop func()) {
	return s.startTimer(timeout, f, func(*session) time.Duration { return 0 })
}

// afterSilence is after, for a time in which no part of the answer to the request for the state arrives.
func (s *session) afterSilence(timeout time.Duration, f func(*session)) (stop func()) {
	return s.startTimer(timeout, f, func(s *session) time.Duration {
		last := s.r.progress.lastPart()
		if last == 0 {
			return 0
		}
		return timeout - last.Since()
	})
}

// startTimer calls f when the time has passed, and none is left.
//
// The runtime may keep a stopped timer, and all that its function refers to, for a
// long time. So stop makes the function refer to nothing: an object without
// references must not stay in memory.
func (s *session) startTimer(timeout time.Duration, f func(*session), left func(*session) time.Duration) (stop func()) {
	if !s.life.beginCall() {
		return func() {} // the session is over
	}
	var mu sync.Mutex
	var timer *time.Timer
	current := s
	mu.Lock()
	defer mu.Unlock()
	timer = time.AfterFunc(timeout, func() {
		mu.Lock()
		session := current
		if session != nil {
			if rest := left(session); rest > 0 {
				timer.Reset(rest)
				session = nil
			} else {
				current = nil
			}
		}
		mu.Unlock()
		if session != nil {
			defer session.life.endCall()
			f(session)
		}
	})
	return func() {
		timer.Stop()
		mu.Lock()
		defer mu.Unlock()
		if current != nil {
			current.life.endCall()
			current = nil
		}
	}
}

// initialEventsNotEnded ends the session: the initial events do not end in time.
func initialEventsNotEnded(s *session) {
	s.r.verbs.initialEventsNotEnded()
	s.end(failure.ErrNoBookmark)
}

// streamError returns the error of a stream. io.EOF is its regular end; a request
// that fails with io.EOF, because its connection was closed, never gets here.
func streamError(err error) error {
	if errors.Is(err, io.EOF) {
		return errEnded
	}
	return redact.Error(err)
}

// watchAnswered records the answer to the watch that follows a list.
func (s *session) watchAnswered(err error) {
	if s.r.verbs.watched(err) {
		s.r.progress.watchAllowed()
		s.r.changed()
		s.r.logRecovery(false)
	}
}
