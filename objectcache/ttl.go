// SPDX-License-Identifier: Apache-2.0

package objectcache

import (
	"context"
	"math"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/refwatch/refwatch/cache"
	"github.com/refwatch/refwatch/objectcache/internal/engine"
	"github.com/refwatch/refwatch/reflector/listwatch"
)

// The policy of a TTLStore, which is a WatchStore without streams. It reads an object with a
// GET, and for Gets alone: see startUnaskedLocked, and OnDemand in package engine. This file
// decides until when a state is served, and when a Get asks for a read.

// ttlReadSpacing is the shortest time between the beginnings of two reads of one object:
// however many Gets demand live reads, the server answers at most ten a second.
const ttlReadSpacing = 100 * time.Millisecond

// getSource is read with a GET.
type getSource[T cache.Object] struct {
	listwatch.Source

	resource *kind[T]
	key      types.NamespacedName
}

// Get implements listwatch.Getter.
func (s getSource[T]) Get(ctx context.Context) (runtime.Object, error) {
	state, err := s.resource.Read(ctx, s.key)
	if err != nil || !state.Exists {
		return nil, err
	}
	return state.Object, nil
}

// hasLapsed reports whether the TTL of the state is over.
func (s *WatchStore[T]) hasLapsed(w *objectWatch[T]) bool {
	return s.sinceBase(time.Now()) >= w.until.Load()
}

// freshUntil returns until when a state is served. began is when the read began that brought it.
func (s *WatchStore[T]) freshUntil(began time.Time, state cache.State[T]) int64 {
	immutable := s.isImmutable(state)
	return s.until(began, s.ttl.of(state.Exists, immutable), immutable)
}

// until returns began plus ttl, or plus MaxStaleness if that is shorter and the state is not
// immutable.
func (s *WatchStore[T]) until(began time.Time, ttl time.Duration, immutable bool) int64 {
	if bound := s.ttl.MaxStaleness; bound > 0 && !immutable {
		ttl = min(ttl, bound)
	}
	since := max(0, s.sinceBase(began))
	return since + min(int64(ttl), math.MaxInt64-since)
}

// prolongLocked serves the object that is held beyond its TTL, until the read that is under
// way has succeeded: see readDoneLocked.
func (s *WatchStore[T]) prolongLocked(w *objectWatch[T]) {
	if w.upkeep != engine.ByRead || !w.entry.state().Exists {
		return
	}
	w.until.Store(s.until(s.contact(w.entry), math.MaxInt64, w.entry.immutable))
	s.publishLocked(w.entry)
}

// readDoneLocked is called when the store notices a read. It takes back what keepPreviousLocked
// has done until then: the state is served for its TTL, and an owner needs a read of its own.
func (s *WatchStore[T]) readDoneLocked(w *objectWatch[T]) {
	w.until.Store(w.lapses)
	w.entry.previousFor = min(w.entry.previousFor, w.entry.readFor)
}

// requestGetLocked asks for the read that g needs. If a request is under way, g first waits for
// its answer, which is fresh unless the TTL is 0.
func (s *WatchStore[T]) requestGetLocked(g *waiter[T]) {
	e := g.entry
	w := e.watch.Load()
	if w == nil { // the watch that begins now reads for g
		e.readBegan = time.Now()
		s.readForLocked(g)
		return
	}
	d := s.demandLocked(g)
	f, _ := s.factsLocked(e, w)
	switch {
	case f.Meets(&d, time.Now()), g.slept && g.ctx.Err() != nil:
	case g.read > 0:
		s.readAgainLocked(g, w)
	case g.live, g.slept, f.Attempts.AskedAt.IsZero():
		s.readForLocked(g)
	}
}

// readAfterLocked starts the read that a Get has asked for after a pause. The Get may have ended.
func (s *WatchStore[T]) readAfterLocked(e *entry[T], pause time.Duration) {
	s.stopTimerLocked(e.readTimer)
	e.readTimer = s.startTimerLocked(pause, func() time.Duration {
		s.startReadLocked(e)
		return 0
	})
}

// of returns for how long a state that was just read is served.
func (o *TTLOptions) of(exists, immutable bool) time.Duration {
	ttl := o.TTL
	if o.TTLFunc != nil {
		if own, ok := o.TTLFunc(); ok {
			ttl = forever(own)
		}
	}
	switch {
	case !exists:
		return min(ttl, o.NotFoundTTL)
	case !immutable:
		return ttl
	case o.ImmutableRecheck < 0:
		return math.MaxInt64
	}
	return max(ttl, jittered(o.ImmutableRecheck))
}
