// SPDX-License-Identifier: Apache-2.0

package objectcache

import (
	"context"
	"maps"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/refwatch/refwatch/cache"
	"github.com/refwatch/refwatch/internal/slept"
	"github.com/refwatch/refwatch/internal/states"
	"github.com/refwatch/refwatch/objectcache/internal/engine"
)

// A hedged read is a GET of an object beside the request that opens its stream. It begins
// while a Get waits for the first state, and whichever of the two is answered first answers
// the Get. The opening of a stream is a consistent read of a collection: if anything was
// written since etcd's last progress notification, kube-apiserver waits for the next one, up
// to 0.1 s. A GET reads one key of etcd and waits for nothing. A request may also hang.
//
// The object is the state until the stream has one, which may be older: see [states.Order.First].
// An absence has no version, and may be older than the state of the stream. So it does not
// count, and the Get waits for the stream. If the stream fails afterwards, the state is the
// last known one, as that of any stream that fails.
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
	hedgeCheck = time.Second
	// hedgesAtOnce is how many hedged reads of a store may be under way. Others are queued.
	hedgesAtOnce = 4
	// hedgeTimeout is how long a hedged read may take, and the shortest time between two of
	// one object, unless the first one brings the object. Then that is demandSpacing.
	hedgeTimeout = 3 * time.Second
	// hedgePause is how long a store begins no hedged read after one that failed. A
	// Retry-After is honored up to hedgePauseMost.
	hedgePause, hedgePauseMost = time.Second, time.Minute
	// hedgeRefused is how long there are none in a namespace in which one was refused.
	hedgeRefused = time.Hour
)

// hedges are the hedged reads of a store. WatchStore.mu guards them.
type hedges[T cache.Object] struct {
	underWay int
	queue    []hedge[T]           // the oldest first; one of a watch at most
	hung     time.Time            // when a Get last saw that an opening hangs
	paused   time.Time            // until when none begins
	refused  map[string]time.Time // until when none begins in a namespace
}

// hedge is a hedged read of an entry for one of its watches.
type hedge[T cache.Object] struct {
	entry   *entry[T]
	watch   *objectWatch[T]
	began   time.Time
	readFor uint64 // see engine.Owners
}

// hedgeFor begins a hedged read if one is due for g, which waits. It returns after how long g
// has to ask again, negative for never.
func (s *WatchStore[T]) hedgeFor(g *waiter[T], w *objectWatch[T], f *engine.Facts) time.Duration {
	attempts := &f.Attempts
	if !s.mayHedge || attempts.Away || !attempts.RefusedSince.IsZero() || time.Now().Before(attempts.RetryAfter) {
		return -1
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped || w.hedgeRefused || g.entry.watch.Load() != w || f.Synced && !w.isHedgedLocked() {
		return -1
	}
	now := time.Now()
	if !attempts.AnsweredAt.IsZero() {
		return hedgeCheck // a GET would wait for the function of WithTransform, too
	}
	if attempts.Hung {
		s.hedges.hung = now
	}
	hung := attempts.Hung || now.Sub(s.hedges.hung) < hedgeCheck && now.Sub(g.began) >= hedgeCheck // or is queued behind those that do
	if w.hedgeQueued || w.hedging || w.getting && !attempts.Hung || !hung && (attempts.Failures > 0 || s.waiters > hedgeAlone) {
		return hedgeCheck
	}
	due := later(g.began.Add(hedgeDelay), s.base.Add(w.nextHedge))
	due = later(due, later(s.hedges.paused, s.hedges.refused[g.key.Namespace]))
	if left := due.Sub(now); left > 0 {
		return left
	}
	w.hedgeQueued = true
	s.hedges.queue = append(s.hedges.queue, hedge[T]{entry: g.entry, watch: w})
	s.startHedgesLocked()
	return hedgeCheck // nothing wakes g if it is dropped from the queue
}

// startHedgesLocked starts as many of the hedged reads in the queue as may be under way.
func (s *WatchStore[T]) startHedgesLocked() {
	for len(s.hedges.queue) > 0 && s.hedges.underWay < hedgesAtOnce {
		h := s.hedges.queue[0]
		s.dropHedgesLocked(1)
		e, w := h.entry, h.watch
		if s.stopped || e.waiters.Load() == 0 || e.watch.Load() != w || e.state().Synced && !w.isHedgedLocked() {
			continue
		}
		h.began, h.readFor = time.Now(), e.owners.Reads
		w.nextHedge = h.began.Add(hedgeTimeout).Sub(s.base)
		w.hedging, w.overlaps = true, w.overlaps || w.getting
		s.hedges.underWay++
		s.background.Go(func() { s.runHedge(h) })
	}
}

// dropHedgesLocked drops the oldest hedged reads in the queue. No reference to them is left.
func (s *WatchStore[T]) dropHedgesLocked(n int) {
	for i := range n {
		s.hedges.queue[i].watch.hedgeQueued = false
	}
	s.hedges.queue = slices.Delete(s.hedges.queue, 0, n)
	if len(s.hedges.queue) == 0 {
		s.hedges.queue = nil
	}
}

// dropHedgeLocked drops the hedged read of a watch from the queue.
func (s *WatchStore[T]) dropHedgeLocked(w *objectWatch[T]) {
	w.hedgeQueued = false
	s.hedges.queue = slices.DeleteFunc(s.hedges.queue, func(h hedge[T]) bool { return h.watch == w })
}

// runHedge reads the object, and starts those that are queued when the server has answered: the
// function of WithTransform may block.
func (s *WatchStore[T]) runHedge(h hedge[T]) {
	ctx, cancel := context.WithTimeout(s.ctx, hedgeTimeout)
	defer cancel()
	var state states.State[T] // zero if a client, or the function, ends the goroutine
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		h.watch.hedging = false
		if state.Exists {
			s.storeHedgedLocked(h, state)
		}
	}()
	read, err := s.readHedge(ctx, h)
	if err == nil && read.Exists {
		read.Object, err = s.resource.Transform(read.Object)
	}
	if err == nil {
		state = read
	}
	if s.ctx.Err() == nil {
		s.counters.CountRead(err)
	}
}

