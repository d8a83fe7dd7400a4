// SPDX-License-Identifier: Apache-2.0

package reflector

import (
	"math/rand/v2"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"

	"github.com/refwatch/refwatch/internal/redact"
	"github.com/refwatch/refwatch/internal/reflector/internal/course"
	"github.com/refwatch/refwatch/internal/reflector/internal/failure"
	"github.com/refwatch/refwatch/internal/reflector/internal/moment"
)

// How a session with a goroutine reads the state and the changes after it.

// runStream reads the state in its goroutine. Then it parks the stream, if it can. Else it
// reads the stream, and needs no other goroutine: it blocks for hours in Next. Few frames
// stand above Next on the stack, for the runtime shrinks a stack only if less than a
// quarter of it is in use.
func (s *session) runStream() (parked bool, err error) {
	defer redact.Panic(&err)
	if err = s.readState(); err == nil && s.park() {
		return true, nil
	}
	for err == nil && !s.once && !s.isOver() {
		err = s.handleNow(s.stream.Next())
	}
	return false, err
}

// handleNow is handle for what Next has just returned.
func (s *session) handleNow(event watch.Event, end error) error {
	return s.handle(event, end, moment.Now())
}

// handle stores an event that had arrived at the given moment, or returns why the session ends. The
// store may panic.
func (s *session) handle(event watch.Event, end error, arrived moment.Moment) (err error) {
	defer redact.Panic(&err)
	if end != nil {
		return streamError(end)
	}
	if err := s.check(event); err != nil {
		if event.Type == watch.Bookmark {
			return nil // as for client-go; it is no contact, so a stream that brings no other one is silent
		}
		return err
	}
	return s.apply(event, arrived)
}

// readState stores the state, and leaves the stream open that delivers the changes
// after it. Each verb is tried once. If verbs fail one after the other, readState returns why the first one was
// refused: a caller may lack the right to it.
func (s *session) readState() (err error) {
	if resumed, err := s.resume(); resumed || err != nil {
		return err
	}
	var refusal error
	var tried [course.VerbCount]bool
	for {
		tried[s.verb] = true
		other, goOn, f := s.readFailed(s.read())
		if !goOn || tried[other] {
			if f.Err != nil && refusal != nil && !s.state && f.Class != failure.Throttled {
				return refusal
			}
			return f.Err
		}
		if refusal == nil && s.verb == course.WatchList && course.FaultOf(f, false) == course.Refused {
			refusal = f.Err
		}
		s.use(other)
	}
}

// read stores the state with the verb of the session.
func (s *session) read() error {
	switch s.verb {
	case course.List:
		return s.readList()
	case course.Get:
		return s.readObject()
	default:
		return s.readWatchList()
	}
}

// readWatchList stores what a WatchList brings first, and leaves it open.
func (s *session) readWatchList() error {
	options := s.watchListOptions()
	if err := s.open(options); err != nil {
		return err
	}
	items, version, err := s.readInitialEvents()
	if err == nil {
		err = s.checkRead(version, options.ResourceVersion)
	}
	if err != nil {
		return err
	}
	return s.replace(items, version)
}

// readList stores a list and opens the watch that follows it.
func (s *session) readList() error {
	list, version, err := s.list()
	if err != nil {
		return err
	}
	items, err := s.itemsOf(list)
	if err != nil {
		return err
	}
	if err := s.replace(items, version); err != nil || s.once {
		return err
	}
	return s.watchFrom(version)
}

// watchFrom opens the watch that follows a list.
func (s *session) watchFrom(version string) error {
	if err := s.r.verbs.unwatched(); err != nil {
		s.earlier = true
		return err
	}
	if s.isOver() { // what OnChange has done with the state
		return errEnded
	}
	s.wait(s.after(course.WatchTimeout, func(s *session) {
		s.watchAnswered(failure.ErrNoAnswer)
		s.end(failure.ErrNoAnswer)
	}))
	err := s.open(watchOptions(version))
	s.stopWaiting()
	if err == nil || !s.isOver() {
		s.watchAnswered(err)
	}
	return err
}

// open opens the stream on a goroutine that ends with it: a request makes a stack
// grow, and a stack that has grown stays so while it is in use.
func (s *session) open(options *metav1.ListOptions) error {
	err := errNoStream // if the source ends the goroutine
	opened := make(chan struct{})
	go func() {
		defer close(opened)
		s.stream, err = s.watch(*options)
	}()
	<-opened
	return err
}

// readInitialEvents reads the stream up to the bookmark that ends its initial events.
func (s *session) readInitialEvents() (items []any, version string, err error) {
	defer redact.Panic(&err)
	s.wait(s.afterSilence(course.ShortAnswerTimeout, initialEventsNotEnded))
	defer s.stopWaiting()
	state := initialState{}
	for complete, first := false, true; !complete; first = false {
		event, err := s.stream.Next()
		if first { // a change of the object is no sign of the bookmark
			s.wait(s.after(course.ShortAnswerTimeout, initialEventsNotEnded))
		}
		if err != nil {
			return nil, "", streamError(err)
		}
		if err := s.check(event); err != nil {
			return nil, "", err
		}
		if version, complete, err = state.add(event); err != nil {
			return nil, "", err
		}
	}
	return state.items(), version, nil
}

// watchListOptions asks for the state and then the changes, at the version that
// progress chooses (KEP-3157).
func (s *session) watchListOptions() *metav1.ListOptions {
	options := watchOptions(s.ask())
	options.SendInitialEvents = ptr.To(true)
	options.ResourceVersionMatch = metav1.ResourceVersionMatchNotOlderThan
	return options
}

func watchOptions(version string) *metav1.ListOptions {
	return &metav1.ListOptions{
		ResourceVersion:     version,
		AllowWatchBookmarks: true,
		TimeoutSeconds:      ptr.To(int64((shortestStream + rand.N(longestStream-shortestStream)).Seconds())),
	}
}
