// SPDX-License-Identifier: Apache-2.0

package objectcache

import (
	"time"

	"github.com/refwatch/refwatch/cache"
	"github.com/refwatch/refwatch/objectcache/internal/engine"
)

// view is what a Get needs to know of an object. It never changes: a newer one replaces it.
type view[T cache.Object] struct {
	state cache.State[T]
	ready bool // Get may return the state to all owners, unless it is too old
	ages  bool // a bound on its age applies: see isYoung
}

// state returns the last known state of an entry, the zero State if none is known.
func (e *entry[T]) state() (state cache.State[T]) {
	if v := e.view.Load(); v != nil {
		state = v.state
	}
	return state
}

// ready returns the state of a key, if Get may return it without a lock.
func (s *WatchStore[T]) ready(e *entry[T]) (state cache.State[T], ok bool) {
	v := e.view.Load()
	if v == nil || !v.ready {
		return state, false
	}
	if v.ages {
		// A state that is loaded after that is no older.
		young := s.isYoung(e)
		if v = e.view.Load(); v == nil || !v.ready || v.ages && !young {
			return state, false
		}
	}
	return v.state, true
}

// setStateLocked makes a state the last known one of an entry.
func (s *WatchStore[T]) setStateLocked(e *entry[T], state cache.State[T]) {
	e.immutable = s.isImmutable(state)
	ready, ages := s.judgeLocked(e, state.Synced)
	e.view.Store(&view[T]{state, ready, ages})
}

// isImmutable reports whether a state can never change, and so needs no stream.
func (s *WatchStore[T]) isImmutable(state cache.State[T]) bool {
	return s.unwatchImmutable && state.Exists && state.Synced && s.resource.immutable(state.Object)
}

// publishLocked publishes what has changed of an entry, but for its state.
func (s *WatchStore[T]) publishLocked(e *entry[T]) {
	v := e.view.Load()
	if v == nil {
		return
	}
	if ready, ages := s.judgeLocked(e, v.state.Synced); ready != v.ready || ages != v.ages {
		e.view.Store(&view[T]{v.state, ready, ages})
	}
}

// judgeLocked returns the flags of a view of an entry: see view.
func (s *WatchStore[T]) judgeLocked(e *entry[T], synced bool) (ready, ages bool) {
	readFor, owner := e.readFor, e.newestOwnerLocked()
	if s.ttl != nil {
		readFor = max(readFor, e.previousFor) // a state that lapses: see isYoung
	}
	ready = synced && engine.Servable(readFor, owner, e.live, e.immutable, false)
	return ready, s.ttl != nil || s.maxStalenessLocked(e) > 0 && !e.immutable
}

// isYoung reports whether the state of an entry is young enough for a Get without demands.
func (s *WatchStore[T]) isYoung(e *entry[T]) bool {
	if s.ttl != nil {
		w := e.watch.Load()
		return w != nil && !s.hasLapsed(w)
	}
	return !isOlder(s.contact(e), s.options.MaxStaleness)
}

// contact returns when the server last sent something about an object, zero if it never did.
// A state that is loaded after the call may be younger.
func (s *WatchStore[T]) contact(e *entry[T]) (at time.Time) {
	since := e.contact.Load()
	if w := e.watch.Load(); w != nil && w.shared != nil {
		since = max(since, w.shared.contact.Load())
	}
	if since > 0 {
		at = s.base.Add(time.Duration(since))
	}
	return at
}

// sinceBase returns a time as it is stored in entry.contact.
func (s *WatchStore[T]) sinceBase(at time.Time) int64 { return int64(at.Sub(s.base)) }

// isOlder reports whether the server has sent nothing for longer than a duration; 0 is no
// bound.
func isOlder(contact time.Time, bound time.Duration) bool {
	return bound > 0 && (contact.IsZero() || time.Since(contact) > bound)
}
