// SPDX-License-Identifier: Apache-2.0

package reflector

import (
	"cmp"
	"container/list"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// defaultOpens is how many streams of one client may be opening at once.
	defaultOpens = 32
	// firstOpens is with how many it begins. One that hangs would be all, if it
	// were one.
	firstOpens = 4
	// longestTurn is how long a turn counts. What hangs, as some proxies let
	// requests do, must not hang the others.
	longestTurn = 30 * time.Second
)

// GateOptions changes how a [Gate] works. The zero value is valid.
type GateOptions struct {
	// Opens is how many streams may be opening at once at most: asked for, but
	// not yet synced. Default: 32.
	Opens int
}

// Gate decides who may open a stream now. One is shared by all reflectors that
// reach one server with one client, so that neither a start with ten thousand
// references nor the return of the server is a storm:
//
//   - A bounded number of streams is being opened at a time; the others queue.
//     It is four at first, grows by one with each answer, and is one when the
//     server fails or asks for patience: what a loaded server bears is found
//     out, and many clients share it.
//   - Those that somebody waits for ([Reflector.Retry]) go first. An opening
//     that takes more than 30 s counts no longer.
//   - When the server cannot be reached, or asks for patience (429), one
//     reflector at a time probes: after 0.25 to 0.5 s at first, later 2.5 to 5 s
//     apart, and not before the Retry-After of any answer, up to a minute. When
//     a probe is answered, all others follow at once, through the queue.
//   - What a single reflector fails at, as with an object that the server cannot
//     read, holds up nobody else.
//   - What one reflector has learnt of the server's WatchList is known to all
//     that follow objects of the same resource.
//   - Streams that have been silent for too long are verified; see [Reflector].
//
// A gate holds no goroutine. Make one with [NewGate].
type Gate struct {
	most    float64       // bounds window
	members atomic.Uint64 // how many reflectors there were

	mu      sync.Mutex
	begun   list.List // of *turn that count, in order
	urgent  list.List // of *turn that wait, in order: somebody waits for them
	others  list.List // of *turn that wait, in order
	window  float64   // how many may begun hold, from 1 on
	steady  float64   // from here on window grows by one a round
	retryAt time.Time // the server asked not to be asked before
	timer   *time.Timer
	outage  outage
	answers uint64                  // turns that ended with an answer of the server
	known   knowledge               // has a lock of its own
	streams map[*Reflector]struct{} // those whose silence is watched
	watch   *time.Timer
}

// outage is how things are while the server is down.
type outage struct {
	cause   error // of the last failure; nil: the server is up
	at      time.Time
	witness uint64 // the reflector that failed first
	certain bool   // another one has failed as well
	pauses  backoff
	probeAt time.Time // not before
	probe   *turn     // the one under way
	probes  int
}

// GateStatus is what a [Gate] can tell of itself at one moment.
type GateStatus struct {
	// Opening is how many streams are being opened, Queued how many wait to be.
	Opening, Queued int
	// Cause is why the server was last not reached, nil while it answers.
	Cause error
	// CauseTime is when that was.
	CauseTime time.Time
}

// NewGate returns a gate through which nobody has gone yet.
func NewGate(options GateOptions) *Gate {
	most := float64(max(1, cmp.Or(options.Opens, defaultOpens)))
	return &Gate{
		most:    most,
		window:  min(firstOpens, most),
		steady:  math.Inf(1),
		streams: map[*Reflector]struct{}{},
	}
}

// Status tells how things are.
func (g *Gate) Status() GateStatus {
	g.mu.Lock()
	defer g.mu.Unlock()
	return GateStatus{
		Opening:   g.begun.Len(),
		Queued:    g.urgent.Len() + g.others.Len(),
		Cause:     g.outage.cause,
		CauseTime: g.outage.at,
	}
}

// away returns why nobody reaches the server, as far as that is about the server
// and not about what one reflector asked for, and when that was last seen.
func (g *Gate) away() (seen time.Time, why error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	cause := g.outage.cause
	if !g.outage.certain || statusCode(cause) == http.StatusInternalServerError {
		return time.Time{}, nil
	}
	var request *url.Error // which names an object that somebody else asked for
	if errors.As(cause, &request) {
		cause = request.Err
	}
	return g.outage.at, fmt.Errorf("nobody reaches the server: %w", cause)
}

