// SPDX-License-Identifier: Apache-2.0

package objectcache

import (
	"container/list"
	"time"

	"github.com/refwatch/refwatch/cache"
)

const (
	// holdsStream is how long an object keeps its stream at least, and how long it must
	// be unused before another object takes the stream over.
	holdsStream = time.Minute
	// oftenUsed is in how many polls in a row an object must have been used since the
	// poll before, to take a stream over.
	oftenUsed = 2
	// swapPace is the shortest time between two such changes.
	swapPace = 100 * time.Millisecond
	// looks bounds how many objects are looked at for one decision.
	looks = 10
)

// streamLimit decides which objects of a store have a stream, if [WatchOptions].MaxStreams
// is set. The others are polled: see poll.go. Objects that need no stream (immutable or
// read-once ones) are not its concern. All fields are guarded by WatchStore.mu.
//
// An object gets a stream if one is free when it is read. If none is, and the object is
// used often, it takes over the stream of one that is not used. That is CLOCK: streams
// is a ring, and an object in it that was used since the last look gets another round.
type streamLimit[T cache.Object] struct {
	free      int         // streams that may be opened
	ended     int         // streams that have ended since the last tick, and become free with the next
	heirs     []*entry[T] // the polled objects that get the next free streams
	streams   list.List   // a place for each object with a stream, the one to look at next first
	polled    list.List   // a place for each polled object, the one to poll next first
	swappedAt time.Time
	timer     *timer // nil unless there is something to do
	wakeAt    time.Time
}

// place is the place of an entry in one of the lists of a streamLimit.
type place[T cache.Object] struct {
	entry *entry[T]
	list  *list.List
	due   time.Time // when a polled object is polled
	// lookedAt is when uses of the object were last looked at. For one with a stream,
	// it is when a look last found that it was used.
	lookedAt time.Time
	used     int // looks in a row that found that a polled object was used
}

func newStreamLimit[T cache.Object](options *WatchOptions) *streamLimit[T] {
	if options.MaxStreams == 0 {
		return nil
	}
	return &streamLimit[T]{free: options.MaxStreams}
}

// takeStreamLocked reports whether the next watch may keep a stream open.
func (s *WatchStore[T]) takeStreamLocked() bool {
	l := s.limit
	if l == nil {
		return true
	}
	if l.free <= len(l.heirs) {
		return false
	}
	l.free--
	return true
}

// streamEndedLocked is called when the stream of a watch has ended. The server may not
// have noticed yet, so another stream may be opened in a moment.
func (s *WatchStore[T]) streamEndedLocked(w *objectWatch[T]) {
	if w.counted {
		s.limit.ended++
		s.scheduleLocked(pollPace)
	}
}

// placeLocked puts an entry into the list that it belongs to, after its watch has
// started or ended.
func (s *WatchStore[T]) placeLocked(e *entry[T]) {
	l := s.limit
	if l == nil {
		return
	}
	w := e.watch.Load()
	switch {
	case w == nil || w.unwatched != "" && w.unwatched != Polling:
		l.remove(e)
	case w.unwatched == Polling:
		p := l.move(e, &l.polled)
		p.due = time.Now().Add(pollInterval)
		s.lookLocked(p)
		if l.polled.Front() == e.place || l.free > 0 {
			s.scheduleLocked(pollPace)
		}
	case w.counted:
		l.move(e, &l.streams).lookedAt = time.Now()
	case e.place != nil && e.place.Value.(*place[T]).list == &l.streams:
		l.remove(e) // until it has been read without a stream
	}
}

// move puts an entry at the end of a list.
func (l *streamLimit[T]) move(e *entry[T], to *list.List) *place[T] {
	if e.place != nil {
		if p := e.place.Value.(*place[T]); p.list == to {
			to.MoveToBack(e.place)
			return p
		}
		l.remove(e)
	}
	p := &place[T]{entry: e, list: to, lookedAt: time.Now()}
	e.place = to.PushBack(p)
	return p
}

func (l *streamLimit[T]) remove(e *entry[T]) {
	if e.place != nil {
		e.place.Value.(*place[T]).list.Remove(e.place)
		e.place = nil
	}
}

// lookLocked is called when a polled object has been read. If it is used often, it takes
// over a stream.
func (s *WatchStore[T]) lookLocked(p *place[T]) {
	now := time.Now()
	if now.Sub(p.lookedAt) < pollInterval {
		return // a Get has asked for the read
	}
	p.lookedAt = now
	if p.entry.used.And(^usedLimit)&usedLimit == 0 {
		p.used = 0
		return
	}
	if p.used++; p.used >= oftenUsed && s.limit.free == 0 && now.Sub(s.limit.swappedAt) >= swapPace {
		s.swapLocked(p.entry, now)
	}
}

// swapLocked ends the stream of an object that is not used, if it finds one soon, for
// the benefit of another.
func (s *WatchStore[T]) swapLocked(heir *entry[T], now time.Time) {
	l := s.limit
	for range min(looks, l.streams.Len()) {
		p := l.streams.Front().Value.(*place[T])
		l.streams.MoveToBack(l.streams.Front())
		switch {
		case p.entry.used.And(^usedLimit)&usedLimit != 0:
			p.lookedAt = now
		case now.Sub(p.lookedAt) >= holdsStream:
			l.swappedAt = now
			l.heirs = append(l.heirs, heir)
			s.startLocked(p.entry) // without a stream, for none is free
			return
		}
	}
}

// promoteLocked opens a stream for a polled object, if one is free. It prefers heirs, and
// then objects that are used. It reports whether it did.
func (s *WatchStore[T]) promoteLocked() bool {
	l := s.limit
	for l.free > 0 && len(l.heirs) > 0 {
		heir := l.heirs[0]
		l.heirs[0] = nil
		l.heirs = l.heirs[1:]
		if heir.isPolledLocked() {
			s.startLocked(heir)
			return true
		}
	}
	if l.free == 0 {
		return false
	}
	next := l.nextLocked()
	if next != nil {
		s.startLocked(next)
	}
	return next != nil
}

// nextLocked returns the polled object to open a stream for, nil if there is none.
func (l *streamLimit[T]) nextLocked() (next *entry[T]) {
	for at, n := l.polled.Front(), looks; at != nil && n > 0; at, n = at.Next(), n-1 {
		switch e := at.Value.(*place[T]).entry; {
		case !e.isPolledLocked():
		case e.used.Load()&usedLimit != 0:
			return e
		case next == nil:
			next = e
		}
	}
	return next
}