// readHedge sends the request of a hedged read.
func (s *WatchStore[T]) readHedge(ctx context.Context, h hedge[T]) (state states.State[T], err error) {
	err = context.Canceled // a client may end the goroutine
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.hedges.underWay--
		if err != nil {
			s.hedgeFailedLocked(h, err)
		}
		s.startHedgesLocked()
	}()
	return s.resource.Read(ctx, h.entry.key)
}

// hedgeFailedLocked records that the request of a hedged read has failed.
func (s *WatchStore[T]) hedgeFailedLocked(h hedge[T], err error) {
	if h.watch.hedgeRefused = apierrors.IsForbidden(err); h.watch.hedgeRefused && h.watch.synced {
		s.refuseHedgesLocked(h.watch)
	}
	pause := hedgePause
	if seconds, ok := apierrors.SuggestsClientDelay(err); ok {
		pause = min(max(pause, time.Duration(seconds)*time.Second), hedgePauseMost)
	}
	s.hedges.paused = later(s.hedges.paused, time.Now().Add(pause))
	s.dropHedgesLocked(len(s.hedges.queue)) // Gets that still wait come again
}

// storeHedgedLocked stores the state that a hedged read has brought, unless the stream has
// brought one, was refused, or was replaced.
func (s *WatchStore[T]) storeHedgedLocked(h hedge[T], state states.State[T]) {
	e, w := h.entry, h.watch
	if e.watch.Load() != w || !w.status().RefusedSince.IsZero() {
		return
	}
	state, verdict := e.order.First(e.state(), state)
	if verdict == states.Late {
		return
	}
	w.hedged = true
	w.nextHedge = s.now() + demandSpacing
	e.noticed = true
	e.readFor = max(e.readFor, h.readFor)
	w.storeLocked(state, verdict)
	s.publishLocked(e)
	raise(&e.contact, int64(slept.Aged(h.began.Sub(slept.Origin))-s.sinceOrigin))
	s.syncedLocked(e)
	e.wakeLocked()
	s.subscribers.notify(e.key)
}

// hedgesEndLocked is called when a read of the stream itself has been stored. If a GET was refused,
// and the list or watch was not, there are no hedged reads in the namespace for a while.
func (s *WatchStore[T]) hedgesEndLocked(w *objectWatch[T]) {
	if w.hedgeRefused {
		s.refuseHedgesLocked(w)
	}
	w.hedged, w.hedgeRefused = false, false
}

// refuseHedgesLocked begins the time without hedged reads in a namespace: the server has refused one
// of a watch, and has answered its stream.
func (s *WatchStore[T]) refuseHedgesLocked(w *objectWatch[T]) {
	now := time.Now()
	maps.DeleteFunc(s.hedges.refused, func(_ string, until time.Time) bool { return now.After(until) })
	if s.hedges.refused == nil {
		s.hedges.refused = map[string]time.Time{}
	}
	s.hedges.refused[w.entry.key.Namespace] = now.Add(hedgeRefused)
}
