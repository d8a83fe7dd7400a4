// SPDX-License-Identifier: Apache-2.0

package objectcache

import (
	"context"
	"math"
	"math/rand/v2"
	"time"

	"github.com/refwatch/refwatch/cache"
)

// readSpacing is the shortest time between the beginnings of two reads of one object:
// however many Gets demand live reads, the server answers at most ten a second.
const readSpacing = 100 * time.Millisecond

// readLocked starts the goroutine that reads an object, unless there is one.
func (s *TTLStore[T]) readLocked(e *ttlEntry[T]) {
	if s.ctx == nil || s.stopped || e.cancel != nil {
		return
	}
	ctx, cancel := context.WithCancel(s.ctx)
	e.cancel = cancel
	s.background.Add(1)
	go s.readUntilDone(ctx, e, e.lastBegan)
}

// readUntilDone reads an object until a read has succeeded and no Get has asked for
// another one meanwhile, or until ctx ends. lastBegan is when the last read began.
func (s *TTLStore[T]) readUntilDone(ctx context.Context, e *ttlEntry[T], lastBegan time.Time) {
	defer s.background.Done()
	for again := true; again; {
		if pause := time.Until(lastBegan.Add(readSpacing)); pause > 0 {
			sleep(ctx, nil, pause)
		}
		var read *reading[T]
		err := e.reader.Read(ctx, func(ctx context.Context) (err error) {
			read = s.began(e)
			lastBegan = read.began
			if read.state, err = s.resource.Read(ctx, e.key); err == nil {
				read.ttl = s.ttl(read.state)
			}
			return err
		})
		again = s.ended(ctx, e, read, err)
	}
}

// began records that a request begins. It returns the reading without its state.
func (s *TTLStore[T]) began(e *ttlEntry[T]) *reading[T] {
	s.mu.Lock()
	defer s.mu.Unlock()
	e.underWay, e.lastBegan = true, time.Now()
	return &reading[T]{began: e.lastBegan, readFor: e.owners.reads, triedFor: e.owners.reads}
}

// ended records the outcome of an attempt. It reports whether another must follow.
func (s *TTLStore[T]) ended(ctx context.Context, e *ttlEntry[T], read *reading[T], err error) (again bool) {
	if err == nil && ctx.Err() == nil {
		// Only the reads of the entry, which do not overlap, change the state in its reading.
		read = e.reading.Load().replacedBy(read, &e.order)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	e.underWay = false
	if ctx.Err() != nil { // the entry is dropped
		return false
	}
	if err != nil {
		e.reading.Store(e.reading.Load().afterFailure(read.triedFor))
	} else {
		e.reading.Store(read)
		if again = e.asked > read.readFor; !again {
			e.cancel()
			e.cancel = nil
		}
	}
	e.wakeLocked()
	s.subscribers.notify(e.key)
	return again || err != nil
}

// ttl returns for how long a state that was just read is served.
func (s *TTLStore[T]) ttl(state cache.State[T]) time.Duration {
	ttl := s.options.TTL
	if s.options.TTLFunc != nil {
		if own, ok := s.options.TTLFunc(); ok {
			ttl = own
		}
	}
	recheck := s.options.ImmutableRecheck
	switch {
	case !state.Exists:
		return min(ttl, s.options.NotFoundTTL)
	case !s.isImmutable(state):
		return ttl
	case recheck < 0:
		return math.MaxInt64
	}
	return max(ttl, recheck+time.Duration(rand.Float64()*float64(recheck)))
}
