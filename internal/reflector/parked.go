// SPDX-License-Identifier: Apache-2.0

package reflector

import (
	"k8s.io/apimachinery/pkg/watch"

	"github.com/refwatch/refwatch/internal/h2"
	"github.com/refwatch/refwatch/internal/redact"
	"github.com/refwatch/refwatch/internal/reflector/internal/moment"
	"github.com/refwatch/refwatch/internal/reflector/listwatch"
)

// How a session parks its stream, and handles what arrives for it.

// eventsPerTurn is how many events of one session a worker handles before other sessions
// have their turn.
const eventsPerTurn = 16

// park lets the workers of the gate handle the stream, if it can be parked. The caller's
// goroutine has no part in the session any more.
func (s *session) park() bool {
	if s.once {
		return false // it ends at once
	}
	stream, ok := s.stream.(listwatch.Parkable)
	if !ok {
		s.r.gate.unparked.add(s.r, errDecodes)
		return false
	}
	if !s.parkStream(stream) {
		s.r.gate.unparked.add(s.r, h2.WhyNoBody(s.context()))
		return false
	}
	s.r.progress.streamParked(s.r.counters)
	s.r.gate.workers.join()
	s.life.park()
	s.Wake(false) // a Wake or an end during Park found no parked session
	return true
}

// parkStream parks the stream. A source may panic.
func (s *session) parkStream(stream listwatch.Parkable) (parked bool) {
	var ignored error // Next returns one
	defer redact.Panic(&ignored)
	return stream.Park(s)
}

// Wake implements [listwatch.Waker]: the stream has something. With Options.Prompt, something
// small is handled on the goroutine that reads the connection. With a worker it takes twice the
// CPU, because waking the worker costs as much as the event.
func (s *session) Wake(small bool) {
	if small && s.r.prompt {
		s.r.gate.workers.work(s)
	} else {
		s.r.gate.workers.add(s)
	}
}

// TakeBookmark implements [listwatch.Waker].
func (s *session) TakeBookmark(version string) (taken bool) {
	taker, ok := s.r.store.Store.(BookmarkTaker)
	if !ok || s.r.store.resyncer != nil || s.r.expected() != nil {
		return false
	}
	var err error
	s.life.whileParked(func() {
		defer redact.Panic(&err)
		s.r.progress.contact(version, moment.Now())
		taken = taker.TakeBookmark(version)
	})
	if err != nil {
		s.end(err)
		return true
	}
	if taken {
		s.r.counters.countEvent(watch.Bookmark)
	}
	return taken
}

// work handles what a parked stream has. One worker at a time calls it, or the goroutine that
// reads the connection, if reading is set.
func (s *session) work(reading bool) {
	if !s.isParked() {
		return // the session has ended before
	}
	began := moment.Now()
	if s.arrived == 0 {
		s.arrived = began // a store that blocks makes nothing that waits behind it newer than this
	}
	for range eventsPerTurn {
		if s.isOver() {
			s.unpark(nil, reading)
			return
		}
		event, ok, err := s.tryNext()
		if !ok && err == nil {
			s.arrived = 0
			return // until the next Wake
		}
		if err = s.handle(event, err, s.arrived); err != nil {
			s.unpark(err, reading)
			return
		}
	}
	s.arrived = began // what was there then is handled, unless more than eventsPerTurn waited
	s.Wake(false)
}

// tryNext returns what the stream has. A source may panic.
func (s *session) tryNext() (event watch.Event, ok bool, err error) {
	defer redact.Panic(&err)
	return s.stream.(listwatch.Parkable).TryNext()
}

// unparked ends the part of the workers in the session.
func (s *session) unparked() {
	if s.life.unpark() {
		s.r.gate.workers.leave()
	}
}

// unpark ends the session. A worker must not wait for what the session has started. The goroutine
// that reads the connection does not wait for a logger, either.
func (s *session) unpark(err error, reading bool) {
	s.unparked()
	if reading {
		go s.conclude(err)
		return
	}
	ended := s.finish(err)
	if ended == nil && s.r.store.resyncer == nil {
		s.r.next(s)
		return
	}
	go func() {
		if ended != nil {
			<-ended
		}
		s.r.next(s)
	}()
}
