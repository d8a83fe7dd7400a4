// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"math"
	"time"

	"github.com/refwatch/refwatch/internal/reflector/internal/moment"
)

const (
	// firstWindow is the first size of a window. It is small, so as not to overflow the queues of a loaded server.
	firstWindow = 4
	// wideWindow is the size from which the latency counts. A server nearby is busy with so many attempts. Where
	// answers take long whatever the load is, as over a long way, more attempts must be under way.
	wideWindow = 32
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

// grow widens the window after a success: by one below the threshold, and more slowly above it. A wide window grows
// only while the latency is near its minimum, as TCP Vegas' does, and narrows while it is far above it: then attempts
// queue at the server.
func (w *window) grow(limit int, rise float64) {
	step := 1.0
	switch {
	case w.size >= w.threshold:
		step = 1 / w.size
	case w.size >= wideWindow: // the latency rises a round trip later
		step = 0.5
	}
	switch {
	case w.size < wideWindow || rise < lowRise:
		w.size = min(w.size+step, float64(limit))
	case rise > highRise:
		w.size = max(w.size-1, wideWindow)
	}
}

// rest narrows a window that is not used: the server may be another one, or be away, when it is used again.
func (w *window) rest(most int) { w.size = min(w.size, float64(most)) }

// widen makes the window grow fast again: it was narrowed for no reason.
func (w *window) widen() { w.threshold = math.Inf(1) }

// shrink narrows the window to 1, when the server had too many requests or was away. The threshold is then half of the
// old size.
func (w *window) shrink() {
	if w.size > 1 {
		w.threshold = max(1, w.size/2)
	}
	w.size = 1
}

const (
	// hungFactor is how many times the usual latency an attempt lasts before it counts as hung.
	hungFactor = 4
	// minHungAfter and maxHungAfter bound that time. defaultHungAfter is used while no latency is known.
	minHungAfter, maxHungAfter, defaultHungAfter = 250 * time.Millisecond, 5 * time.Second, 500 * time.Millisecond
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

// hungAfter returns how long an attempt lasts before it counts as hung.
func (l latency) hungAfter() time.Duration {
	if l == 0 {
		return defaultHungAfter
	}
	return min(max(hungFactor*time.Duration(l), minHungAfter), maxHungAfter)
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
	mean          float64 // in seconds
	least, before float64 // the least mean of this period, and of the one before; 0 for none
	answers       int
	began, last   moment.Moment // when the period began, and when the last answer came
}

// observe adds an observation.
func (r *rise) observe(took time.Duration, now moment.Moment) {
	if now.Sub(r.last) > risePeriod {
		*r = rise{began: now}
	}
	r.last = now
	r.answers++
	r.mean += (took.Seconds() - r.mean) / float64(min(r.answers, riseSamples))
	switch {
	case now.Sub(r.began) > risePeriod:
		r.before, r.least, r.began = r.least, r.mean, now
	case r.answers <= riseSamples || r.mean < r.least:
		r.least = r.mean
	}
}

// ratio returns the latency divided by its minimum, 1 while that is not known.
func (r *rise) ratio() float64 {
	least := r.least
	if r.before > 0 {
		least = min(least, r.before)
	}
	if least <= 0 {
		return 1
	}
	return r.mean / least
}
