// SPDX-License-Identifier: Apache-2.0

package objectcache

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/refwatch/refwatch/cache"
	"github.com/refwatch/refwatch/reflector"
)

// A hedged read is a GET of an object beside the request that opens its stream. It begins
// while a Get waits for the first state, and whichever of the two is answered first answers
// the Get. The opening of a stream is a consistent read of a collection: if anything was
// written since etcd's last progress notification, kube-apiserver waits for the next one, up
// to 0.1 s. A GET reads one key of etcd and waits for nothing. A request may also hang.
//
// The object is the state until the stream has one, which may be older: see [cache.Slot.First].
// An absence has no version, so it cannot be told from one that is older, and the Get goes
// on waiting. If the stream fails afterwards, the state is the last known one, as that of any
// stream that fails.
//
// Only stores of clients without a rate limit hedge: else the two requests would wait for
// each other.

const (
	// hedgeDelay is how long a Get waits before a hedged read begins. An opening takes less
	// on a quiet server nearby.
	hedgeDelay = 3 * time.Millisecond
	// hedgeAlone is how many Gets may wait in a store for that: the openings for many
	// overlap, and share one consistent read. While openings hang, there is no such limit.
	hedgeAlone = 4
	// hedgeCheck is how often a Get looks whether openings hang.
	hedgeCheck = 2 * time.Second
	// hedgesAtOnce is how many hedged reads of a store may be under way. Others are queued.
	hedgesAtOnce = 4
	// hedgeTimeout is how long a hedged read may take, and the shortest time between two of
	// one object.
	hedgeTimeout = 3 * time.Second
	// hedgePause is how long a store begins no hedged read after one that failed.
	hedgePause = time.Second
)

// hedges are the hedged reads of a store. WatchStore.mu guards them.
type hedges[T cache.Object] struct {
	underWay int
	queue    []hedge[T]          // the oldest first
	hung     time.Time           // when a Get last saw that an opening hangs
	paused   time.Time           // until when none begins
	refused  map[string]struct{} // namespaces in which the server refuses them, for the life of the store
}

// hedge is a hedged read of an entry for one of its watches.
type hedge[T cache.Object] struct {
	entry   *entry[T]
	watch   *objectWatch[T]
	began   time.Time
	readFor uint64 // see owners
}

// hedgeFor begins a hedged read if one is due for g, which waits. It returns after how long g
// has to ask again, negative for never.
func (s *WatchStore[T]) hedgeFor(g *waiter[T], w *objectWatch[T], f *facts) time.Duration {
	attempts := &f.attempts
	if f.synced || !s.mayHedge || attempts.Away || !attempts.RefusedSince.IsZero() || time.Now().Before(attempts.RetryAfter) {
		return -1
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	_, refused := s.hedges.refused[g.key.Namespace]
	if refused || s.stopped || w.shared != nil || g.entry.watch.Load() != w {
		return -1
	}
	now := time.Now()
	if attempts.Hung {
		s.hedges.hung = now
	}
	hung := attempts.Hung || now.Sub(s.hedges.hung) < hedgeCheck && now.Sub(g.began) >= hedgeCheck // or is queued behind those that do
	if !hung && (attempts.Failures > 0 || s.waiters > hedgeAlone) {
		return hedgeCheck
	}
	due := later(g.began.Add(hedgeDelay), s.hedges.paused)
	if w.hedgedAt > 0 {
		due = later(due, w.base.Add(w.hedgedAt+hedgeTimeout))
	}
	if left := time.Until(due); left > 0 {
		return left
	}
	w.hedgedAt = time.Since(w.base)
	s.hedges.queue = append(s.hedges.queue, hedge[T]{entry: g.entry, watch: w})
	s.startHedgesLocked()
	return hedgeTimeout
}

// startHedgesLocked starts as many of the hedged reads in the queue as may be under way.
func (s *WatchStore[T]) startHedgesLocked() {
	for len(s.hedges.queue) > 0 && s.hedges.underWay < hedgesAtOnce {
		h := s.hedges.queue[0]
		s.hedges.queue = s.hedges.queue[1:]
		_, refused := s.hedges.refused[h.entry.key.Namespace]
		if refused || s.stopped || h.entry.waiters == 0 || h.entry.watch.Load() != h.watch || h.watch.slot.Load().Synced {
			continue
		}
		h.began, h.readFor = time.Now(), h.entry.owners.reads
		h.watch.hedgedAt = h.began.Sub(h.watch.base)
		s.hedges.underWay++
		s.background.Go(func() { s.runHedge(h) })
	}
}

// runHedge reads the object, and starts those that are queued.
func (s *WatchStore[T]) runHedge(h hedge[T]) {
	ctx, cancel := context.WithTimeout(s.ctx, hedgeTimeout)
	defer cancel()
	state, err := s.resource.readState(ctx, h.entry.key)
	if s.ctx.Err() == nil {
		s.counters.CountRead(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hedges.underWay--
	switch {
	case err == nil && state.Exists:
		s.storeHedgedLocked(h, state)
	case err == nil:
	case apierrors.IsForbidden(err):
		if s.hedges.refused == nil {
			s.hedges.refused = map[string]struct{}{}
		}
		s.hedges.refused[h.entry.key.Namespace] = struct{}{}
	default:
		pause := hedgePause
		if seconds, ok := apierrors.SuggestsClientDelay(err); ok {
			pause = max(pause, time.Duration(seconds)*time.Second)
		}
		s.hedges.paused = later(s.hedges.paused, time.Now().Add(pause))
		s.hedges.queue = nil // Gets that still wait come again
	}
	s.startHedgesLocked()
}

// storeHedgedLocked stores the state that a hedged read has brought, unless the stream has
// brought one, was refused, or was replaced.
func (s *WatchStore[T]) storeHedgedLocked(h hedge[T], state cache.State[T]) {
	e, w := h.entry, h.watch
	if e.watch.Load() != w || !w.status().RefusedSince.IsZero() || !w.slot.First(state.Object) {
		return
	}
	w.hedged = true
	w.reflector.Seen(state.ResourceVersion)
	w.contact.Store(max(w.contact.Load(), int64(h.began.Sub(w.base))))
	w.readFor.Store(max(w.readFor.Load(), h.readFor))
	s.syncedLocked(e, w)
	e.wakeLocked()
	s.subscribers.notify(e.key)
}

// replaceHedgedLocked is called when the first read of a stream has reached the slot. If that
// is older than the state from a hedged read, the stream is opened again: in between, the
// server may have been restored from a backup.
func (w *objectWatch[T]) replaceHedgedLocked(status reflector.Status) {
	if !w.hedged {
		return
	}
	w.hedged = false
	if order, _ := cache.CompareVersions(status.ResourceVersion, w.slot.Version()); order < 0 {
		w.reflector.Refresh()
	}
}
