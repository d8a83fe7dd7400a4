// SPDX-License-Identifier: Apache-2.0

package h2

import (
	"container/list"
	"errors"
	"net/http"
	"time"

	"golang.org/x/net/http2"

	"github.com/refwatch/refwatch/internal/redact"
)

const (
	// suspectAfter is how long a server may leave an opening without an answer before its
	// connection is suspect. A router that adds 1.4 s to each answer is not sick. Where answers
	// take longer, it is usualTimes as long as they take on the connection.
	suspectAfter = 1500 * time.Millisecond
	usualTimes   = 2
	// longestTrip bounds what counts as the way to the server and back: one answer may be late for
	// another reason.
	longestTrip = 8 * time.Second
	// usualWeight is the weight of the answers before the last one.
	usualWeight = 3
	// movedAfter is the same for an opening that had no answer elsewhere. It is also the
	// pause after a first trial, which may have come to the same server.
	movedAfter = 500 * time.Millisecond
	// trialPause is the pause after a second trial. A server that is slow for all has to
	// begin its answer again after each.
	trialPause = 5 * time.Second
	// resetsAllowed is how many openings in a row a server may reset on a connection before
	// one of them is tried on another: the reset of one concerns its object.
	resetsAllowed = 1
	// sends is how often an opening is sent at most if servers do not answer it.
	sends = 4
)

// errMoved ends a request that is sent again on another connection.
var errMoved = redact.New("the request is sent again on another connection")

// opening is a request, from its slot to the header of the response. pool.mu guards it.
type opening struct {
	request *http.Request
	pooled  *pooledConn
	element *list.Element // in pool.openings
	began   time.Time
	sent    int         // how often the request was sent, this time included
	from    *pooledConn // where it was sent before, without an answer; nil for the first time
	reset   bool        // the server has reset it there
	again   bool        // the server has reset it here, and it may be tried elsewhere

	queued *list.Element // in pool.waiting, while it waits for a slot elsewhere
	next   *opening      // has that slot
	moved  chan struct{} // closed when next is set
}

// trials limits how often the pool tries another connection because one is suspect. A
// trial that helps allows the next one at once. If none helps, the server is slow for all,
// or it hangs for some objects, and the pauses double.
type trials struct {
	next  time.Time
	pause time.Duration
}

// begin reports whether a trial may begin.
func (t *trials) begin(now time.Time) bool {
	if now.Before(t.next) {
		return false
	}
	if now.Sub(t.next) >= spareFor {
		t.pause = movedAfter
	}
	t.next = now.Add(t.pause)
	t.pause = min(max(2*t.pause, trialPause), spareFor)
	return true
}

// beginLocked begins an opening that has a slot of m.
func (p *pool) beginLocked(m *pooledConn, t *waitingOpening) *opening {
	o := &opening{request: t.request, pooled: m, began: time.Now(), sent: t.sent + 1, from: t.from, reset: t.reset, moved: make(chan struct{})}
	o.element = p.openings.PushBack(o)
	p.reviewInLocked(o.patienceLocked())
	return o
}

// patienceLocked is how long the opening may have no answer.
func (o *opening) patienceLocked() time.Duration {
	after := suspectAfter
	if o.from != nil {
		after = movedAfter
	}
	return max(after, usualTimes*min(o.pooled.usual, longestTrip))
}

// finish ends an opening. It returns the next one if the pool has moved it meanwhile.
func (p *pool) finish(o *opening, response *http.Response, err error) (next *opening) {
	now := time.Now()
	// A server error is no answer: a server that has lost its etcd sends one in the end.
	answered := err == nil && response.StatusCode < http.StatusInternalServerError
	p.mu.Lock()
	p.openings.Remove(o.element)
	suspects, waited := p.suspects, o.queued != nil
	if waited {
		p.waiting.Remove(o.queued)
		o.queued = nil
	}
	var reset http2.StreamError
	switch {
	case answered:
		p.answeredLocked(o, now)
	case errors.As(err, &reset) && errors.Is(reset.Cause, errFromServer) && reset.Code != http2.ErrCodeRefusedStream:
		p.resetLocked(o, reset.Code, now)
	}
	next = o.next
	if next != nil && err == nil {
		p.openings.Remove(next.element)
	}
	if waited || p.suspects != suspects {
		p.serveLocked()
	}
	p.unlock()
	if next != nil && err == nil {
		next.pooled.connection.release()
		return nil
	}
	return next
}

