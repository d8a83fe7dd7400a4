// SPDX-License-Identifier: Apache-2.0

// Package histogram counts durations in fixed buckets, from a millisecond to five
// minutes. A [Histogram] is written without locks; a [Snapshot] is what it holds at one
// moment, in the form of a Prometheus histogram.
package histogram

import (
	"sort"
	"sync/atomic"
	"time"
)

// Buckets is the number of buckets with an upper bound.
const Buckets = 16

// bounds are the upper bounds of the buckets.
var bounds = [Buckets]time.Duration{
	time.Millisecond, 2500 * time.Microsecond, 5 * time.Millisecond,
	10 * time.Millisecond, 25 * time.Millisecond, 50 * time.Millisecond,
	100 * time.Millisecond, 250 * time.Millisecond, 500 * time.Millisecond,
	time.Second, 2500 * time.Millisecond, 5 * time.Second,
	10 * time.Second, 30 * time.Second, time.Minute, 5 * time.Minute,
}

// Bounds returns the upper bounds of the buckets, the lowest first. A duration that is
// equal to a bound is in its bucket.
func Bounds() [Buckets]time.Duration { return bounds }

// Histogram counts durations. The zero value is empty and ready for use. It may be used
// by several goroutines, and must not be copied.
type Histogram struct {
	counts [Buckets + 1]atomic.Uint64 // of each bucket alone; the last one has no bound
	sum    atomic.Int64
}

// Observe counts a duration. A negative one counts as zero: clocks may be set back.
func (h *Histogram) Observe(d time.Duration) {
	d = max(0, d)
	bucket := sort.Search(Buckets, func(i int) bool { return d <= bounds[i] })
	h.sum.Add(int64(d))
	h.counts[bucket].Add(1)
}

// Snapshot is what a [Histogram] holds at one moment.
type Snapshot struct {
	// Cumulative is how many durations were not longer than each of [Bounds].
	Cumulative [Buckets]uint64
	// Count is how many durations there were, and Sum their sum. A duration that is
	// observed meanwhile may be in Sum and not yet in Count.
	Count uint64
	Sum   time.Duration
}

// Snapshot returns what the histogram holds.
func (h *Histogram) Snapshot() Snapshot {
	var s Snapshot
	for i := range h.counts {
		s.Count += h.counts[i].Load()
		if i < Buckets {
			s.Cumulative[i] = s.Count
		}
	}
	s.Sum = time.Duration(h.sum.Load())
	return s
}

// Add returns the snapshot of a histogram with the durations of both.
func (s Snapshot) Add(other Snapshot) Snapshot {
	for i := range s.Cumulative {
		s.Cumulative[i] += other.Cumulative[i]
	}
	s.Count += other.Count
	s.Sum += other.Sum
	return s
}
