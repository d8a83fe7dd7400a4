// SPDX-License-Identifier: Apache-2.0

// Package moment has times of this process in 8 bytes. A time.Time takes 24, and a reflector
// keeps several, of which most are never looked at.
package moment

import (
	"math"
	"time"

	"github.com/refwatch/refwatch/internal/slept"
)

// Moment is a time by the monotonic clock, which no change of the wall clock moves, and which stands still while the
// machine is suspended: Since and Sub are for pauses and latencies. For an age, use Time, which counts the time of a
// sleep. The zero Moment is none, and is before all others.
type Moment int64

// base is long before every Moment: a Moment minus a duration is then still after the zero Moment.
var base = slept.Origin

// Now returns the time of the call.
func Now() Moment {
	now := time.Since(base)
	slept.Note(now) // so that a sleep is noticed before what arrives after it
	return Moment(now)
}

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

// Time returns m as a time.Time: the zero Time for the zero Moment. time.Since returns its age, with the time for which
// the machine was suspended. See slept.Time.
func (m Moment) Time() time.Time {
	if m == 0 {
		return time.Time{}
	}
	return slept.Time(slept.Aged(time.Duration(m)))
}
