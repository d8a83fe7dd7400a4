// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"math"
	"time"
)

// firstWindow is the first size of a window. It is small, so as not to overflow the queues of a loaded server.
const firstWindow = 4

// window bounds how many attempts are under way, as TCP's congestion window bounds packets. So many clients share a
// loaded server; with a fixed window they overflow its queues.
type window struct {
	size      float64 // from 1 on
	threshold float64 // TCP's slow start threshold: from this size on, size grows by one a round trip
}

func newWindow(limit int) window {
	return window{size: min(firstWindow, float64(limit)), threshold: math.Inf(1)}
}

// grow widens the window after a success: by one below the threshold, and more slowly above it.
func (w *window) grow(limit int) {
	step := 1.0
	if w.size >= w.threshold {
		step = 1 / w.size
	}
	w.size = min(w.size+step, float64(limit))
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
