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
)

// workers handle the parked streams of a gate, on goroutines that exist while there is
// work. So a quiet stream has no goroutine, and the goroutine that reads a connection
// decodes nothing.
type workers struct {
	mu      sync.Mutex
	queue   []*session // in the order of their wakes; each is there once
	running int
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
	switch s.workState {
	case unqueued:
		s.workState = queuing
		w.queue = append(w.queue, s)
		w.startLocked()
	case working:
		s.workState = again
	case queuing, again:
	}
}

// startLocked starts a worker, if there are fewer than there may be.
func (w *workers) startLocked() {
	switch {
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
	defer func() {
		if s != nil { // a source or a store has ended the goroutine
			w.abandon(s)
		}
	}()
	for s = w.next(nil); s != nil; s = w.next(s) {
		s.work()
	}
}

// next returns the session to handle next, after the one that was handled; nil if there
// is none, and the worker ends.
func (w *workers) next(handled *session) (s *session) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if handled != nil {
		if handled.workState == again {
			handled.workState = queuing
			w.queue = append(w.queue, handled)
		} else {
			handled.workState = unqueued
		}
	}
	if len(w.queue) == 0 {
		w.queue = nil
		w.running--
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
	s.life.unpark()
	go s.abandon()
}
