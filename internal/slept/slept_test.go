// SPDX-License-Identifier: Apache-2.0

package slept

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func now() time.Duration { return time.Since(Origin) }

// On a machine that is awake, nothing is counted, however often the clocks are compared and from however many
// goroutines.
func TestAwake(t *testing.T) {
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 20_000 {
				compare(now())
			}
		})
	}
	group.Wait()
	if got := Total(now()); got != 0 {
		t.Errorf("got %v, want no sleep", got)
	}
}

// Ages count each sleep from before its end, and no other.
func TestSleeps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var undo []func()
		defer func() {
			for i := range undo {
				undo[len(undo)-1-i]()
			}
			if got := Total(now()); got != 0 {
				t.Errorf("after the test: got %v, want 0", got)
			}
		}()
		var times []time.Duration
		for range 4 {
			times = append(times, now())
			time.Sleep(time.Minute)
			undo = append(undo, Fake(time.Hour))
			Note(now())
		}
		times = append(times, now())
		if got := Total(now()); got != 4*time.Hour {
			t.Errorf("total: got %v, want 4 h", got)
		}
		for i, at := range times {
			n := time.Duration(4 - i)
			want := n * (time.Hour + time.Minute)
			first, second := Time(Aged(at)), Time(Aged(at))
			if got := time.Since(first); got != want {
				t.Errorf("age of time %d: got %v, want %v", i, got, want)
			}
			if got := time.Now().Round(0).Sub(first.Round(0)); got != want {
				t.Errorf("age of time %d by the wall clock: got %v, want %v", i, got, want)
			}
			if first != second {
				t.Errorf("time %d: got %v, then %v, want the same", i, first, second)
			}
		}
	})
}

// A sleep is noticed at most a millisecond late, and less than a tenth of a second is none.
func TestNoticed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		Note(now())
		defer Fake(time.Hour)()
		compared.Store(int64(now()))
		if got := Total(now() + every - 1); got != 0 {
			t.Errorf("within a millisecond: got %v, want the clocks not compared", got)
		}
		if got := Total(now() + every); got != time.Hour {
			t.Errorf("after a millisecond: got %v, want an hour", got)
		}
		defer Fake(shortest - 1)()
		if got := Total(now()); got != time.Hour {
			t.Errorf("after a short pause: got %v, want an hour", got)
		}
	})
}

// The memory of a machine that is suspended again and again is bounded.
func TestManySleeps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before := slept.Load()
		defer slept.Store(before)
		for range 3 * most {
			time.Sleep(time.Second)
			Fake(time.Second)
			Note(now())
		}
		if got := Total(now()); got != 3*most*time.Second || len(slept.Load().sleeps) > most+1 {
			t.Errorf("got %v and %d sleeps, want all counted and about %d kept", got, len(slept.Load().sleeps), most)
		}
		faked.Add(-int64(3 * most * time.Second))
	})
}

func BenchmarkTotal(b *testing.B) {
	at := now()
	for b.Loop() {
		Total(at)
	}
}

func BenchmarkCompare(b *testing.B) {
	at := now()
	for b.Loop() {
		compare(at)
	}
}

// A bubble of testing/synctest has no monotonic clock. Times in it do not depend on an anchor from outside it, by whose
// wall clock they are off by nanoseconds, and times outside it do not depend on one from a bubble.
func TestBubbleAfterRealTime(t *testing.T) {
	anchor.Store(&anchored{origin: Origin.Add(16), monotonic: true})
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Second)
		at := time.Now()
		if got := Time(now()); !got.Equal(at) {
			t.Errorf("got %v, want %v", got, at)
		}
	})
	anchor.Store(&anchored{origin: Origin.Round(0)})
	if got := Time(now()); got == got.Round(0) {
		t.Errorf("after the bubble: got %v, want a time with a monotonic clock", got)
	}
}
