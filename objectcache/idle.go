// SPDX-License-Identifier: Apache-2.0

package objectcache

import "time"

// Objects that no Get asks for, for IdleTimeout.

// startIdleTimerLocked starts the timer that stops the watch of an idle entry.
func (s *WatchStore[T]) startIdleTimerLocked(e *entry[T]) {
	e.used.And(^usedIdle)
	e.idleTimer = s.startTimerLocked(s.options.IdleTimeout, func() time.Duration {
		if !s.isIdleLocked(e) {
			return s.options.IdleTimeout
		}
		s.stopLocked(e, errIdle)
		return 0
	})
}

// restartIdleTimerLocked starts the timer again, with the first sync.
func (s *WatchStore[T]) restartIdleTimerLocked(e *entry[T]) {
	if e.idleTimer.timer.Stop() {
		e.idleTimer.timer.Reset(s.options.IdleTimeout)
	} else {
		e.used.Or(usedIdle) // it fires now
	}
}

// isIdleLocked reports whether an entry was not used since the last call. An entry
// that has not synced counts as used: a Get may have given up, and may come again.
func (s *WatchStore[T]) isIdleLocked(e *entry[T]) bool {
	if !e.state().Synced {
		e.used.Or(usedIdle)
		return false
	}
	used := e.used.And(^usedIdle)&usedIdle != 0
	return !used && e.waiters == 0 && len(s.subscribers) == 0
}
