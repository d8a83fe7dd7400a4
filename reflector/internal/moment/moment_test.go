// SPDX-License-Identifier: Apache-2.0

package moment

import (
	"testing"
	"testing/synctest"
	"time"
)

// A Moment is the time at which Now was called, also in a bubble, whose clock is another one than that of the base.
func TestMoment(t *testing.T) {
	if got := Moment(0).Time(); !got.IsZero() {
		t.Errorf("no Moment: got %v, want no time", got)
	}
	before, m := time.Now(), Now()
	if got := m.Time(); got.Before(before) || time.Since(got) < 0 || m <= 0 {
		t.Errorf("got %v, want a time after %v", got, before)
	}
	synctest.Test(t, func(t *testing.T) {
		began, m := time.Now(), Now()
		time.Sleep(time.Hour)
		if got := m.Since(); got != time.Hour {
			t.Errorf("got a Moment %v ago, want an hour", got)
		}
		if m.Add(-time.Hour) <= 0 || m.Sub(0) < 100*365*24*time.Hour {
			t.Errorf("got %d, want it long after no Moment", m)
		}
		if got := m.Time(); !got.Equal(began) || got.Round(0) != began.Round(0) {
			t.Errorf("got %v, want %v", got, began)
		}
	})
}
