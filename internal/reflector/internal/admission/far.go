// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"math"
	"slices"
	"time"
)

// How long an answer may take follows from how long the way to the server is.

// least returns the least time that an answer with a state has taken, of all resources in the last minutes. Before the
// first one it is that of a refusal, and 0 before the server's first answer.
func (s *server) least() time.Duration {
	least := time.Duration(math.MaxInt64)
	for _, r := range s.resources {
		if r.rise.answers > 0 {
			least = min(least, max(time.Nanosecond, time.Duration(r.rise.minimum()*float64(time.Second))))
		}
	}
	if least == math.MaxInt64 {
		return s.refusedIn
	}
	return least
}

// patience returns how long an attempt of a resource may have no answer until it is likely to be lost: many times the
// least latency, and more than the usual one.
func (s *server) patience(r *resource) time.Duration {
	if !s.answered {
		return FirstAnswer
	}
	return max(hungFactor*s.least(), lostFactor*time.Duration(r.latency), farAfter)
}

// hungAfter returns how long the attempt of m lasts before it counts as hung.
func (s *server) hungAfter(m *member) time.Duration {
	usual, least := m.resource.latency, minHungAfter
	if m.failingAttempt {
		usual = max(usual, m.resource.refusalLatency)
	}
	if usual == 0 {
		usual, least = latency(s.least()), minFirstHungAfter
	}
	if usual == 0 {
		return farAfter
	}
	after := max(hungFactor*time.Duration(usual), least)
	if s.outage.probe == m || m.resource.outage.probe == m || m.failingAttempt && !m.resource.isOnly() {
		return min(after, farAfter) // others wait for its place
	}
	return min(after, s.patience(m.resource))
}

// restWindow returns how wide the window of a resource stays that is not used: the server may be another one, or be
// away, when it is used again. It is so many attempts a second where answers take longer than one.
func (s *server) restWindow(r *resource) float64 {
	size := max(firstWindow, float64(wideWindow/len(s.resources)))
	return max(size, min(size*r.rise.minimum(), float64(s.limit/4)))
}

// reschedule makes the attempts of a resource that began before its latency was known count as hung as those that begin
// now.
func (s *server) reschedule(r *resource) {
	for _, m := range slices.Clone(s.schedule) {
		if m.resource == r && m.state == opening {
			s.schedule.set(m, m.began.Add(s.hungAfter(m)))
		}
	}
}
