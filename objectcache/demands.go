// SPDX-License-Identifier: Apache-2.0

package objectcache

import (
	"fmt"
	"time"

	"github.com/refwatch/refwatch/cache"
	"github.com/refwatch/refwatch/objectcache/internal/engine"
	"github.com/refwatch/refwatch/reflector"
)

// Gets with demands on the state.

// requestReadLocked asks for the read that g needs, once. It starts another read of an
// object without a stream if the read that was under way is not the one.
func (s *WatchStore[T]) requestReadLocked(g *waiter[T]) {
	w := g.entry.watch.Load()
	switch {
	case s.ttl != nil:
		s.requestGetLocked(g)
	case g.read == 0:
		if g.needsRead() || w != nil && s.isReadAlone(g, w) && s.isTooOldLocked(g) {
			s.readForLocked(g)
		}
	case w != nil:
		s.readAgainLocked(g, w)
	}
}

// readAgainLocked starts another read if none is under way, and the last one was not that of g.
func (s *WatchStore[T]) readAgainLocked(g *waiter[T], w *objectWatch[T]) {
	if !w.upkeep.IsOwn() && g.entry.readFor < g.read {
		s.startReadLocked(g.entry)
	}
}

// startReadLocked starts a read of an object that has no stream of its own, unless such
// a read began less than readSpacing ago: Gets that are called again and again must not
// cause a request each. A Get that still waits then asks again: see readPause.
func (s *WatchStore[T]) startReadLocked(e *entry[T]) {
	if pause := s.readPauseLocked(e); pause > 0 {
		if s.ttl != nil {
			s.readAfterLocked(e, pause) // nobody may wait
		}
		return
	}
	e.readBegan = time.Now()
	s.startLocked(e)
}

// readPauseLocked returns how long startReadLocked waits before the next read.
func (s *WatchStore[T]) readPauseLocked(e *entry[T]) time.Duration {
	return time.Until(e.readBegan.Add(s.readSpacing))
}

// readPause returns after how long g must ask again for a read that was not started,
// negative if it need not.
func (s *WatchStore[T]) readPause(g *waiter[T], w *objectWatch[T]) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if g.read == 0 || w.upkeep.IsOwn() || g.entry.readFor >= g.read {
		return -1
	}
	return max(0, s.readPauseLocked(g.entry))
}

// isReadAlone reports whether a state that is too old for g is read for that object
// alone: it has no stream, or one that is shared, and the bound is that of g itself.
func (s *WatchStore[T]) isReadAlone(g *waiter[T], w *objectWatch[T]) bool {
	return w.upkeep == engine.ByNone || w.upkeep == engine.BySharedStream && g.maxStaleness > 0
}

// isTooOldLocked reports whether the state is older than g demands.
func (s *WatchStore[T]) isTooOldLocked(g *waiter[T]) bool {
	return !g.entry.immutable && isOlder(s.contact(g.entry), s.demandLocked(g).MaxStaleness)
}

// needsRead reports whether g demands a read of its own.
func (g *waiter[T]) needsRead() bool {
	return g.live || g.notOlderThan != "" && time.Since(g.began) >= eventGrace
}

// versionLocked returns the highest resource version that the object was seen at. The state has
// all changes up to it. status is that of its watch.
func (w *objectWatch[T]) versionLocked(status reflector.Status) string {
	version := w.entry.order.Version()
	if order, _ := cache.CompareVersions(status.ResourceVersion, version); w.shared != nil && order > 0 {
		return status.ResourceVersion // of a bookmark of the shared stream
	}
	return version
}

// readForLocked asks for a consistent read that begins after the call. Gets that ask
// while a read is under way share the next one.
func (s *WatchStore[T]) readForLocked(g *waiter[T]) {
	e := g.entry
	e.owners.Reads++
	g.read = e.owners.Reads
	switch w := e.watch.Load(); {
	case w == nil: // before Run: the first read is for all
	case !w.upkeep.IsOwn():
		s.startReadLocked(e)
	default:
		w.reflector.ReadFor(g.read)
	}
}

// behindError returns that the server is behind the version that g demands.
func (g *waiter[T]) behindError(version string) error {
	return fmt.Errorf("%w: the server is at version %s, and %s was demanded", ErrStale, version, g.notOlderThan)
}
