// SPDX-License-Identifier: Apache-2.0

package objectcache

import "time"

const (
	// pollInterval is how long after its last read a polled object is read again.
	pollInterval = 30 * time.Second
	// pollPace is the shortest time between the beginnings of two polls: 50 a second.
	pollPace = 20 * time.Millisecond
	// promoteAgain is when to look again for an object that can use a free stream.
	promoteAgain = time.Second
)

// isPolledLocked reports whether an object is polled, and not being read now.
func (e *entry[T]) isPolledLocked() bool {
	w := e.watch.Load()
	return w != nil && w.unwatched == Polling
}

// scheduleLocked makes tickLocked run after a duration, or before. There is one timer
// for all polled objects.
func (s *WatchStore[T]) scheduleLocked(after time.Duration) {
	l := s.limit
	at := time.Now().Add(after)
	if s.stopped || l.timer != nil && !l.timer.stopped && !at.Before(l.wakeAt) {
		return
	}
	s.stopTimerLocked(l.timer)
	l.wakeAt = at
	l.timer = s.startTimerLocked(after, func() time.Duration {
		l.timer = nil
		s.tickLocked()
		return 0
	})
}

// tickLocked opens a stream that is free, or else begins the next poll that is due. A
// poll is a read as any other: the Gate admits it, and one that fails is repeated by
// its reflector, apart from healthy ones. So no object waits for the poll of another.
func (s *WatchStore[T]) tickLocked() {
	l := s.limit
	l.free, l.ended = l.free+l.ended, 0
	if s.promoteLocked() {
		s.scheduleLocked(pollPace)
		return
	}
	front := l.polled.Front()
	if front == nil {
		l.heirs = nil
		return
	}
	p := front.Value.(*place[T])
	if now := time.Now(); !p.due.After(now) {
		p.due = now.Add(pollInterval) // unless the read ends before
		l.polled.MoveToBack(front)
		if p.entry.isPolledLocked() {
			s.startLocked(p.entry)
		}
		s.scheduleLocked(pollPace)
		return
	}
	next := time.Until(p.due)
	if l.free > 0 {
		next = min(next, promoteAgain)
	}
	s.scheduleLocked(max(next, pollPace))
}
