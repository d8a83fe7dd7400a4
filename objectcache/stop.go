// SPDX-License-Identifier: Apache-2.0

package objectcache

import "k8s.io/apimachinery/pkg/types"

// How a store is stopped, and what its Gets return from then on.

// stop stops the store, because the context of Run has ended.
func (s *WatchStore[T]) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hasStoppedLocked()
}

// hasStoppedLocked reports whether the context of Run has ended, and stops the store then. A Get may notice it before
// Run does. With one context for both it would else return one error or another. Such a Get stops all entries: that
// is done once, waits for nothing, and takes a time in proportion to their number. Run would do it with the same lock,
// for which the Get would wait as long.
func (s *WatchStore[T]) hasStoppedLocked() bool {
	if !s.stopped && s.run != nil && s.run.Err() != nil {
		s.stopAllLocked()
	}
	return s.stopped
}

func (s *WatchStore[T]) stopAllLocked() {
	s.stopped = true
	s.keepCausesLocked()
	s.cancel() // before the reflectors are stopped: the program ends, and not their objects
	for e := range s.entries.all() {
		s.stopLocked(e, errStopping)
		s.stopTimerLocked(e.timersLocked().lease)
		e.wakeLocked()
	}
	for key := range s.notices {
		s.cancelNoticeLocked(key)
	}
	s.stopTimerLocked(s.backoffs.timer)
	s.subscribers.shutDown()
}

// keepCausesLocked keeps why objects are not known, or not newer. The objects themselves are dropped.
func (s *WatchStore[T]) keepCausesLocked() {
	s.lastCauses = map[types.NamespacedName][]error{}
	for e := range s.entries.all() {
		w := e.watch.Load()
		if w == nil {
			continue
		}
		if causes := causesOf(w.status()); len(causes) > 0 {
			s.lastCauses[e.key] = causes
		}
	}
}

// stoppedErrorLocked returns the error of a Get of a store that has been stopped.
func (s *WatchStore[T]) stoppedErrorLocked(g *waiter[T]) error {
	return s.resource.Error(g.key, hasStopped(s.run, g.ctx, s.lastCauses[g.key]...)...)
}
