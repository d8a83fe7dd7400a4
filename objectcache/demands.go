// SPDX-License-Identifier: Apache-2.0

package objectcache

import (
	"fmt"
	"time"

	"github.com/refwatch/refwatch/cache"
	"github.com/refwatch/refwatch/reflector"
)

// needsRead reports whether g must ask for a read that it has not asked for yet.
func (g *waiter[T]) needsRead() bool {
	return g.read == 0 && (g.live || g.notOlderThan != "" && time.Since(g.began) >= eventGrace)
}

// demandsRead reports whether only a newer state will do for g.
func (g *waiter[T]) demandsRead() bool { return g.live || g.notOlderThan != "" }

// readDone reports whether the read that g has asked for has reached the slot.
func (g *waiter[T]) readDone(w *objectWatch[T]) bool {
	return g.read > 0 && w.readFor.Load() >= g.read
}

// isMet reports whether the state of w, if it is loaded after status, meets what g
// demands beyond its age.
func (g *waiter[T]) isMet(w *objectWatch[T], status reflector.Status) bool {
	if g.live && !g.readDone(w) {
		return false
	}
	if g.notOlderThan == "" {
		return true
	}
	order, err := cache.CompareVersions(status.ResourceVersion, g.notOlderThan)
	return err == nil && order >= 0
}

// readForLocked asks for a consistent read that begins after the call. Gets that ask
// while a read is under way share the next one.
func (s *WatchStore[T]) readForLocked(g *waiter[T]) {
	e := g.entry
	e.owners.reads++
	g.read = e.owners.reads
	switch w := e.watch.Load(); {
	case w == nil: // before Run: the first read is for all
	case w.unwatched != "", w.shared != nil:
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
