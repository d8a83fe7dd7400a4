// SPDX-License-Identifier: Apache-2.0

package moment

import (
	"math"
	"testing"
	"testing/synctest"
	"time"
)

// Moments order as times do, at the beginning of a bubble and a century later.
func TestMomentsOfACentury(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var zero Moment
		if !zero.Time().IsZero() || zero.Since() != math.MaxInt64 || !zero.Before(Now()) {
			t.Errorf("the zero Moment: got %v, %v old", zero.Time(), zero.Since())
		}
		first := Now()
		at := time.Now()
		for year := range 101 {
			now := Now()
			if !now.Time().Equal(time.Now()) {
				t.Fatalf("year %d: got %v, want %v", year, now.Time(), time.Now())
			}
			if got, want := now.Sub(first), time.Since(at); got != want || first.Since() != want {
				t.Fatalf("year %d: got %v since the first, want %v", year, got, want)
			}
			if !first.Time().Equal(at) {
				t.Fatalf("year %d: the first is %v, want %v", year, first.Time(), at)
			}
			if m := now.Add(-24 * time.Hour); m <= 0 || !m.After(zero) || now.Sub(m) != 24*time.Hour {
				t.Fatalf("year %d: a day before is %v", year, m)
			}
			time.Sleep(365 * 24 * time.Hour)
		}
	})
}

// Two calls of Time of one Moment are the same time.
func TestTimeOfAMomentIsTheSame(t *testing.T) {
	m := Now()
	first := m.Time()
	differ := 0
	for range 10_000 {
		if got := m.Time(); !got.Equal(first) {
			t.Fatalf("got %v, want %v", got, first)
		} else if got != first || got.Round(0) != first.Round(0) {
			differ++
		}
	}
	if differ > 0 {
		t.Errorf("%d of 10,000 calls gave another wall clock: a text or JSON of the same failure changes", differ)
	}
}
