// SPDX-License-Identifier: Apache-2.0

package objectcache

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/refwatch/refwatch/objectcache/internal/engine"
)

// Objects that no Get asks for, for IdleTimeout.

// startIdleTimerLocked starts the timer that stops the watch of an idle entry.
func (s *WatchStore[T]) startIdleTimerLocked(e *entry[T]) {
	e.used.And(^usedIdle)
	e.startableLocked().idle = s.startTimerLocked(s.options.IdleTimeout, func() time.Duration {
		if !s.isIdleLocked(e) {
			return s.options.IdleTimeout
		}
		s.stopLocked(e, errIdle)
		return 0
	})
}

// restartIdleTimerLocked starts the timer again, with the first sync.
func (s *WatchStore[T]) restartIdleTimerLocked(e *entry[T]) {
	if e.timersLocked().idle.timer.Stop() {
		e.timersLocked().idle.timer.Reset(s.options.IdleTimeout)
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
	return !used && e.waiters.Load() == 0 && len(s.subscribers) == 0
}

// Gets of objects without references, for AcquireOnGet.

// LeaseOwner is the UID that references an object because a Get has asked for it: with
// [WatchOptions].AcquireOnGet, and in the cache of package controllerruntime. It stands among the owners in
// [Status] and in Changes: skip it to list the owners of the program.
const LeaseOwner types.UID = "refwatch/lease"

// acquireLocked adds a reference of LeaseOwner to an object without references.
func (s *WatchStore[T]) acquireLocked(key types.NamespacedName) *entry[T] {
	return s.addLocked(key, LeaseOwner, engine.NeedsStream)
}

// startLeaseTimerLocked starts the timer that deletes the reference of LeaseOwner, if
// there is one.
func (s *WatchStore[T]) startLeaseTimerLocked(e *entry[T]) {
	if !e.owners.Has(LeaseOwner) || e.timersLocked().lease != nil {
		return
	}
	e.startableLocked().lease = s.startTimerLocked(s.options.AcquireOnGet, func() time.Duration {
		if e.used.And(^usedLease)&usedLease != 0 || e.waiters.Load() > 0 {
			return s.options.AcquireOnGet
		}
		s.deleteLocked(e, LeaseOwner)
		return 0
	})
}
