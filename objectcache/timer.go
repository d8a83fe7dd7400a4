// SPDX-License-Identifier: Apache-2.0

package objectcache

import "time"

// timer calls a function with WatchStore.mu held, once or repeatedly. Run waits
// for every timer.
//
// The runtime may keep a stopped timer, and all that its function reaches, for
// long. The function may therefore reach an entry, which drops its objectWatch and its
// object (forgetLocked), and never an object.
type timer struct {
	timer   *time.Timer
	stopped bool      // guarded by WatchStore.mu
	at      time.Time // when it fires for the first time
}

// startTimerLocked calls fire after a duration, and again after each duration that
// fire returns, until that is 0.
func (s *WatchStore[T]) startTimerLocked(after time.Duration, fire func() (again time.Duration)) *timer {
	t := &timer{at: time.Now().Add(after)}
	s.background.Add(1)
	t.timer = time.AfterFunc(after, func() { s.fire(t, fire) })
	return t
}

func (s *WatchStore[T]) fire(t *timer, fire func() (again time.Duration)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !t.stopped {
		if again := fire(); again > 0 && !t.stopped {
			t.timer.Reset(again)
			return
		}
		t.stopped = true
	}
	s.background.Done()
}

// stopTimerLocked stops a timer. It does nothing if t is nil or has stopped.
func (s *WatchStore[T]) stopTimerLocked(t *timer) {
	if t == nil || t.stopped {
		return
	}
	t.stopped = true
	if t.timer.Stop() {
		s.background.Done()
	}
}
