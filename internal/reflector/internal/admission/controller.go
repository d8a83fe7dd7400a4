// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/refwatch/refwatch/internal/reflector/internal/moment"
)

// ErrLeft is returned by Acquire once the member has left.
var ErrLeft = errors.New("the member has left")

// Controller decides which of its members may make an attempt now. Make one with [New].
type Controller struct {
	mu     sync.Mutex
	server server      // and the member of each Member
	timer  *time.Timer // the only one
}

// New returns a controller without members. limit bounds how many attempts of healthy members are under way and count;
// it is at least 1.
func New(limit int) *Controller { return &Controller{server: newServer(limit)} }

// Observer is what a member notifies of outages.
type Observer interface {
	// OutageBegan is called when the member waits and an outage of the server or of the resource begins. It is
	// called without a lock, on a goroutine of the timer. It must return soon.
	OutageBegan()
	// OutageChanged is called when an attempt of the member has begun or ended an outage, in the order of the
	// changes, with the lock of the controller held. It returns a function that reports the change. That is called
	// once, soon, without a lock, on a goroutine of the timer or in Report. It may block, as a log does: then that of
	// a later change may overtake it.
	OutageChanged(Outage) (report func())
}

// Join adds a member for one object of a resource. The observer may be nil.
func (c *Controller) Join(m *Member, resource string, observer Observer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	m.controller, m.observer = c, observer
	c.server.join(&m.member, resource)
}

// Member is one object that is to be listed and watched. Embed it by value in its owner, and do not copy it. Join comes
// first. Acquire, Request, Release and Ended are called one after the other; the other methods from any
// goroutine.
type Member struct {
	member

	controller *Controller
}

// Resource returns the resource of the member.
func (m *Member) Resource() string { return m.resource.name }

// Rest says that the object needs no attempt for now. While it rests it does not count: its success of long ago says
// nothing of an outage. Rest withdraws a request that still waits, and reports whether there was one. It has no effect
// while an attempt is under way.
func (m *Member) Rest() (withdrawn bool) {
	c := m.controller
	c.mu.Lock()
	defer c.mu.Unlock()
	now := moment.Now()
	switch m.state {
	case paused, queued:
		withdrawn, m.proceed = true, nil
	case idle:
	default:
		return false
	}
	c.server.rest(&m.member, now)
	c.admitLocked(now)
	return withdrawn
}

// Resume ends the rest of the member. If its last attempt has failed, or its stream was refused, the member continues
// its pause in the same lane, and is not new. A failure of long ago is forgotten: the object may be healthy since. A
// Retry-After is not. Resume reports whether the last attempt was recent, or a Retry-After still counts. It does
// nothing, and returns true, if the member does not rest.
func (m *Member) Resume() (recent bool) {
	m.controller.mu.Lock()
	defer m.controller.mu.Unlock()
	if m.state != resting {
		return true
	}
	return m.controller.server.resume(&m.member, moment.Now())
}

