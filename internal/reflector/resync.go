// SPDX-License-Identifier: Apache-2.0

package reflector

import (
	"context"
	"time"
)

// resyncer is what a reflector with a ResyncPeriod has. It is nil for all others: most
// programs have many reflectors and no period.
type resyncer struct {
	period time.Duration
	// writing is full during a Resync, which has a goroutine of its own, and while an
	// event is stored. A session stores its state before the first Resync, and its end
	// waits for the last one.
	writing chan struct{}
	stop    func()
}

// newResyncer returns nil if there is no period.
func newResyncer(period time.Duration) *resyncer {
	if period <= 0 {
		return nil
	}
	return &resyncer{period: period, writing: make(chan struct{}, 1)}
}

// beginWrite waits until nobody else writes the store. The caller ends its own write with
// endWrite.
func (r *resyncer) beginWrite() {
	if r != nil {
		r.writing <- struct{}{}
	}
}

func (r *resyncer) endWrite() {
	if r != nil {
		<-r.writing
	}
}

// startResync starts the goroutine that calls the store's Resync, if there is a period.
func (r *Reflector) startResync() {
	if r.store.resyncer == nil {
		return
	}
	ctx, cancel := context.WithCancel(r.ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.resyncUntil(ctx)
	}()
	r.store.resyncer.stop = func() {
		cancel()
		<-done
	}
}

// stopResync ends that goroutine and waits for it.
func (r *Reflector) stopResync() {
	if r.store.resyncer != nil {
		r.store.resyncer.stop()
	}
}

// resyncUntil calls the store's Resync after each period until ctx ends. One timer serves
// all sessions: a period may be longer than a stream lives.
func (r *Reflector) resyncUntil(ctx context.Context) {
	period := r.store.resyncer.period
	timer := time.NewTimer(period)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
			r.resync()
			timer.Reset(period)
		case <-ctx.Done():
			return
		}
	}
}

// resync calls the store's Resync, if a stream is open whose state is stored. The
// session waits for it, and ends if it fails.
func (r *Reflector) resync() {
	r.mu.Lock()
	s := r.session
	r.mu.Unlock()
	if s == nil || !r.progress.status().Streaming || !s.life.beginCall() {
		return
	}
	defer s.life.endCall()
	if err := r.store.resync(); err != nil {
		s.end(err)
	}
}
