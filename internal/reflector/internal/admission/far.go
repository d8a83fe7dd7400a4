// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"slices"
	"time"

	"github.com/refwatch/refwatch/internal/reflector/internal/moment"
)

// How long an answer may take follows from how long the way to the server is.

// longestWay bounds what counts as the way to a server: one answer alone may be late for another reason.
const longestWay = 8 * time.Second

// way is how long a request is on its way to the server and back: the least time until an answer, also a refusal. A
// failure or a 429 may be that of a proxy. The zero value is not known.
type way struct {
	least, before time.Duration // of this period, and of the one before; 0 for none
	began         moment.Moment // when the period began
}

// observe adds an answer.
func (w *way) observe(took time.Duration, now moment.Moment) {
	if now.Sub(w.began) > risePeriod {
		*w = way{before: w.roundTrip(), began: now}
	}
	if took = max(took, time.Nanosecond); w.least == 0 || took < w.least {
		w.least = took
	}
}

// roundTrip returns how long the way is, 0 while that is not known.
func (w *way) roundTrip() time.Duration {
	trip := w.least
	if trip == 0 || w.before > 0 && w.before < trip {
		trip = w.before
	}
	return min(trip, longestWay)
}

// patience returns how long an attempt of a resource may have no answer until it is likely to be lost: many round
// trips, and more than the usual latency.
func (s *server) patience(r *resource) time.Duration {
	trip := s.way.roundTrip()
	if trip == 0 {
		return firstAnswer
	}
	return max(hungFactor*trip, lostFactor*min(time.Duration(r.latency), longestWay), farAfter)
}

// hungAfter returns how long the attempt of m lasts before it counts as hung.
func (s *server) hungAfter(m *member) time.Duration {
	usual, least := m.resource.latency, minHungAfter
	if m.failingAttempt {
		usual = max(usual, m.resource.refusalLatency)
	}
	if usual == 0 {
		usual, least = latency(s.way.roundTrip()), minFirstHungAfter
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
