// SPDX-License-Identifier: Apache-2.0

package reflector

import (
	"cmp"
	"container/list"
	"context"
	"sync"
	"time"
)

// defaultOpens is how many streams of one client may be opening at once.
const defaultOpens = 32

// GateOptions changes how a [Gate] works. The zero value is valid.
type GateOptions struct {
	// Opens is how many streams may be opening at once: asked for, but not yet
	// synced. Default: 32.
	Opens int
}

// Gate decides who may open a stream now. One is shared by all reflectors that
// reach one server with one client, so that neither a start with ten thousand
// references nor the return of the server is a storm:
//
//   - A bounded number of streams is being opened at a time; the others queue.
//     Those that somebody waits for ([Reflector.Retry]) go first.
//   - When the server cannot be reached, or asks for patience (429), one
//     reflector at a time probes: after 0.25 to 0.5 s at first, later 2.5 to 5 s
//     apart, and not before the Retry-After of any answer. When a probe is
//     answered, all others follow at once, through the queue.
//   - What one reflector has learnt of the server's WatchList is known to all
//     that follow objects of the same resource.
//   - Streams that have been silent for too long are verified; see [Reflector].
//
// A gate holds no goroutine. Make one with [NewGate].
type Gate struct {
	opens int

	mu      sync.Mutex
	opening int       // turns that have begun and not ended
	urgent  list.List // of *turn, in order: somebody waits
	others  list.List // of *turn, in order
	retryAt time.Time // the server asked not to be asked before
	timer   *time.Timer
	outage  outage
	answers uint64 // turns that ended with an answer of the server
	kinds   map[string]*knowledge
	streams map[*Reflector]struct{} // those whose silence is watched
	watch   *time.Timer
}

// outage is how things are while the server is down.
type outage struct {
	cause   error // of the last failure; nil: the server is up
	at      time.Time
	pauses  backoff
	probeAt time.Time // not before
	probe   *turn     // the one under way
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
	return &Gate{
		opens:   max(1, cmp.Or(options.Opens, defaultOpens)),
		kinds:   map[string]*knowledge{},
		streams: map[*Reflector]struct{}{},
	}
}

// Status tells how things are.
func (g *Gate) Status() GateStatus {
	g.mu.Lock()
	defer g.mu.Unlock()
	return GateStatus{
		Opening:   g.opening,
		Queued:    g.urgent.Len() + g.others.Len(),
		Cause:     g.outage.cause,
		CauseTime: g.outage.at,
	}
}

// turn is one opening of a stream, or one list. It is queued, then begins, then
// ends.
type turn struct {
	gate  *Gate
	begun chan struct{} // closed when it begins, or is given up

	// Guarded by Gate.mu.
	queue   *list.List // that holds it; nil once it has begun or was given up
	element *list.Element
	ended   bool
}

// queue returns a turn that has not begun.
func (g *Gate) queue(urgent bool) *turn {
	t := &turn{gate: g, begun: make(chan struct{})}
	g.mu.Lock()
	defer g.mu.Unlock()
	t.pushLocked(urgent)
	g.admitLocked()
	return t
}

func (t *turn) pushLocked(urgent bool) {
	t.queue = &t.gate.others
	if urgent {
		t.queue = &t.gate.urgent
	}
	t.element = t.queue.PushBack(t)
}

// urge lets a turn that is still queued go before all that nobody waits for.
func (t *turn) urge() {
	t.gate.mu.Lock()
	defer t.gate.mu.Unlock()
	if t.queue == &t.gate.others {
		t.queue.Remove(t.element)
		t.pushLocked(true)
	}
}

// wait returns when the turn begins, or was given up. When ctx ends, wait gives
// it up.
func (t *turn) wait(ctx context.Context) {
	select {
	case <-t.begun:
	case <-ctx.Done():
		t.giveUp()
	}
}

// giveUp ends a turn of which nothing is to be learnt. Nothing happens if it has
// ended.
func (t *turn) giveUp() {
	t.gate.mu.Lock()
	defer t.gate.mu.Unlock()
	t.endLocked()
	t.gate.admitLocked()
}

// end ends a turn by how it went: nil or an answer of the server, or the reason
// why there is none. It returns how many turns were answered so far. Nothing
// happens if the turn has ended.
func (t *turn) end(err error) (answers uint64) {
	g := t.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	probe := g.outage.probe == t
	if !t.endLocked() {
		return g.answers
	}
	now := time.Now()
	if retryAt := now.Add(retryAfter(err)); retryAt.After(g.retryAt) {
		g.retryAt = retryAt
	}
	switch {
	case !unreachable(err):
		g.answers++
		g.outage = outage{}
	case g.outage.cause == nil || probe:
		g.outage.probeAt = now.Add(g.outage.pauses.next(probePace))
		fallthrough
	default: // began before the outage did
		g.outage.cause, g.outage.at = err, now
	}
	g.admitLocked()
	return g.answers
}

// endLocked tells whether the turn had not ended before.
func (t *turn) endLocked() bool {
	if t.ended {
		return false
	}
	t.ended = true
	if t.queue != nil {
		t.queue.Remove(t.element)
		t.queue, t.element = nil, nil
		close(t.begun)
		return true
	}
	t.gate.opening--
	if t.gate.outage.probe == t {
		t.gate.outage.probe = nil
	}
	return true
}

// admitLocked begins the turns that may begin now.
func (g *Gate) admitLocked() {
	for g.opening < g.opens && g.outage.probe == nil {
		queue := &g.urgent
		if queue.Len() == 0 {
			queue = &g.others
		}
		next := queue.Front()
		if next == nil {
			return
		}
		notBefore := g.retryAt
		if g.outage.cause != nil && g.outage.probeAt.After(notBefore) {
			notBefore = g.outage.probeAt
		}
		if pause := time.Until(notBefore); pause > 0 {
			g.admitAfterLocked(pause)
			return
		}
		t := next.Value.(*turn)
		queue.Remove(next)
		t.queue, t.element = nil, nil
		if g.outage.cause != nil {
			g.outage.probe = t
		}
		g.opening++
		close(t.begun)
	}
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

// unreachable tells whether a failure says that the server cannot be reached, or
// does not want to be, by anybody.
func unreachable(err error) bool {
	class := Classify(err)
	return (class == Connection || class == Throttled) && !isAnswer(err)
}
