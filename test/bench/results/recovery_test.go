// SPDX-License-Identifier: Apache-2.0

package results

import (
	"math"
	"testing"
)

func TestRecovery(t *testing.T) {
	tests := map[string]struct {
		recovery   Recovery
		first, all float64
	}{
		"never":       {Recovery{10, []float64{-1, 0, 1}, []int64{10, 0, 0}}, math.NaN(), math.NaN()},
		"some":        {Recovery{10, []float64{-1, 0, 1}, []int64{10, 0, 5}}, 1, math.NaN()},
		"all":         {Recovery{10, []float64{-1, 0, 1, 2}, []int64{10, 0, 5, 10}}, 1, 2},
		"before zero": {Recovery{10, []float64{-2, -1, -0.5, 2}, []int64{10, 0, 5, 10}}, -0.5, 2},
		// The streams of before break one after another, and one that opened may break again.
		"slow to break": {Recovery{10, []float64{-3, -2, -1, 0, 1, 2}, []int64{10, 4, 0, 2, 0, 10}}, 2, 2},
		"not sampled":   {Recovery{Want: 10}, math.NaN(), math.NaN()},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := test.recovery.First(); !same(got, test.first) {
				t.Errorf("first stream: got %v, want %v", got, test.first)
			}
			if got := test.recovery.All(); !same(got, test.all) {
				t.Errorf("all streams: got %v, want %v", got, test.all)
			}
		})
	}
}

func TestMedianRecovery(t *testing.T) {
	if _, ok := medianRecovery(nil); ok {
		t.Errorf("median of no recovery: got one, want none")
	}
	took := func(seconds float64) Recovery {
		return Recovery{Want: 1, Seconds: []float64{-1, seconds}, Open: []int64{0, 1}}
	}
	got, _ := medianRecovery([]Recovery{took(9), took(1), took(5)})
	if got.All() != 5 {
		t.Errorf("median of 9, 1 and 5 seconds: got %v, want 5", got.All())
	}
}
