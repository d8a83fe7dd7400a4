// SPDX-License-Identifier: Apache-2.0

package reflector

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"sync/atomic"
	"time"

	"k8s.io/client-go/util/flowcontrol"

	"github.com/refwatch/refwatch/reflector/internal/admission"
)

// defaultOpens is how many streams of one client may be opening at once.
const defaultOpens = 32

// GateOptions changes how a [Gate] works. The zero value is valid.
type GateOptions struct {
	// Opens is how many streams of healthy reflectors may be opening at once at
	// most: asked for, but not yet synced. One that takes much longer than usual
	// counts no longer. Reflectors that fail have 8 more. Default, also for a
	// negative number: 32.
	Opens int
}

// Gate decides which reflectors may open a stream now, and shares what one of
// them has proved of the server. One Gate is shared by all reflectors that reach
// one server with one client, so that neither a start with ten thousand references
// nor the return of the server is a storm.
//
// Healthy reflectors wait for healthy ones only:
//
//   - A bounded number of streams is being opened at a time. For each resource it is
//     four at first, grows by one with each success, and is one again after a 429.
//     An opening that takes much longer than usual (0.25 to 5 s) counts no longer.
//   - Reflectors that a caller waits for ([Reflector.Retry]) go first by weight: half
//     of the openings are theirs. That holds for one attempt each.
//   - A reflector that fails has a lane of its own with those that fail: together
//     they make at most 20 attempts a second, 160 while callers wait for them. Each
//     pauses between its attempts: 0.1 s at first, 15 s later, 1.1 to 1.6 s while
//     callers wait, and never less than the server's Retry-After, up to a minute.
//
// What is the server's fault holds up all, and costs the server little:
//
//   - The server is away when several reflectors that were synced before reach it
//     no more. The server then sees one probe at a time, 0.25 to 5 s apart. When a
//     probe is answered, all others follow.
//   - The same holds for one resource whose requests fail (5xx, no answer, 429), and
//     for a token that is not valid (401).
//   - A server that was rolled back (an etcd restore) is noticed once: all others
//     then begin with a consistent read.
//   - What one reflector has learned of the server's WatchList is known to all that
//     follow objects of the same resource.
//   - Streams that have been silent for too long are verified; see [Reflector].
//
// A Gate holds no goroutine. Make one with [NewGate].
type Gate struct {
	admission *admission.Controller
	silence   silence
	rollbacks rollbacks
	failures  flowcontrol.PassiveRateLimiter // bounds the lines that are logged

	known knowledge // of WatchList

	reflectors atomic.Uint64 // how many there were
}

// GateStatus is what a [Gate] knows of itself at one moment.
type GateStatus struct {
	// Opening is how many streams are being opened. Queued is how many reflectors
	// wait for others, Paused how many make a pause after a failure or the end of
	// a stream.
	Opening, Queued, Paused int
	// Cause is why the server, or a resource, cannot be reached by any reflector;
	// nil while all is well.
	Cause error
	// CauseTime is when that was last seen.
	CauseTime time.Time
}

// NewGate returns a gate that no reflector uses yet.
func NewGate(options GateOptions) *Gate {
	return &Gate{
		admission: admission.New(cmp.Or(max(0, options.Opens), defaultOpens)),
		silence:   silence{streams: map[*Reflector]struct{}{}},
		failures:  flowcontrol.NewTokenBucketPassiveRateLimiter(loggedFailuresPerSecond, loggedFailures),
	}
}

// Status returns what the gate knows of itself.
func (g *Gate) Status() GateStatus {
	return GateStatus(g.admission.Status())
}

// ErrWaiting is what Status.Waiting is about: no request is under way, for the
// reason that it adds.
var ErrWaiting = errors.New("waiting")

// waitingError says why a reflector waits.
func waitingError(w admission.Waiting) error {
	switch {
	case w.Kind == admission.Unauthorized:
		return fmt.Errorf("%w for a token that the server accepts", ErrWaiting)
	case w.Kind == admission.Unreachable:
		return fmt.Errorf("%w for the server", ErrWaiting)
	case w.Kind != admission.Canceled:
		return fmt.Errorf("%w for the server to serve other objects of this resource", ErrWaiting)
	case time.Now().Before(w.RetryAfter):
		return fmt.Errorf("%w for %v, as the server asked (Retry-After)", ErrWaiting, timeUntil(w.RetryAfter))
	case !w.Until.IsZero():
		return fmt.Errorf("%w for %v before the next attempt", ErrWaiting, timeUntil(w.Until))
	}
	return fmt.Errorf("%w for admission: %d objects of this resource are in line", ErrWaiting, w.Queued)
}

func timeUntil(at time.Time) time.Duration { return time.Until(at).Round(100 * time.Millisecond) }

// sharedError is a failure of others that a reflector shares. The error may name
// an object that another reflector asked for.
func sharedError(w admission.Waiting) error {
	cause := w.Cause
	var request *url.Error
	if errors.As(cause, &request) {
		cause = request.Err
	}
	switch w.Kind {
	case admission.Unreachable:
		return fmt.Errorf("no reflector reaches the server: %w", cause)
	case admission.Unauthorized:
		return cause
	}
	return fmt.Errorf("no object of this resource can be read: %w", cause)
}
