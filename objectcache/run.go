// SPDX-License-Identifier: Apache-2.0

package objectcache

import "context"

// Run starts the streams of all objects that are referenced, now or later. It
// blocks until ctx ends and every goroutine of the store has ended, and returns
// nil. A second call returns [ErrAlreadyStarted], a nil context [ErrNilContext].
//
// The store logs to the logger of ctx, and to klog's before Run. If the client has
// a rate limiter of its own, Run logs that once, at level 0: see [resource.ErrClientLimited].
func (s *WatchStore[T]) Run(ctx context.Context) error {
	if ctx == nil {
		return ErrNilContext
	}
	if !s.startAll(ctx) {
		return ErrAlreadyStarted
	}
	s.resource.logRateLimit(ctx)
	<-ctx.Done()
	s.stopAll()
	s.background.Wait()
	return nil
}

// startAll reports whether this is the first call.
func (s *WatchStore[T]) startAll(ctx context.Context) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx != nil {
		return false
	}
	s.ctx = ctx
	if s.shared != nil {
		s.countAllLocked() // a shared stream then reads all of them
	}
	for _, e := range s.entries.Range {
		e := e.(*entry[T])
		s.startUnaskedLocked(e)
		e.wakeLocked()
		s.subscribers.notify(e.key)
	}
	return true
}

func (s *WatchStore[T]) stopAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopped = true
	if s.shared != nil {
		s.stopSharedLocked()
	}
	for _, e := range s.entries.Range {
		e := e.(*entry[T])
		s.stopLocked(e, errStopping)
		s.stopTimerLocked(e.leaseTimer)
		e.wakeLocked()
	}
	for key := range s.notices {
		s.cancelNoticeLocked(key)
	}
	s.subscribers.shutDown()
}
