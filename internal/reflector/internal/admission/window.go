// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"math"
	"time"

	"github.com/refwatch/refwatch/internal/reflector/internal/moment"
)

const (
	// firstWindow is the first size of a window. It is small, so as not to overflow the queues of a loaded server.
	firstWindow = 16
	// wideWindow is the size from which the latency counts. A server nearby is busy with so many attempts. Where
	// answers take long whatever the load is, as over a long way, more attempts must be under way.
	wideWindow = 32
	// fastRate is up to how many attempts a second a window grows fourfold in a round trip. Above that rate it
	// doubles. So a server far away soon gets as many as one nearby.
	fastRate = 400
	// lowRise and highRise are what share of its minimum the latency may be for the window to grow, and must be for it
	// to narrow.
	lowRise, highRise = 1.5, 2
)

// window bounds how many attempts are under way, as TCP's congestion window bounds packets. So many clients share a
// loaded server; with a fixed window they overflow its queues.
type window struct {
	size      float64 // from 1 on
	threshold float64 // TCP's slow start threshold: from this size on, size grows by one a round trip
}

func newWindow(limit int) window {
	return window{size: min(firstWindow, float64(limit)), threshold: math.Inf(1)}
}

// grow widens the window after a success, if at least half of it is used. Below the threshold it grows fast. Above it,
// it grows by one in each round trip, or in each second where a round trip takes longer. A wide window grows only while
// the latency is near its minimum, as that of TCP Vegas does. It narrows while the latency is far above that: then
// attempts queue at the server.
func (w *window) grow(limit, used int, r *rise) {
	if 2*used < int(w.size) {
		return
	}
	step, rise := 1.0, r.ratio()
	switch {
	case w.size >= w.threshold:
		step = max(1, r.minimum()) / w.size
	case w.size < fastRate*r.minimum():
		step = 3
	}
	switch {
	case w.size < wideWindow || rise < lowRise:
		w.size = min(w.size+step, float64(limit))
	case rise > highRise:
		w.size = max(w.size-1, wideWindow)
	}
}

// rest narrows a window that is not used.
func (w *window) rest(most float64) { w.size = min(w.size, most) }

// widen ends what shrink did for no reason.
func (w *window) widen() {
	if !math.IsInf(w.threshold, 1) {
		w.size = max(w.size, 2*w.threshold)
	}
	w.threshold = math.Inf(1)
}

// shrink narrows the window to 1, when the server had too many requests or was away. The threshold is then half of the
// old size.
func (w *window) shrink() {
	if w.size > 1 {
		w.threshold = max(1, w.size/2)
	}
	w.size = 1
}

const (
	// hungFactor is how many times the usual latency an attempt lasts before it counts as hung. The usual latency is
	// long where a few answers take long, so as many round trips bound that time. They are enough for a request that
	// waits for a connection: it takes three, with those of TCP and TLS.
	hungFactor = 4
	// lostFactor is how many times the usual latency an answer takes at least that is likely to be lost.
	lostFactor = 2
	// minHungAfter is the least time after which an attempt is hung, and minFirstHungAfter that of a resource without
	// an answer. farAfter is the least bound from above.
	minHungAfter, minFirstHungAfter, farAfter = 250 * time.Millisecond, 500 * time.Millisecond, 5 * time.Second
	// firstAnswer is how long the first answer of a server may take. Nothing is known of the way to it until then.
	firstAnswer = 30 * time.Second
)

// latency is a moving average of the time that a successful attempt takes, 0 while there was none.
type latency time.Duration

// observe adds an observation. A slow one has more weight, so that attempts do not count as hung where a server is
// loaded.
func (l *latency) observe(took time.Duration) {
	weight := latency(8)
	if latency(took) > *l {
		weight = 2
	}
	*l = max(1, *l+(latency(took)-*l)/weight)
}

const (
	// riseSamples is over how many answers a rise averages, and the least number of answers that make a minimum.
	riseSamples = 16
	// risePeriod is for how long a minimum counts, and until the end of the next period at most: the way to the server
	// may change.
	risePeriod = 10 * time.Minute
)

// rise compares the latency with its minimum. The zero value has seen no answer.
type rise struct {
	mean          float64 // of the last answers, in seconds
	least, before float64 // the least mean of a round in this period, and in the one before; 0 for none
	answers       int
	began, last   moment.Moment // when the period began, and when the last answer came

	round      moment.Moment // when the round began
	sum, count float64       // of its answers: in seconds, and how many
}

// observe adds an observation.
func (r *rise) observe(took time.Duration, now moment.Moment) {
	if now.Sub(r.last) > risePeriod {
		*r = rise{began: now, round: now}
	}
	r.last = now
	r.answers++
	r.mean += (took.Seconds() - r.mean) / float64(min(r.answers, riseSamples))
	if now.Sub(r.began) > risePeriod {
		r.before, r.least, r.began = r.least, 0, now
	}
	r.sum += took.Seconds()
	r.count++
	mean := r.sum / r.count
	// The first answers of a round are those that took less time than others.
	if r.count < riseSamples || now.Sub(r.round).Seconds() < mean {
		return
	}
	if r.least == 0 || mean < r.least {
		r.least = mean
	}
	r.round, r.sum, r.count = now, 0, 0
}

// ratio returns the latency divided by its minimum, 1 while that is not known.
func (r *rise) ratio() float64 {
	if least := r.minimum(); least > 0 {
		return r.mean / least
	}
	return 1
}

// minimum returns the least latency in seconds, 0 while it is not known.
func (r *rise) minimum() float64 {
	switch {
	case r.least == 0 && r.before == 0:
		return r.mean
	case r.least == 0 || r.before == 0:
		return r.least + r.before
	}
	return min(r.least, r.before)
}
