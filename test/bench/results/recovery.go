// SPDX-License-Identifier: Apache-2.0

package results

import (
	"cmp"
	"math"
	"slices"
)

// First returns when the first stream was open again, in seconds since the server was ready; not a number if none
// was. It is negative if the server took it in before it said that it was ready.
func (r Recovery) First() float64 { return r.reached(1) }

// All returns when as many streams were open as before the outage.
func (r Recovery) All() float64 { return r.reached(int64(r.Want)) }

// reached returns the first time with so many streams open after the last one with none: streams do not break all
// at once when the server goes away.
func (r Recovery) reached(open int64) float64 {
	from := 0
	for i, now := range r.Open {
		if now == 0 {
			from = i
		}
	}
	for i := from; i < len(r.Open); i++ {
		if r.Open[i] >= open {
			return r.Seconds[i]
		}
	}
	return math.NaN()
}

// medianRecovery returns the round that took the middle of all times, the later one of two.
func medianRecovery(rounds []Recovery) (Recovery, bool) {
	if len(rounds) == 0 {
		return Recovery{}, false
	}
	sorted := slices.SortedFunc(slices.Values(rounds), func(a, b Recovery) int { return cmp.Compare(a.All(), b.All()) })
	return sorted[len(sorted)/2], true
}
