// SPDX-License-Identifier: Apache-2.0

// Package moment has times of this process in 8 bytes. A time.Time takes 24, and a reflector
// keeps several, of which most are never looked at.
package moment

import (
	"math"
	"sync/atomic"
	"time"
)

// Moment is a time by the monotonic clock, which no change of the wall clock moves. The zero
// Moment is none, and is before all others.
type Moment int64

// base is long before every Moment: a Moment minus a duration is then still after the zero Moment.
// A bubble of testing/synctest begins in the year 2000.
var base = time.Now().Add(-50 * 365 * 24 * time.Hour)

// Now returns the time of the call.
func Now() Moment { return Moment(time.Since(base)) }

// Since returns how long ago m was: longer than any other duration for the zero Moment.
func (m Moment) Since() time.Duration { return Now().Sub(m) }

// IsZero reports whether m is none.
func (m Moment) IsZero() bool { return m == 0 }

// Before reports whether m is before other.
func (m Moment) Before(other Moment) bool { return m < other }

// After reports whether m is after other.
func (m Moment) After(other Moment) bool { return m > other }

// Add returns the time that is d after m.
func (m Moment) Add(d time.Duration) Moment { return m + Moment(d) }

// Sub returns how long m is after other. If other is the zero Moment, and m is not, it is longer
// than any other duration, as for time.Time.
func (m Moment) Sub(other Moment) time.Duration {
	if other == 0 && m > 0 {
		return math.MaxInt64
	}
	return time.Duration(m - other)
}

// anchor is base, with the wall clock of its last step.
var anchor atomic.Pointer[time.Time]

// step is by how much the wall clock must be off to count as set.
const step = time.Second

// Time returns m as a time.Time: the zero Time for the zero Moment. Two calls return the same
// unless the wall clock was set in between. Equal compares the monotonic clock.
func (m Moment) Time() time.Time {
	if m == 0 {
		return time.Time{}
	}
	now := time.Now()
	since, by := now.Sub(base), anchor.Load()
	if by == nil || now.Round(0).Sub(by.Add(since).Round(0)).Abs() > step {
		by = new(now.Add(-since))
		anchor.Store(by)
	}
	return by.Add(time.Duration(m))
}
