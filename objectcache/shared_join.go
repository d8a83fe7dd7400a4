// SPDX-License-Identifier: Apache-2.0

package objectcache

import (
	"github.com/refwatch/refwatch/cache"
	"github.com/refwatch/refwatch/objectcache/internal/engine"
	"github.com/refwatch/refwatch/reflector"
)

// How an object passes from its own stream to the shared one, without a gap:
//
//  1. Its own stream has synced. It becomes a member: from now on the shared stream does
//     not drop its events. Earlier events were dropped; its own stream may not have them
//     yet.
//  2. The next bookmark or event of the shared stream has a version (sharedEntry.known). All
//     events that were dropped are older.
//  3. Its own stream reaches that version, so its state has what was dropped, and all that
//     the shared stream has brought since.
//  4. The shared stream reaches the version of its own stream. It is not behind the
//     state, to which its next read may be no older.
//  5. A successor of its watch begins that has no stream of its own. The shared stream
//     writes its state from the next event on.
//
// With bookmarks every minute this takes one to three minutes. Both streams are open
// meanwhile, and the own one is not disturbed.
//
// The way back is a watch with a stream of its own (startLocked): it begins with
// the state that the shared stream has brought, and its first read is a consistent one.
// The object remains a member, unless the shared stream ends.
//
// An object whose stream fails does not become a member. So an object that cannot be
// decoded fails the shared stream at most once.

// shareLocked is called for an entry that needs a stream, after each change: it makes the
// entry a member, and then lets it join.
func (s *WatchStore[T]) shareLocked(e *entry[T], w *objectWatch[T], status reflector.Status) {
	if w.upkeep == engine.BySharedStream {
		return
	}
	s.countStreamLocked(e, true)
	n := s.shared[e.key.Namespace]
	if n == nil {
		return
	}
	switch st := n.stream; {
	case st == nil:
	case st.isMember(e.key.Name):
		st.joinLocked(st.member(e.key.Name))
	case w.isWell(status):
		st.members.Store(e.key.Name, &sharedEntry[T]{entry: e})
	}
}

// isWell reports whether the stream of a watch is open and the state of the entry is synced.
func (w *objectWatch[T]) isWell(status reflector.Status) bool {
	return w.upkeep != engine.ByNone && status.Streaming && status.Failures == 0 && w.entry.state().Synced
}

// joinLocked lets a member join if both streams have come far enough.
func (st *sharedStream[T]) joinLocked(m *sharedEntry[T]) {
	s, e := st.store, m.entry
	w := e.watch.Load()
	if m.known == "" || w == nil || w.upkeep == engine.BySharedStream {
		return
	}
	status := w.status()
	order, err := cache.CompareVersions(status.ResourceVersion, m.known)
	if err != nil || order < 0 || !w.isWell(status) || s.natureOf(e).WithoutStream() != engine.NeedsStream {
		return
	}
	if order, err = cache.CompareVersions(e.order.Version(), st.version); err != nil || order > 0 {
		return
	}
	next := s.nextWatchLocked(e)
	next.share(st)
	next.synced = true
	e.live = true
	w.stopLocked(errShared)
	e.watch.Store(next)
	s.publishLocked(e)
	e.wakeLocked()
	s.subscribers.notify(e.key) // changed() may not have seen the last change
}

// startBySharedLocked gives an entry a first watch that waits for the first read of the shared
// stream, and needs none of its own. It returns false if that read has begun, or is slow to
// begin, or if there is no shared stream.
func (s *WatchStore[T]) startBySharedLocked(e *entry[T]) bool {
	n := s.shared[e.key.Namespace]
	if n == nil || n.stream == nil || n.stream.asked || n.stream.isSlowLocked() || e.watch.Load() != nil {
		return false
	}
	w := s.nextWatchLocked(e)
	w.share(n.stream)
	n.stream.members.Store(e.key.Name, &sharedEntry[T]{entry: e})
	e.watch.Store(w)
	return true
}
