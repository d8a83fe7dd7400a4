// SPDX-License-Identifier: Apache-2.0

package reflector

import (
	"errors"
	"fmt"
	"time"

	"github.com/refwatch/refwatch/internal/reflector/internal/admission"
	"github.com/refwatch/refwatch/internal/reflector/internal/failure"
)

// Status is the state of a reflector at one moment. It holds no object data.
type Status struct {
	// Synced is set once a complete read has reached the store. Follow and Read clear it;
	// Pause does not.
	Synced bool
	// ResourceVersion is the highest version seen since the last rollback of the server: of a read, an event or a
	// bookmark. Empty before the first.
	ResourceVersion string
	// LastContact is when the server last sent a complete read, an event or a bookmark that the store has. Zero
	// before the first.
	LastContact time.Time
	// Streaming is set while a stream is open whose state has reached the store: it
	// delivers the changes.
	Streaming bool
	// NotUpdatedSince is since when changes may be missing in the store: the last stream ended then, Follow
	// or Read began, or a list has shown a change that the stream does not deliver. If a list has reached
	// the store since, it is the time of that list. Zero while a stream delivers the changes, once a Read is
	// done, and before the first state without a call of Follow or Read.
	NotUpdatedSince time.Time
	// Parked is set while that stream has no goroutine: see the documentation of the package.
	Parked bool
	// Polled is set while lists or GETs work, and watches do not. The selection is then read again
	// at the pace of the back-off, and LastError is that of the watch.
	Polled bool
	// AskedAt is when the source was asked for the state, until that is stored; else zero. The
	// source may hold a request back, for instance in a rate limiter.
	AskedAt time.Time
	// AnsweredAt is when the source answered that request, until the state is stored; else zero.
	AnsweredAt time.Time
	// Arriving is set once a part of that answer has arrived, until the state is stored.
	Arriving bool
	// GiveUpAt is when a call of [Reflector.Expedite] ends the attempt under way. It is zero
	// if no attempt is under way, or if the server has begun to answer.
	GiveUpAt time.Time
	// Hung is set while the answer to the attempt under way is late: after four times the usual
	// for the resource, but not less than 0.25 s, and not more than the longest of 5 s, four RoundTrips and twice the
	// usual. It is also set while the store has taken longer than a second for the answer.
	Hung bool
	// RoundTrip is the least time until an answer of the server in the last minutes in which it answered, 8 s at most,
	// and 0 before its first answer.
	RoundTrip time.Duration
	// ReadFor is the highest number that was given to [Reflector.ReadFor] before the
	// last consistent read began.
	ReadFor uint64
	// Failures counts the attempts that failed since the last complete read; 0 means
	// that all is well.
	Failures int
	// LastError is the cause of the last failure, and LastErrorTime its time. Both are kept when all is well
	// again. If it is a 404, the path is not served: that says nothing about an object.
	LastError     error
	LastErrorTime time.Time
	// Away is set while this reflector waits because no reflector can reach the
	// server, or the resource. LastError is then the newest failure of any of them.
	Away bool
	// OutageSince is since when no reflector can reach the server, or the resource, and OutageCause why; zero if they
	// can, if the token is refused, and while the stream is open. Unreachable says that it is the server which nobody
	// can reach.
	OutageSince time.Time
	OutageCause error
	Unreachable bool
	// FailedAt is when an attempt of this reflector itself last failed; zero if none did.
	FailedAt time.Time
	// Waiting is why no request is under way, a [WaitingError]; nil while
	// one is, while the stream is open, and after Pause.
	Waiting error
	// RetryAfter is the time before which the server asked for no other attempt
	// (Retry-After), while this reflector waits for it; else zero or past.
	RetryAfter time.Time
	// RefusedSince is when the server began to answer every attempt with 401, 403 or another refusal (4xx),
	// of watches while Polled is set; zero if the last answer was none.
	RefusedSince time.Time
	// Malformed counts the streams and reads that were given up because of what they
	// delivered, or because the source or the store panicked.
	Malformed uint64
}

// ErrWaiting is what errors.Is finds in Status.Waiting: no request is under way, for the reason
// that the error adds.
var ErrWaiting = errors.New("waiting")

// ErrNoAnswer is the failure of an attempt without an answer.
var ErrNoAnswer = failure.ErrNoAnswer

// WaitingError is why no request is under way. Its text is the same as long as the reason is.
type WaitingError struct {
	// Until is when the wait for a time is over; zero while the reflector waits for something else.
	Until time.Time
	// Queued is how many reflectors of the resource are queued, itself included; 0 while it is not one of them.
	Queued int

	reason error
}

// Error returns the reason.
func (e *WaitingError) Error() string { return e.reason.Error() }

// Unwrap returns an error that wraps [ErrWaiting].
func (e *WaitingError) Unwrap() error { return e.reason }

// wait adds why the reflector waits. While the server or the resource is in an
// outage, the failure of the others is also this reflector's.
func (s *Status) wait(w admission.Waiting) {
	s.Waiting, s.RetryAfter, s.Away = waitingError(w), w.RetryAfter, w.Cause != nil
	if !s.Away || !w.At.After(s.LastErrorTime) {
		return
	}
	s.Failures = max(1, s.Failures)
	s.LastError, s.LastErrorTime, s.Polled = w.Cause, w.At, false
	s.RefusedSince = time.Time{}
	if w.Kind == admission.Unauthorized {
		s.RefusedSince = w.Since
	}
}

// waitingError says why a reflector waits.
func waitingError(w admission.Waiting) error {
	switch {
	case w.Kind == admission.Unauthorized:
		return &WaitingError{reason: errCredentials}
	case w.Kind == admission.Unreachable:
		return &WaitingError{reason: errServer}
	case w.Kind != admission.Canceled:
		return &WaitingError{reason: errResource}
	case time.Now().Before(w.RetryAfter):
		return &WaitingError{Until: w.RetryAfter, reason: errRetryAfter}
	case !w.Until.IsZero():
		return &WaitingError{Until: w.Until, reason: errPause}
	}
	return &WaitingError{Queued: w.Queued, reason: errQueued}
}

// What reflectors wait for.
var (
	errCredentials = fmt.Errorf("%w for credentials that the server accepts", ErrWaiting)
	errServer      = fmt.Errorf("%w for the server", ErrWaiting)
	errResource    = fmt.Errorf("%w for the server to serve other objects of this resource", ErrWaiting)
	errRetryAfter  = fmt.Errorf("%w, as the server asked (Retry-After)", ErrWaiting)
	errPause       = fmt.Errorf("%w for the next attempt", ErrWaiting)
	errQueued      = fmt.Errorf("%w for admission: other objects of this resource are queued", ErrWaiting)
)