// admitLocked begins the turns that may begin now, and sees to it that it is
// called again in time for the others.
func (g *Gate) admitLocked() {
	g.discountLocked()
	for {
		next, at := g.pickLocked()
		if next == nil {
			return
		}
		if g.begun.Len() >= int(g.window) || g.outage.probe != nil {
			if oldest := g.begun.Front(); oldest != nil {
				g.admitAfterLocked(time.Until(oldest.Value.(*turn).begunAt.Add(longestTurn)))
			}
			return
		}
		if pause := time.Until(at); pause > 0 {
			g.admitAfterLocked(pause)
			return
		}
		g.beginLocked(next)
	}
}

// discountLocked lets turns that have taken too long no longer count.
func (g *Gate) discountLocked() {
	for e := g.begun.Front(); e != nil; e = g.begun.Front() {
		t := e.Value.(*turn)
		if time.Since(t.begunAt) < longestTurn {
			return
		}
		t.leaveLocked()
		if g.outage.probe == t {
			g.outage.probe = nil
		}
	}
}

// pickLocked returns the turn to begin next, nil if none waits, and when it may.
// In an outage it takes from either queue in turn, lest those that somebody
// waits for fail again and again while others would not. As long as one
// reflector alone has failed, the others do not have to wait.
func (g *Gate) pickLocked() (next *turn, at time.Time) {
	queues := [...]*list.List{&g.urgent, &g.others}
	if g.outage.probes%2 == 1 {
		queues[0], queues[1] = queues[1], queues[0]
	}
	for _, queue := range queues {
		for e := queue.Front(); e != nil; e = e.Next() {
			t := e.Value.(*turn)
			switch {
			case g.outage.cause == nil, !g.outage.certain && t.owner != g.outage.witness:
				return t, g.retryAt
			case g.outage.certain:
				return t, later(g.retryAt, g.outage.probeAt)
			case next == nil:
				next = t // its turn, if there is no other's
			}
		}
	}
	return next, later(g.retryAt, g.outage.probeAt)
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func (g *Gate) beginLocked(t *turn) {
	t.leaveLocked()
	t.enterLocked(&g.begun)
	t.begunAt = time.Now()
	if g.outage.cause != nil {
		g.outage.probe = t
		g.outage.probes++
	}
	close(t.begun)
}

func (g *Gate) admitAfterLocked(pause time.Duration) {
	if g.timer != nil {
		g.timer.Reset(pause)
		return
	}
	g.timer = time.AfterFunc(pause, func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.admitLocked()
	})
}

// resizeLocked adapts the window to what the server bears, as TCP does: it grows
// by one with each answer, and from half of what was last too much on by one a
// round. Many clients share a loaded server so. With a fixed bound they overflow
// its queues, and it is idle while all of them wait for its Retry-After.
func (g *Gate) resizeLocked(err error) {
	switch {
	case unreachable(err):
		if g.outage.cause == nil {
			g.steady = max(1, g.window/2)
		}
		g.window = 1
	case g.window < g.steady:
		g.window = min(g.window+1, g.most)
	default:
		g.window = min(g.window+1/g.window, g.most)
	}
}

// jittered is up to half as much longer: servers tell many clients the same
// Retry-After in one second.
func jittered(d time.Duration) time.Duration {
	return d + time.Duration(rand.Float64()*float64(d)/2)
}

// learnLocked makes what is to be made of how a turn went.
func (g *Gate) learnLocked(t *turn, probe bool, err error) {
	now := time.Now()
	if !t.faulty {
		g.resizeLocked(err)
	}
	if retryAt := now.Add(jittered(retryAfter(err))); retryAt.After(g.retryAt) {
		g.retryAt = retryAt
	}
	switch {
	case !unreachable(err):
		g.answers++
		g.outage = outage{}
		return
	case g.outage.cause == nil && t.faulty:
		return
	case g.outage.cause == nil:
		g.outage.witness = t.owner
		probe = true
	case g.outage.witness != t.owner:
		g.outage.certain = true
	}
	g.outage.cause, g.outage.at = err, now
	if probe { // the others began before the outage did
		g.outage.probeAt = now.Add(g.outage.pauses.next(probePace))
	}
}

// unreachable tells whether a failure says that the server cannot be reached, or
// does not want to be, by anybody.
func unreachable(err error) bool {
	class := Classify(err)
	return (class == Connection || class == Throttled) && !isAnswer(err)
}
