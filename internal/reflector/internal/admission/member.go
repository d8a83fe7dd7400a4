// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"container/list"
	"time"

	"github.com/refwatch/refwatch/internal/reflector/internal/moment"
)

const (
	// minExpeditedPause and maxExpeditedPause bound the pause of a member that a caller waits for, from the end of
	// its last attempt on.
	minExpeditedPause, maxExpeditedPause = 1100 * time.Millisecond, 1600 * time.Millisecond
	// newestDeadline is how long the newest member of a resource waits for its first attempt at most, whatever others
	// fail with. expeditedDeadline is the same for one that a caller waits for.
	newestDeadline, expeditedDeadline = 2 * time.Second, 300 * time.Millisecond
)

// stableStream is how long a stream must live for the pause after it to be a first one. Servers and proxies that close
// every stream at once are therefore asked less and less often.
const stableStream = 10 * time.Second

// cutStream is how long a stream must live for the pause after it to be half of that at most. A server that cuts
// streams every few seconds costs few requests, and they are soon back once it stops.
const cutStream = 2 * time.Second

// mostRepeats is up to how many short streams, and members that followed each other, are counted. A pause is longest
// long before.
const mostRepeats = 64

// state is the state of a member. docs/design/0004-admission.md has the diagram.
type state uint8

const (
	idle     state = iota // no Acquire is waiting, and no attempt is under way
	paused                // waits for a time
	queued                // waits for other members
	opening               // its attempt is under way and counts
	arriving              // so it is, and a part of the answer has arrived
	hung                  // its attempt is under way and counts no longer
	answered              // Answered was called: its attempt ends when its caller has used the answer
	resting               // Rest was called
	left                  // Leave was called
)

// class is the reason why a member is queued. Each lane has a queue for each class.
type class uint8

const (
	expedited class = iota // a caller waits for it
	returning              // it has synced before
	unsynced               // it has never synced
	classes
)

// member is the state of a [Member]. Its fields are guarded by Controller.mu.
type member struct {
	resource *resource
	observer Observer // may be nil

	state           state
	expedited       bool   // Expedite was called since the last attempt
	synced          bool   // an attempt has synced
	resumed         bool   // has rested since its last success
	attempted       bool   // an attempt has begun
	failing         bool   // belongs to the lane of failing members
	failingAttempt  bool   // its attempt under way began in that lane
	reserved        bool   // is in the reserve of its resource
	reservedAttempt bool   // its last attempt began from there
	retried         bool   // its pause was ended early since it last synced
	shortStreams    uint8  // streams in a row that lived for less than stableStream, up to mostRepeats
	restarts        uint8  // see Past
	failures        uint32 // failed attempts in a row
	index           uint32 // in the schedule, from 1 on; 0 if it is not there

	proceed func()        // called, with the lock held, when the member is admitted or leaves
	queue   *list.List    // the queue it is in, nil if none
	element *list.Element // its place there

	due moment.Moment // when it leaves the schedule; since when it is queued

	began      moment.Moment // when the last attempt began
	sent       moment.Moment // when its request was sent, as far as is known
	ended      moment.Moment // when the last attempt, or the stream after it, ended
	pause      time.Duration
	retryAfter moment.Moment // the server asked for no request before
}

// class returns the reason why the member is queued.
func (m *member) class() class {
	switch {
	case m.expedited:
		return expedited
	case m.synced:
		return returning
	}
	return unsynced
}

// setPause begins the pause before the member's next attempt.
func (m *member) setPause(pause, retryAfter time.Duration, now moment.Moment) {
	m.ended, m.pause, m.retryAfter = now, pause, 0
	if retryAfter > 0 {
		m.retryAfter = now.Add(honored(retryAfter))
	}
}

// streamEnded begins the pause after a stream that lived for so long.
func (m *member) streamEnded(lived time.Duration, outcome Outcome, now moment.Moment) {
	if m.shortStreams = min(m.shortStreams+1, mostRepeats); lived >= stableStream {
		m.shortStreams = 1
	}
	pause := memberBackoff.pause(uint32(m.shortStreams))
	if lived >= cutStream {
		pause = min(pause, lived/2)
	}
	switch outcome.Kind {
	case Answered: // the next attempt sends another request
		pause = max(0, pause-lived)
	case Refused: // the server serves the list, but not the watch
		m.failing = true
	}
	m.setPause(pause, outcome.RetryAfter, now)
}

// pauseEnd returns when the member's pause ends. A caller that waits shortens a long pause, but not a Retry-After.
func (m *member) pauseEnd() moment.Moment {
	pause := m.pause
	if m.expedited {
		pause = min(pause, between(minExpeditedPause, maxExpeditedPause))
	}
	return max(m.ended.Add(pause), m.retryAfter)
}

// failedAlone reports whether the last failure of m was its own: others of its resource have succeeded since. A failure
// without a pause, as of an expired resource version, is no reason to think so.
func (m *member) failedAlone() bool {
	return m.failures > 0 && m.pause > 0 && m.resource.lastSuccess.After(m.ended)
}

// cameAlone reports whether m made its last attempt as one of few members: then its failure says little about the
// others.
func (m *member) cameAlone() bool {
	return m.reservedAttempt && m.resource.reserve.crowdAt.Before(m.began.Add(-crowdTime))
}

// sameResource reports whether both members belong to one resource.
func (m *member) sameResource(other *member) bool { return m.resource == other.resource }

// endWait ends the wait of a member for its admission.
func (m *member) endWait() {
	m.proceed()
	m.proceed = nil
}

// dequeue removes the member from its queue, if it is in one.
func (m *member) dequeue() {
	if m.queue != nil {
		m.queue.Remove(m.element)
		m.queue, m.element = nil, nil
	}
}
