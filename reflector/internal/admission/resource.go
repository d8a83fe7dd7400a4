// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"math"
	"time"
)

const (
	// firstWindow is how many attempts a resource begins with. Few overflow the
	// queues of a loaded server, and a hung one is not all of them.
	firstWindow = 4
	// unknownPatience, shortestPatience and longestPatience bound how long an
	// attempt counts: as long as nothing is known of the resource, and later.
	unknownPatience  = 500 * time.Millisecond
	shortestPatience = 250 * time.Millisecond
	longestPatience  = 5 * time.Second
	// soonWaited and soon are how soon a favorite makes its attempt, with a caller
	// that waits and without.
	soonWaited, soon = 300 * time.Millisecond, 2 * time.Second
	// patience is how many times longer than usual an attempt may take.
	patience = 4
)

// resource is one kind of object at the server.
type resource struct {
	name    string
	lanes   [2]lane       // healthy and failing members in line
	opening int           // attempts of healthy members under way that count
	window  float64       // how many of these there may be, from 1 on
	steady  float64       // from here on window grows by one a round
	usual   time.Duration // how long an attempt takes that succeeds
	members int
	synced  int // members that have synced
	trouble trouble

	succeeded time.Time // when an attempt last did
	throttles uint32    // 429s since then, one a round
	throttled time.Time // the last of these
	free      time.Time // no attempt of a healthy member before, but the favorite's

	// favorite is the newest member in line that has made no attempt yet, one that a
	// caller waits for if there is one. It may be healthy, whatever others fail at.
	favorite *Member
}

func newResource(name string, most float64) *resource {
	return &resource{name: name, window: min(firstWindow, most), steady: math.Inf(1)}
}

// patience returns how long an attempt counts.
func (r *resource) patience() time.Duration {
	if r.usual == 0 {
		return unknownPatience
	}
	return min(max(patience*r.usual, shortestPatience), longestPatience)
}

// observe notes how long an attempt took that succeeded. What is slower than
// usual counts at once, for patience must not run out where a server is loaded.
func (r *resource) observe(took time.Duration) {
	weight := time.Duration(8)
	if took > r.usual {
		weight = 2
	}
	r.usual = max(1, r.usual+(took-r.usual)/weight)
}

// grow widens the window after a success, as TCP does: by one, and from half of
// what was last too much on by one a round. Many clients share a loaded server
// so. With a fixed window they overflow its queues.
func (r *resource) grow(most float64) {
	if r.window < r.steady {
		r.window = min(r.window+1, most)
		return
	}
	r.window = min(r.window+1/r.window, most)
}

// throttle notes that the server asked a healthy member for patience: the window
// is narrowed, and the resource pauses, for twice as long as an attempt takes at
// least: where a server is loaded, that is long. Attempts that were under way
// together count once.
func (r *resource) throttle(m *Member, now time.Time) {
	r.shrink()
	if m.began.Before(r.throttled) {
		return
	}
	r.throttles++
	r.throttled = now
	pace := throttledPace
	pace.first = max(pace.first, 2*r.usual)
	r.free = now.Add(pace.pause(r.throttles))
}

// prefer makes a member that is new in line the favorite, unless a caller waits for
// another one.
func (r *resource) prefer(m *Member) {
	if r.favorite == nil || m.waited || !r.favorite.waited {
		r.favorite = m
	}
}

// forget lets go of a member that leaves the line.
func (r *resource) forget(m *Member) {
	if r.favorite == m {
		r.favorite = nil
	}
}

// triedBy is until when a favorite makes its attempt, whatever others fail at.
func (m *Member) triedBy() time.Time {
	if m.waited {
		return m.due.Add(soonWaited)
	}
	return m.due.Add(soon)
}

// shrink narrows the window after what was too much for the server.
func (r *resource) shrink() {
	if r.window > 1 {
		r.steady = max(1, r.window/2)
	}
	r.window = 1
}
