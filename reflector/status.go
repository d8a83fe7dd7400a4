// SPDX-License-Identifier: Apache-2.0

package reflector

import (
	"time"
)

// Status is what a reflector can tell of itself at one moment. It holds no
// object data.
type Status struct {
	// Synced is set once a first complete read has reached the store.
	Synced bool
	// ResourceVersion is the highest version seen in this epoch, of a read, an
	// event or a bookmark; empty before the first.
	ResourceVersion string
	// LastContact is when the server last told something about the selection:
	// a completed read, an event or a bookmark. Zero before the first.
	LastContact time.Time
	// Opens counts the attempts that were begun: a stream opened, or a list.
	Opens uint64
	// Streaming tells that a stream is open whose state has reached the store:
	// changes will come by it.
	Streaming bool
	// AskedAt is when the request for the state that is under way was sent; zero
	// when none is.
	AskedAt time.Time
	// ReadFor is the highest number that was given to [Reflector.ReadFor] before
	// the last consistent read began.
	ReadFor uint64
	// Failures counts the attempts that have failed since the last completed
	// read; 0 means that all is well.
	Failures int
	// LastError is the cause of the last failure, as the source gave it. It is
	// kept when all is well again.
	LastError error
	// LastErrorTime is when that was.
	LastErrorTime time.Time
	// Away says that LastError is what others failed with: the server, or the
	// resource, cannot be reached by any reflector, and this one waits.
	Away bool
	// FailedAt is when an attempt of this reflector itself last failed, zero if none
	// did.
	FailedAt time.Time
	// Waiting is why no request is under way, [ErrWaiting] with a reason; nil while
	// one is, or while the stream is open.
	Waiting error
	// RefusedSince is when the server began to answer every attempt with a
	// refusal ([Forbidden] or [Refused]); zero when the last answer was no
	// refusal.
	RefusedSince time.Time
	// Epochs counts the times the server was found rolled back.
	Epochs uint64
	// Malformed counts the streams and reads given up for what they brought.
	Malformed uint64
}

// Class returns the class of the current failure, and [None] when all is well.
func (s Status) Class() Class {
	if s.Failures == 0 {
		return None
	}
	return Classify(s.LastError)
}

// synced notes a completed read at a version.
func (s *Status) synced(version string, now time.Time) {
	s.Synced = true
	s.ResourceVersion = version
	s.LastContact = now
	s.Failures = 0
	s.RefusedSince = time.Time{}
}

// failed notes an attempt that ended with an error.
func (s *Status) failed(err error, now time.Time) {
	class := Classify(err)
	s.Failures++
	s.LastError, s.LastErrorTime, s.FailedAt = err, now, now
	switch {
	case !class.refusal():
		s.RefusedSince = time.Time{}
	case s.RefusedSince.IsZero():
		s.RefusedSince = now
	}
	if class == Malformed {
		s.Malformed++
	}
}

// shared notes what all reflectors fail with, since then and until now, and this
// one will.
func (s *Status) shared(err error, since, at time.Time) {
	s.Failures = max(1, s.Failures)
	s.LastError, s.LastErrorTime, s.Away = err, at, true
	s.RefusedSince = time.Time{}
	if Classify(err).refusal() {
		s.RefusedSince = since
	}
}
