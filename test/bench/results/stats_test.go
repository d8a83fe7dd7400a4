// SPDX-License-Identifier: Apache-2.0

package results

import (
	"math"
	"slices"
	"testing"
)

// same compares numbers, of which no number equals another missing one.
func same(a, b float64) bool { return a == b || math.IsNaN(a) && math.IsNaN(b) }

func TestMedian(t *testing.T) {
	tests := map[string]struct {
		values []float64
		want   float64
	}{
		"none":       {nil, math.NaN()},
		"one":        {[]float64{3}, 3},
		"odd":        {[]float64{9, 1, 5}, 5},
		"even":       {[]float64{4, 1, 2, 3}, 2.5},
		"an outlier": {[]float64{1, 1, 1000}, 1},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			before := slices.Clone(test.values)
			if got := Median(test.values); !same(got, test.want) {
				t.Errorf("Median(%v): got %v, want %v", test.values, got, test.want)
			}
			if !slices.Equal(before, test.values) {
				t.Errorf("values after Median: got %v, want %v", test.values, before)
			}
		})
	}
}

func TestPercentile(t *testing.T) {
	var hundred []float64
	for i := range 100 {
		hundred = append(hundred, float64(100-i))
	}
	tests := map[string]struct {
		values  []float64
		percent float64
		want    float64
	}{
		"none":           {nil, 50, math.NaN()},
		"one":            {[]float64{7}, 99, 7},
		"median":         {hundred, 50, 50},
		"p99":            {hundred, 99, 99},
		"all":            {hundred, 100, 100},
		"least":          {hundred, 0, 1},
		"between ranks":  {[]float64{1, 2, 3, 4}, 60, 3},
		"p99 of just 20": {hundred[:20], 99, 100},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := Percentile(test.values, test.percent); !same(got, test.want) {
				t.Errorf("Percentile(%v): got %v, want %v", test.percent, got, test.want)
			}
		})
	}
}

func TestRatio(t *testing.T) {
	tests := map[string]struct{ a, b, want float64 }{
		"half":            {1, 2, 0.5},
		"of nothing":      {1, 0, math.NaN()},
		"nothing":         {0, 2, 0},
		"below zero":      {-1, 2, math.NaN()},
		"of below zero":   {1, -2, math.NaN()},
		"missing":         {math.NaN(), 2, math.NaN()},
		"of what misses":  {1, math.NaN(), math.NaN()},
		"nothing of none": {0, 0, math.NaN()},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := Ratio(test.a, test.b); !same(got, test.want) {
				t.Errorf("Ratio(%v, %v): got %v, want %v", test.a, test.b, got, test.want)
			}
		})
	}
}