// Acquire waits until the member may make an attempt, and then returns nil. Release must follow. Acquire returns ctx's
// error when ctx ends, and [ErrLeft] when the member leaves.
func (m *Member) Acquire(ctx context.Context) error {
	c := m.controller
	admitted := make(chan struct{})
	m.request(func() { close(admitted) })
	select {
	case <-admitted:
	case <-ctx.Done():
		m.Release(Outcome{})
		return ctx.Err()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if m.state == left {
		return ErrLeft
	}
	return nil
}

// Request is Acquire for a caller without a goroutine that waits: admitted is called, on a goroutine of its own, when
// the member may make an attempt. Release must follow. It is also called when the member leaves; Release then does
// nothing.
func (m *Member) Request(admitted func()) { m.request(func() { go admitted() }) }

// request calls proceed, with the lock held, when the member is admitted or leaves.
func (m *Member) request(proceed func()) {
	c := m.controller
	c.mu.Lock()
	defer c.mu.Unlock()
	now := moment.Now()
	c.server.request(&m.member, proceed, now)
	c.admitLocked(now)
}

// Sent reports that the request of an attempt was sent: it waits for a connection no longer. The time until then says
// nothing of how long answers take.
func (m *Member) Sent() {
	m.controller.mu.Lock()
	defer m.controller.mu.Unlock()
	m.controller.server.attemptSent(&m.member, moment.Now())
}

// Arriving reports that a part of the answer to an attempt has arrived. The attempt is not late while parts arrive,
// however large the answer is, and however slow the way from the server. first says that it is the first part.
func (m *Member) Arriving(first bool) {
	c := m.controller
	c.mu.Lock()
	defer c.mu.Unlock()
	now := moment.Now()
	if c.server.attemptArrives(&m.member, first, now); first {
		c.admitLocked(now)
	}
}

// Contact reports that another request of the program was answered after so long.
func (m *Member) Contact(took time.Duration) {
	m.controller.mu.Lock()
	defer m.controller.mu.Unlock()
	m.controller.server.answered = true
	m.controller.server.way.observe(took, moment.Now())
}

// Answered reports that the server has answered an attempt with the state. The attempt keeps no place from then on,
// whatever its caller does with the answer until Release. A failure that Release reports is then the caller's own.
func (m *Member) Answered() {
	c := m.controller
	c.mu.Lock()
	defer c.mu.Unlock()
	if m.state < opening || m.state > hung {
		return
	}
	now := moment.Now()
	c.server.attemptAnswered(&m.member, now)
	c.admitLocked(now)
}

// Release reports the outcome of an attempt, or withdraws a request that still waits. If there is neither, Release does
// nothing.
func (m *Member) Release(outcome Outcome) {
	c := m.controller
	c.mu.Lock()
	defer c.mu.Unlock()
	now := moment.Now()
	switch m.state {
	case opening, arriving, hung, answered:
		c.server.finish(&m.member, outcome, now)
	case paused, queued:
		m.state, m.proceed = idle, nil
		c.server.withdraw(&m.member)
	default:
		return
	}
	c.admitLocked(now)
}

// Ended reports how long the stream after a synced attempt lived, and why it ended. A pause follows. It is longer
// the more streams in a row were short. A member whose stream was refused shares the budget of failing members.
func (m *Member) Ended(lived time.Duration, outcome Outcome) {
	m.controller.mu.Lock()
	defer m.controller.mu.Unlock()
	m.streamEnded(lived, outcome, moment.Now())
}

// Expedite reports that a caller waits for the member's next attempt. The member's pause then ends at most 1.1 to 1.6 s
// after its last attempt, unless a Retry-After is longer. The member goes before others, by weight. This holds for one
// attempt. Expedite does nothing while an attempt is under way, and while the member rests.
func (m *Member) Expedite() {
	c := m.controller
	c.mu.Lock()
	defer c.mu.Unlock()
	now := moment.Now()
	if m.expedited || m.state >= opening {
		return
	}
	c.server.expedite(&m.member, now)
	c.admitLocked(now)
}

// Leave ends the membership. Acquire returns ErrLeft from then on.
func (m *Member) Leave() {
	c := m.controller
	c.mu.Lock()
	defer c.mu.Unlock()
	if m.state == left {
		return
	}
	now := moment.Now()
	c.server.leave(&m.member, now)
	c.admitLocked(now)
}

// Report reports the changes that are not reported yet, of all members. After Leave and Report the observer of the
// member is notified of no change. The caller must hold no lock that an observer takes.
func (m *Member) Report() {
	c := m.controller
	c.mu.Lock()
	reports := c.server.takeReports()
	c.mu.Unlock()
	for _, report := range reports {
		report()
	}
}

// admitLocked begins the attempts that may begin now, and sets the timer for the others.
func (c *Controller) admitLocked(now moment.Moment) {
	c.server.admit(now)
	switch next := c.server.next(now); {
	case next.IsZero() && c.timer != nil:
		c.timer.Stop()
	case next.IsZero():
	case c.timer == nil:
		c.timer = time.AfterFunc(next.Sub(now), c.fire)
	default:
		c.timer.Reset(next.Sub(now))
	}
}

// fire is the function of the timer. Only fire calls OutageBegan: the callers of other methods may hold a lock that an
// observer takes.
func (c *Controller) fire() {
	c.mu.Lock()
	c.admitLocked(moment.Now())
	observers, reports := c.server.toNotify, c.server.takeReports()
	c.server.toNotify = nil
	c.mu.Unlock()
	for _, observer := range observers {
		observer.OutageBegan()
	}
	for _, report := range reports {
		report()
	}
}
