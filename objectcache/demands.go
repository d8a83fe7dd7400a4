// SPDX-License-Identifier: Apache-2.0

package objectcache

import (
	"fmt"
	"time"

	"github.com/refwatch/refwatch/cache"
	"github.com/refwatch/refwatch/reflector"
)

// requestReadLocked asks for the read that g needs, once. It starts another read of an
// object without a stream if the read that was under way is not the one.
func (s *WatchStore[T]) requestReadLocked(g *waiter[T]) {
	w := g.entry.watch.Load()
	switch {
	case g.read == 0:
		if g.needsRead() || w != nil && w.unwatched != "" && s.isTooOld(g, w) {
			s.readForLocked(g)
		}
	case w != nil && !w.hasOwnStream() && !g.readDone(w):
		s.startLocked(g.entry)
	}
}

// isTooOld reports whether the state of w is older than g demands.
func (s *WatchStore[T]) isTooOld(g *waiter[T], w *objectWatch[T]) bool {
	return w.isStale(s.stalenessBound(g, w)) && !s.isImmutable(w.slot.Load())
}

// needsRead reports whether g demands a read of its own.
func (g *waiter[T]) needsRead() bool {
	return g.live || g.notOlderThan != "" && time.Since(g.began) >= eventGrace
}

// demandsRead reports whether only a newer state will do for g.
func (g *waiter[T]) demandsRead() bool { return g.live || g.notOlderThan != "" }

// readDone reports whether the read that g has asked for has reached the slot.
func (g *waiter[T]) readDone(w *objectWatch[T]) bool {
	return g.read > 0 && w.readFor.Load() >= g.read
}

// isMet reports whether the state of w, if it is loaded after status, meets what g
// demands beyond its age.
func (g *waiter[T]) isMet(w *objectWatch[T], state cache.State[T], status reflector.Status) bool {
	if g.live && !g.readDone(w) {
		return false
	}
	if g.notOlderThan == "" {
		return true
	}
	for _, version := range []string{status.ResourceVersion, state.ResourceVersion} {
		if order, err := cache.CompareVersions(version, g.notOlderThan); err == nil && order >= 0 {
			return true
		}
	}
	return false
}

// readForLocked asks for a consistent read that begins after the call. Gets that ask
// while a read is under way share the next one.
func (s *WatchStore[T]) readForLocked(g *waiter[T]) {
	e := g.entry
	e.owners.reads++
	g.read = e.owners.reads
	switch w := e.watch.Load(); {
	case w == nil: // before Run: the first read is for all
	case !w.hasOwnStream():
		s.startLocked(e)
	default:
		w.reflector.ReadFor(g.read)
	}
}

// isBehind reports whether the read that g has asked for is older than g demands, so
// that waiting does not help. Call it after isMet has failed.
func (g *waiter[T]) isBehind(w *objectWatch[T]) bool { return g.notOlderThan != "" && g.readDone(w) }

// staleError returns why the state is too old for g.
func (g *waiter[T]) staleError(w *objectWatch[T], status reflector.Status) error {
	if !g.isBehind(w) {
		return ErrStale
	}
	return fmt.Errorf("%w: the server is at version %s, and %s was demanded", ErrStale, status.ResourceVersion, g.notOlderThan)
}
