// SPDX-License-Identifier: Apache-2.0

package moment

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/refwatch/refwatch/internal/slept"
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

// The age of what happened before a sleep of the machine counts it; that of what happened after it does not, also if
// nobody has asked for an age in between. Since is by the monotonic clock.
func TestMomentsAroundASleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before := Now()
		time.Sleep(time.Second)
		defer slept.Fake(time.Hour)()
		after := Now()
		time.Sleep(time.Second)
		if got, want := time.Since(before.Time()), time.Hour+2*time.Second; got != want {
			t.Errorf("age of a time before the sleep: got %v, want %v", got, want)
		}
		if got := time.Since(after.Time()); got != time.Second {
			t.Errorf("age of a time after the sleep: got %v, want 1 s", got)
		}
		if got := before.Since(); got != 2*time.Second {
			t.Errorf("Since: got %v, want 2 s", got)
		}
	})
}
