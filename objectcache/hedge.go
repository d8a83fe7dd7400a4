// SPDX-License-Identifier: Apache-2.0

package objectcache

import (
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/refwatch/refwatch/cache"
	"github.com/refwatch/refwatch/internal/slept"
	"github.com/refwatch/refwatch/internal/states"
	"github.com/refwatch/refwatch/objectcache/internal/engine"
)

// Hedged reads: GETs beside openings of streams. [engine.Hedges] decides when one begins.
//
// The object is the state until the stream has one, which may be older: see [states.Order.First].
// An absence has no version, and may be older than the state of the stream. So it does not
// count, and the Get waits for the stream. If the stream fails afterwards, the state is the
// last known one, as that of any stream that fails.
//
// Only stores of clients without a rate limit hedge: else the two requests would wait for
// each other.

// hedge is a hedged read of a watch.
type hedge[T cache.Object] struct {
	watch   *objectWatch[T]
	began   time.Time
	readFor uint64 // see engine.Owners
}

// hedgeFor begins a hedged read if one is due for g, which waits. It returns after how long g
// has to ask again, negative for never.
func (s *WatchStore[T]) hedgeFor(g *waiter[T], w *objectWatch[T], f *engine.Facts) time.Duration {
	if !s.mayHedge {
		return -1
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped || g.entry.watch.Load() != w {
		return -1
	}
	attempts := &f.Attempts
	again := s.hedges.Ask(w, &w.hedge, engine.HedgeWait{
		Began: g.began.Sub(s.base), Namespace: g.key.Namespace, Waiting: s.waiters,
		Known:    f.Synced && !w.isHedgedLocked(),
		Getting:  w.getting,
		Barred:   attempts.Away || !attempts.RefusedSince.IsZero() || time.Now().Before(attempts.RetryAfter),
		Answered: !attempts.AnsweredAt.IsZero() || attempts.Arriving,
		Failed:   attempts.Failures > 0,
		Hung:     attempts.Hung, RoundTrip: attempts.RoundTrip,
	}, s.now())
	s.startHedgesLocked()
	return again
}

// startHedgesLocked starts as many of the hedged reads in the queue as may be under way.
func (s *WatchStore[T]) startHedgesLocked() {
	needed := func(w *objectWatch[T]) bool {
		e := w.entry
		return !s.stopped && e.waiters.Load() > 0 && e.watch.Load() == w && (!e.state().Synced || w.isHedgedLocked())
	}
	for {
		w, ok := s.hedges.Begin(needed, s.now())
		if !ok {
			return
		}
		w.overlaps = w.overlaps || w.getting
		h := hedge[T]{watch: w, began: time.Now(), readFor: w.entry.owners.Reads}
		ctx, cancel := context.WithTimeout(s.ctx, s.hedges.Timeout())
		s.cancelHedge[w] = cancel
		s.background.Go(func() { s.runHedge(ctx, h) })
	}
}

// runHedge reads the object, and starts those that are queued when the server has answered: the
// function of WithTransform may block.
func (s *WatchStore[T]) runHedge(ctx context.Context, h hedge[T]) {
	var state states.State[T] // zero if a client, or the function, ends the goroutine
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		h.watch.hedge.End(state.Exists && s.storeHedgedLocked(h, state), s.now())
		s.cancelHedge[h.watch]()
		delete(s.cancelHedge, h.watch)
	}()
	read, err := s.readHedge(ctx, h)
	if err == nil && read.Exists {
		read.Object, err = s.resource.Transform(read.Object)
	}
	if err == nil {
		state = read
	}
	if !errors.Is(ctx.Err(), context.Canceled) {
		s.counters.CountRead(err)
	}
}

// readHedge sends the request of a hedged read.
func (s *WatchStore[T]) readHedge(ctx context.Context, h hedge[T]) (state states.State[T], err error) {
	w := h.watch
	err = context.Canceled // a client may end the goroutine
	began := time.Now()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if errors.Is(err, context.Canceled) {
			s.hedges.Canceled(s.now())
		} else {
			s.hedges.Answered(&w.hedge, w.entry.key.Namespace, w.synced, err, s.now())
		}
		if err == nil || apierrors.IsForbidden(err) {
			w.reflector.Contact(time.Since(began))
		}
		s.startHedgesLocked()
	}()
	return s.resource.Read(ctx, w.entry.key)
}

// storeHedgedLocked stores the state that a hedged read has brought, unless the stream has
// brought one, was refused, or was replaced.
func (s *WatchStore[T]) storeHedgedLocked(h hedge[T], state states.State[T]) (stored bool) {
	w := h.watch
	e := w.entry
	if e.watch.Load() != w || !w.status().RefusedSince.IsZero() {
		return false
	}
	state, verdict := e.order.First(e.state(), state)
	if verdict == states.Late {
		return false
	}
	e.noticed = true
	e.readFor = max(e.readFor, h.readFor)
	w.storeLocked(state, verdict)
	s.publishLocked(e)
	raise(&e.contact, int64(slept.Aged(h.began.Sub(slept.Origin))-s.sinceOrigin))
	s.syncedLocked(e)
	e.wakeLocked()
	s.subscribers.notify(e.key)
	return true
}
