// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"time"

	"github.com/refwatch/refwatch/internal/reflector/internal/moment"
)

const (
	// freeRestarts is how many members of one object may follow each other shortly, each without a pause.
	freeRestarts = 3
	// longestRestart bounds the pause of further ones, whose object can be read.
	longestRestart = time.Second
)

// Past is how the attempts of a member have gone, for a member of the same object that takes its place. The pause
// belongs to the object: who leaves and joins again and again must not be faster than who stays. The zero value is that
// of a member which was well, and there for long.
type Past struct {
	left       moment.Moment
	restarts   uint8 // members in a row that left shortly after their success, or without one, up to mostRepeats
	failures   uint32
	ended      moment.Moment
	pause      time.Duration
	retryAfter moment.Moment
}

// Past returns the past of the member, which is about to leave.
func (m *Member) Past() (p Past) {
	m.controller.mu.Lock()
	defer m.controller.mu.Unlock()
	now := moment.Now()
	if m.retryAfter.After(now) {
		p.retryAfter = m.retryAfter
	}
	switch waits := m.state == paused || m.state == queued; {
	case m.failures > 0:
		p.restarts, p.failures, p.ended, p.pause = min(m.restarts+1, mostRepeats), m.failures, m.ended, m.pause
	case waits && m.began.IsZero(): // the pause of the one before goes on
		p.restarts, p.ended, p.pause = m.restarts, m.ended, m.pause
	case m.state >= opening && m.state <= answered, now.Sub(m.ended) < stableStream:
		if p.restarts, p.ended = min(m.restarts+1, mostRepeats), now; p.restarts > freeRestarts {
			p.pause = min(memberBackoff.pause(uint32(p.restarts-freeRestarts)), longestRestart)
		}
	}
	if p != (Past{}) {
		p.left = now
	}
	return p
}

// IsPause reports whether the next member of the object begins with a pause.
func (p Past) IsPause() bool { return p.restarts > freeRestarts || !p.retryAfter.IsZero() }

// Continue makes the member, which has just joined, take the place of another one. After a few of them it begins with a
// pause, and shares the budget of failing members.
func (m *Member) Continue(p Past) {
	m.controller.mu.Lock()
	defer m.controller.mu.Unlock()
	if m.retryAfter = p.retryAfter; moment.Now().Sub(p.left) >= memberBackoff.longest {
		return
	}
	m.restarts, m.failures, m.failing = p.restarts, p.failures, p.failures > 0
	if p.restarts > freeRestarts {
		m.ended, m.pause, m.failing = p.ended, p.pause, true
		m.shortStreams = 2 // its success adds nothing to the budget
	}
	m.attempted = m.failing // it is not the newest
}
