// SPDX-License-Identifier: Apache-2.0

package reflector

import (
	"runtime"
	"sync"
	"time"
)

const (
	// minWorkers is how many workers a gate has at least, where there is work for them.
	// With one, a store that takes long for one object would delay all others.
	minWorkers = 4
	// stuckAfter is how long sessions wait while no worker takes one. Then there are more
	// workers, one at first and twice as many each time: functions of the program block the
	// others. So a thousand functions that block delay other objects by half a second.
	stuckAfter = 50 * time.Millisecond
	// keepWorker is how long one worker waits for work. A new one would have to grow its stack
	// first, which takes a fifth of the CPU of an update.
	keepWorker = 5 * time.Second
)

// workers handle the parked streams of a gate, on goroutines that exist while there is
// work, and one a little longer. So a quiet stream has no goroutine, and the goroutine that
// reads a connection decodes nothing large, and calls nothing that blocks.
type workers struct {
	mu      sync.Mutex
	queue   []*session // in the order of their wakes; each is there once
	parked  int        // sessions that may bring work
	running int
	waiter  *waiter     // of the worker that waits for work; nil if none does
	stuck   *time.Timer // calls addWorkers; nil if no session has waited since a worker has ended
	added   int         // how many workers addWorkers has started last, 0 if none since then
}

// workState is where a session stands with the workers.
type workState uint8

const (
	unqueued workState = iota
	queuing            // it is in the queue
	working            // a worker handles it
	again              // a worker handles it, and it was added meanwhile
)

// add lets a worker handle a session.
func (w *workers) add(s *session) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.claimLocked(s) {
		s.workState = queuing
		w.queue = append(w.queue, s)
		w.startLocked()
	}
}

// work is add for a caller that handles the session itself, if no worker does or will.
func (w *workers) work(s *session) {
	if w.claim(s) {
		s.work(true)
		w.release(s)
	}
}

func (w *workers) claim(s *session) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.claimLocked(s)
}

func (w *workers) release(s *session) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.requeueLocked(s) {
		w.startLocked()
	}
}

// claimLocked reports whether the caller handles a session. If not, a worker does.
func (w *workers) claimLocked(s *session) bool {
	switch s.workState {
	case unqueued:
		s.workState = working
		return true
	case working:
		s.workState = again
	case queuing, again:
	}
	return false
}

// requeueLocked is called after a session was handled. It reports whether it is in the queue again.
func (w *workers) requeueLocked(s *session) bool {
	if s.workState != again {
		s.workState = unqueued
		return false
	}
	s.workState = queuing
	w.queue = append(w.queue, s)
	return true
}

// join counts a session that is parked.
func (w *workers) join() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.parked++
}

// leave is called when a session is not parked any more. No worker waits for others than
// those that are.
func (w *workers) leave() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.parked--; w.parked == 0 && w.waiter != nil {
		w.wakeLocked()
	}
}

// wakeLocked makes the worker that waits look for work.
func (w *workers) wakeLocked() {
	w.waiter.wake <- struct{}{} // there is room: it waits until it has received one
	w.waiter = nil
}

// startLocked starts a worker, if there are fewer than there may be. One that waits is woken.
func (w *workers) startLocked() {
	switch {
	case w.waiter != nil:
		w.wakeLocked()
	case w.running < max(minWorkers, runtime.GOMAXPROCS(0)):
		w.running++
		go w.run()
	case w.stuck == nil:
		w.stuck = time.AfterFunc(stuckAfter, w.addWorkers)
	}
}

// addWorkers starts workers beside those that are stuck, if sessions still wait.
func (w *workers) addWorkers() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.queue) == 0 {
		w.stopTimerLocked()
		return
	}
	if w.stuck == nil {
		return // it was stopped as it fired
	}
	w.stuck.Reset(stuckAfter)
	w.added = max(1, 2*w.added)
	for range min(w.added, len(w.queue)) {
		w.running++
		go w.run()
	}
}

// run is the goroutine of a worker.
func (w *workers) run() {
	var s *session
	own := waiter{wake: make(chan struct{}, 1)}
	defer func() {
		if s != nil { // a source or a store has ended the goroutine
			w.abandon(s)
		}
	}()
	for more := true; more; {
		if s = w.next(s); s != nil {
			s.work(false)
		} else {
			more = w.wait(&own)
		}
	}
}

// waiter is how a worker waits for work.
type waiter struct {
	wake  chan struct{} // gets a value when the worker must look for work
	timer *time.Timer   // its end
}

// wait lets a worker without work wait, if no other one does. It returns false if the worker
// ends, which is no longer counted then.
func (w *workers) wait(own *waiter) (more bool) {
	if waits, more := w.beginWait(own); !waits {
		return more
	}
	if own.timer == nil {
		own.timer = time.NewTimer(keepWorker)
	} else {
		own.timer.Reset(keepWorker)
	}
	select {
	case <-own.wake:
		own.timer.Stop()
		return true
	case <-own.timer.C:
		return w.endWait(own)
	}
}

func (w *workers) beginWait(own *waiter) (waits, more bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case len(w.queue) > 0:
		return false, true
	case w.waiter != nil || w.parked == 0:
		w.running--
		return false, false
	}
	w.waiter = own
	return true, true
}

// endWait ends a wait in which no work came.
func (w *workers) endWait(own *waiter) (more bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.waiter != own { // it was woken just now
		<-own.wake
		return true
	}
	w.waiter = nil
	w.running--
	return false
}

// next returns the session to handle next, after the one that was handled; nil if there
// is none.
func (w *workers) next(handled *session) (s *session) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if handled != nil {
		w.requeueLocked(handled)
	}
	if len(w.queue) == 0 {
		w.queue = nil
		w.stopTimerLocked()
		return nil
	}
	if w.stuck != nil {
		w.stuck.Reset(stuckAfter)
	}
	s, w.queue[0] = w.queue[0], nil
	w.queue = w.queue[1:]
	s.workState = working
	return s
}

func (w *workers) stopTimerLocked() {
	if w.stuck != nil {
		w.stuck.Stop()
		w.stuck, w.added = nil, 0
	}
}

// abandon ends a session, and its reflector, on another goroutine, with another worker in
// place of the one whose goroutine was ended.
func (w *workers) abandon(s *session) {
	w.mu.Lock()
	w.running--
	if len(w.queue) > 0 {
		w.startLocked()
	}
	w.mu.Unlock()
	s.unparked()
	go s.abandon()
}
