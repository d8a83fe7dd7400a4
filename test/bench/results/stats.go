// SPDX-License-Identifier: Apache-2.0

package results

import (
	"math"
	"slices"
)

// Median returns the middle of the values, or the mean of the two in the middle; not a number if there are none.
func Median(values []float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}

// Percentile returns the smallest value that is not below so many per cent of the values (the nearest rank); not a
// number if there are none.
func Percentile(values []float64, percent float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(values))
	rank := int(math.Ceil(percent / 100 * float64(len(sorted))))
	return sorted[min(max(rank, 1), len(sorted))-1]
}

// Ratio returns how much a is of b; not a number if that says nothing, as for numbers below zero.
func Ratio(a, b float64) float64 {
	if a < 0 || b <= 0 {
		return math.NaN()
	}
	return a / b
}