// answeredLocked makes a connection well again. If the opening had no answer on another
// connection before, that one is to blame.
func (p *pool) answeredLocked(o *opening, now time.Time) {
	took, soon := now.Sub(o.began), suspectAfter
	if o.from != nil {
		soon = max(soon, usualTimes*min(o.from.usual, longestTrip))
	}
	m := o.pooled
	if m.answered.IsZero() {
		m.usual = took
	}
	m.usual += (took - m.usual) / (usualWeight + 1)
	m.answered = now
	p.trip = min(p.trip, took)
	m.resets = 0
	p.suspectLocked(m, false)
	switch {
	case o.from == nil || o.from.removed:
	case o.reset && o.from.resets > 0:
		o.from.counters.left(Resets)
		p.removeLocked(o.from)
		p.draining = append(p.draining, o.from)
	case !o.reset && took < soon:
		p.suspectLocked(o.from, true)
		p.trials = trials{}
		p.reviewInLocked(0)
	}
}

// resetLocked counts an opening that the server has reset, and decides whether it may be
// tried elsewhere.
func (p *pool) resetLocked(o *opening, code http2.ErrCode, now time.Time) {
	m := o.pooled
	m.resets++
	if code == http2.ErrCodeProtocol { // conn takes no new streams
		o.again = o.sent < refusals
		return
	}
	if m.resets <= resetsAllowed && p.suspects == 0 {
		return
	}
	p.suspectLocked(m, true)
	switch {
	case o.sent >= refusals:
	case o.reset, now.Before(m.trial):
		o.again = true
	case p.trials.begin(now):
		o.again = true
		m.trial = now.Add(suspectAfter) // those that fail meanwhile go the same way
	}
}

// suspectLocked makes a connection suspect, or well again.
func (p *pool) suspectLocked(m *pooledConn, suspect bool) {
	if m.suspect == suspect || m.removed {
		return
	}
	m.suspect = suspect
	if suspect {
		m.counters.left(Suspect)
		p.suspects++
	} else {
		p.suspects--
	}
}

// reviewInLocked lets review run after d, unless it runs sooner.
func (p *pool) reviewInLocked(d time.Duration) {
	at := time.Now().Add(d)
	switch {
	case p.reviewer == nil:
		p.reviewer = time.AfterFunc(d, p.review)
	case p.reviewAt.IsZero() || at.Before(p.reviewAt):
		p.reviewer.Reset(d)
	default:
		return
	}
	p.reviewAt = at
}

// review looks for openings that have waited too long for an answer. If nothing was
// answered meanwhile on their connections, these are suspect. The openings wait for slots
// elsewhere, as far as trials allow.
func (p *pool) review() {
	p.mu.Lock()
	p.reviewAt = time.Time{}
	now := time.Now()
	var probed []connection
	for e := p.openings.Front(); e != nil; e = e.Next() {
		o := e.Value.(*opening)
		if rest := o.patienceLocked() - now.Sub(o.began); rest > 0 {
			p.reviewInLocked(rest)
			continue
		}
		m := o.pooled
		if rest := o.patienceLocked() - now.Sub(m.answered); rest > 0 {
			p.reviewInLocked(rest)
		} else if !m.suspect && !m.removed {
			p.suspectLocked(m, true)
			probed = append(probed, m.connection)
		}
		p.moveLocked(o, now)
	}
	p.serveLocked()
	p.unlock()
	for _, c := range probed {
		c.probe()
	}
}

// moveLocked lets an opening without an answer wait for a slot elsewhere.
func (p *pool) moveLocked(o *opening, now time.Time) {
	switch {
	case o.queued != nil || o.next != nil || o.sent >= sends:
	case p.trials.begin(now):
		o.queued = p.waiting.PushBack(&waitingOpening{request: o.request, avoid: o.pooled.connection, from: o.pooled, sent: o.sent, opening: o, trial: true})
	default:
		p.reviewInLocked(p.trials.next.Sub(now))
	}
}
