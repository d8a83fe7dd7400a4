// SPDX-License-Identifier: Apache-2.0

// Package slept counts the time for which this machine was suspended. The monotonic clock of Go, by which time.Since
// and timers go, stands still while a laptop or a virtual machine sleeps: a state that is a night old would count as
// fresh. Whatever computes the age of a state calls this package. Pauses and time-outs do not.
//
// On Linux the time is that by which CLOCK_BOOTTIME is ahead of CLOCK_MONOTONIC. On other systems it is 0.
package slept

import (
	"math"
	"sync/atomic"
	"time"
)

const (
	// every is after how long the clocks are compared again: a comparison takes two system calls. A function of this
	// package may miss the end of a sleep by so much.
	every = time.Millisecond
	// shortest is the shortest sleep. Less than that is the time between the readings of two clocks.
	shortest = 100 * time.Millisecond
	// most is how many sleeps are kept apart.
	most = 1000
)

// Origin is long before every time of this process. A bubble of testing/synctest begins in the year 2000.
var Origin = time.Now().Add(-50 * 365 * 24 * time.Hour)

// sleep is one time for which the machine was suspended.
type sleep struct {
	noticed time.Duration // since Origin: shortly after the machine woke up
	lasted  time.Duration
}

// history holds the sleeps of this process. It is never changed.
type history struct {
	total  time.Duration
	sleeps []sleep
}

var (
	slept    atomic.Pointer[history]
	compared atomic.Int64 // when the clocks were compared, since Origin
	faked    atomic.Int64 // by Fake
	started  = first()
)

// first returns what measure returns at the start of the process. Its results are too small if the thread is preempted
// in between, and never too large.
func first() (largest time.Duration) {
	slept.Store(&history{})
	for range 5 {
		largest = max(largest, measure())
	}
	return largest
}

// Total returns for how long the machine was suspended since the process began. at is the time of the call, since
// Origin.
func Total(at time.Duration) time.Duration {
	Note(at)
	return slept.Load().total
}

// Note notices a sleep that ended shortly before at, which is the time of the call, since Origin. A sleep that is
// noticed late counts for what has happened in between, too, so call it when a state arrives.
func Note(at time.Duration) {
	if since := at - time.Duration(compared.Load()); since < 0 || since >= every {
		compare(at)
	}
}

func compare(at time.Duration) {
	compared.Store(int64(at))
	total := (measure() - started).Round(time.Millisecond) + time.Duration(faked.Load())
	for {
		before := slept.Load()
		lasted := total - before.total
		if lasted < shortest {
			return
		}
		sleeps := append([]sleep(nil), before.sleeps[max(0, len(before.sleeps)-most):]...)
		if slept.CompareAndSwap(before, &history{total, append(sleeps, sleep{at, lasted})}) {
			return
		}
	}
}

// Aged returns a time since Origin, by the monotonic clock, by the clock of ages: it adds the time for which the
// machine had been suspended until then.
func Aged(at time.Duration) time.Duration {
	h := slept.Load()
	total := h.total
	for i := len(h.sleeps) - 1; i >= 0 && h.sleeps[i].noticed > at; i-- {
		total -= h.sleeps[i].lasted
	}
	return at + total
}

// anchored is Origin by the clock of ages, for a total of sleeps, with the wall clock of its last step.
type anchored struct {
	total     time.Duration
	origin    time.Time
	monotonic bool // origin has a monotonic clock. Times of a bubble of testing/synctest have none
}

var anchor atomic.Pointer[anchored]

// step is by how much the wall clock must be off to count as set.
const step = time.Second

// Time returns a time by the clock of ages as a time.Time: time.Since returns its age. Two calls return the same unless
// the wall clock was set, or the machine was suspended, in between. Equal compares the monotonic clock.
func Time(aged time.Duration) time.Time {
	now := time.Now()
	wall := now.Round(0)
	since := now.Sub(Origin)
	total := Total(since)
	since += total
	by := anchor.Load()
	// The wall clock of an anchor from outside a bubble is off by nanoseconds in it.
	if by == nil || by.total != total || by.monotonic != (now != wall) || wall.Sub(by.origin.Add(since).Round(0)).Abs() > step {
		by = &anchored{total, now.Add(-since), now != wall}
		anchor.Store(by)
	}
	return by.origin.Add(aged)
}

// Fake is for tests: it makes the machine wake up from a sleep of that time. The monotonic clock has stood still. Call
// the function that it returns at the end of the test, in which no other test may run.
func Fake(lasted time.Duration) (undo func()) {
	before := slept.Load()
	faked.Add(int64(lasted))
	compared.Store(math.MinInt64 / 2)
	return func() {
		faked.Add(-int64(lasted))
		slept.Store(before)
	}
}
