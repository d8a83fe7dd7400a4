// SPDX-License-Identifier: Apache-2.0

// Package moment has times of this process in 8 bytes. A time.Time takes 24, and a reflector
// keeps several, of which most are never looked at.
package moment

import "time"

// Moment is a time by the monotonic clock, which no change of the wall clock moves. The zero
// Moment is none.
type Moment int64

// base is before every Moment.
var base = time.Now().Add(-1)

// Now returns the time of the call.
func Now() Moment { return Moment(time.Since(base)) }

// Since returns how long ago m was. It means nothing for the zero Moment.
func (m Moment) Since() time.Duration { return time.Duration(Now() - m) }

// Time returns m as a time.Time: the zero Time for the zero Moment. Two calls may differ in the
// wall clock, which may have been set in between. Equal compares the monotonic clock.
func (m Moment) Time() time.Time {
	if m == 0 {
		return time.Time{}
	}
	now := time.Now()
	return now.Add(time.Duration(m) - now.Sub(base))
}
