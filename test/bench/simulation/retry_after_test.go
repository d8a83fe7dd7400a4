// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"slices"
	"testing"
	"time"
)

func TestRetryAfter(t *testing.T) {
	tests := map[string]struct {
		drops []int // in each second
		want  []int // at the first of each; 0 where there is none
	}{
		"few":                    {[]int{1, 1, 1}, []int{1, 1, 1}},
		"many":                   {[]int{9, 9, 9, 9, 9, 9}, []int{1, 2, 2, 4, 4, 4}},
		"many, then few":         {[]int{9, 1, 1, 1, 1}, []int{1, 2, 2, 2, 2}},
		"many, then none, a few": {[]int{9, 9, 0, 0, 0, 1, 1}, []int{1, 2, 0, 0, 0, 1, 1}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			r := retryAfter{seconds: 1}
			var got []int
			for second, drops := range test.drops {
				first := 0
				for range drops {
					asked := r.drop(time.Unix(int64(1000+second), 0))
					if first == 0 {
						first = asked
					}
				}
				got = append(got, first)
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}

func TestRetryAfterIsBounded(t *testing.T) {
	r := retryAfter{seconds: 1}
	asked := 0
	for second := range int64(300) {
		for range 200 {
			asked = r.drop(time.Unix(1000+second, 0))
		}
	}
	if asked != longestRetryAfter {
		t.Errorf("got %d s after five minutes of drops, want %d", asked, longestRetryAfter)
	}
}

func TestUnreadyRetryAfter(t *testing.T) {
	tests := map[string]struct {
		downtime time.Duration
		want     int
	}{
		"at first":      {0, 1},
		"ten seconds":   {10 * time.Second, 1},
		"half a minute": {30 * time.Second, 6},
		"five minutes":  {5 * time.Minute, 30},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := unreadyRetryAfter(test.downtime); got != test.want {
				t.Errorf("got %d s, want %d s", got, test.want)
			}
		})
	}
}
