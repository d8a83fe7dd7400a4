// SPDX-License-Identifier: Apache-2.0

package course

import (
	"errors"

	"github.com/refwatch/refwatch/internal/reflector/internal/admission"
	"github.com/refwatch/refwatch/internal/reflector/internal/failure"
	"github.com/refwatch/refwatch/internal/reflector/internal/moment"
)

// Why a session ends, and what follows from that. A session is the attempt to read the state, and the
// stream after it.

// Reason is why a session has ended.
type Reason uint8

const (
	// Done: the state was to be read once, and is stored.
	Done Reason = iota
	// Over: the reflector ends.
	Over
	// Dropped: Follow, Read or Pause was called.
	Dropped
	// Unread: the state is not stored.
	Unread
	// Restored: etcd was restored, and the state is of before that.
	Restored
	// Demanded: a caller needs a newer state.
	Demanded
	// Unwatched: a list or a GET has brought the state, and no watch after it works.
	Unwatched
	// Unopened: no stream is open after the state: the watch after a list has failed for the first time.
	Unopened
	// Replaced: the stream was silent, and has lost a change or may have.
	Replaced
	// Lost: the stream has failed, or has brought what cannot be used.
	Lost
	// Closed: the stream has ended without a failure, as each does within an hour.
	Closed
)

// Session is what is known of a session when it ends.
type Session struct {
	Since      moment.Moment // when its request was sent or, if Stored is set, when the state was stored; 0 before
	Answered   moment.Moment // when the server had answered with the state; 0 before
	Stored     bool          // the state is stored
	Consistent bool          // the request asked for a consistent read of its own
	Once       bool          // no stream was to follow
	Streaming  bool          // the stream is open
	Dropped    bool          // Follow, Read or Pause has ended it
	Demanded   bool          // it was ended for a newer state
	Restored   bool          // because etcd was restored
	Polled     bool          // no watch after the state works
	Earlier    bool          // its failure is that of an attempt before
	Over       bool          // the reflector ends
}

// End is the end of a session.
type End struct {
	Session
	Reason  Reason
	Failure failure.Failure // zero if nothing has failed
}

// EndOf returns the end of a session that has failed, or not.
func EndOf(s Session, f failure.Failure) End {
	if !s.Stored && !s.Over && !s.Dropped && f.Err == nil {
		f = failure.From(failure.ErrEndedEarly)
	}
	return End{s, s.reason(f), f}
}

func (s *Session) reason(f failure.Failure) Reason {
	switch {
	case s.Once && s.Stored:
		return Done
	case s.Over:
		return Over
	case s.Dropped && f.Err == nil:
		return Dropped
	case !s.Stored:
		return Unread
	case s.Restored:
		return Restored
	case s.Demanded:
		return Demanded
	case s.Polled:
		return Unwatched
	case !s.Streaming:
		return Unopened
	case f.Class == failure.Silent, f.Class == failure.Unverified:
		return Replaced
	case f.Err != nil:
		return Lost
	}
	return Closed
}

// IsLast reports whether no attempt follows that does the same.
func (e End) IsLast() bool { return e.Reason == Done || e.Reason == Over || e.Reason == Dropped }

// Outcome returns what it means for admission.
func (e End) Outcome() admission.Outcome {
	outcome := e.Failure.Outcome()
	switch {
	case e.Reason == Dropped && e.Since != 0:
		return admission.Outcome{Kind: admission.GivenUp}
	case e.IsLast():
		return admission.Outcome{}
	case e.IsDemanded():
		outcome.Kind = admission.Answered
	case e.Reason == Unwatched, e.Earlier: // however the watch failed
		outcome.Kind = admission.Refused
	}
	if e.Earlier { // the attempt before has waited
		outcome.RetryAfter = 0
	}
	return outcome
}

// IsDemanded reports whether the session was ended for a newer state.
func (e End) IsDemanded() bool { return e.Reason == Restored || e.Reason == Demanded }

// IsHarmless reports whether the stream has failed, and nothing is wrong with the object: another one opens
// at once. The log has such an end at level 2 only. If the next attempt fails, that is a line at level 0.
func (e End) IsHarmless() bool {
	switch e.Reason {
	case Restored, Demanded, Replaced, Lost:
		return e.Streaming && e.Failure.Class.EndsStreams()
	}
	return false
}

// IsClosed reports whether the server, a proxy or the network has ended the stream.
func (e End) IsClosed() bool {
	return e.Reason == Closed || e.Reason == Lost && e.Failure.Class.EndsStreams()
}

// IsBehind reports whether the server does not have the version that the request asked for.
func (e End) IsBehind() bool { return e.Failure.Class == failure.TooLarge && !e.Consistent }

// IsUrgent reports whether the next attempt must begin soon: a caller waits for it, or it may prove a restore of
// etcd, which concerns all.
func (e End) IsUrgent() bool { return e.IsDemanded() || !e.IsLast() && e.IsBehind() }

// IsUnanswered reports whether the request for the state had no answer in time.
func (e End) IsUnanswered() bool {
	return e.Answered == 0 && errors.Is(e.Failure.Err, failure.ErrNoAnswer)
}
