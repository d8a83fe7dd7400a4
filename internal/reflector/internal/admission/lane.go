// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"container/list"
	"math/rand/v2"
)

// lane holds the queued members of one resource: the healthy or the failing ones.
type lane struct {
	queues [classes]list.List // of *member, the oldest first
	// othersNext is set if the member admitted last was expedited: the others are next. unsyncedNext is set if the last
	// one of those others was returning.
	othersNext, unsyncedNext bool
}

// add queues m behind the others of its class.
func (l *lane) add(m *member) {
	m.queue = &l.queues[m.class()]
	m.element = m.queue.PushBack(m)
}

// next returns the member to admit next, of the classes that eligible accepts; nil if there is none. Of its class, it
// is the oldest, or any member if random is set.
func (l *lane) next(eligible func(class) bool, random bool) *member {
	for _, c := range l.order() {
		if l.queues[c].Len() > 0 && eligible(c) {
			return l.peek(c, random)
		}
	}
	return nil
}

// peek returns the oldest queued member of a class, or any one if random is set; nil if there is none.
func (l *lane) peek(c class, random bool) *member {
	e := l.queues[c].Front()
	if e == nil {
		return nil
	}
	if random {
		for range rand.IntN(l.queues[c].Len()) {
			e = e.Next()
		}
	}
	return e.Value.(*member)
}

// order returns the classes in the order of the next admission. Every second admission prefers expedited members; the
// other two classes share the other half.
func (l *lane) order() [classes]class {
	first, second := returning, unsynced
	if l.unsyncedNext {
		first, second = unsynced, returning
	}
	if l.othersNext {
		return [...]class{first, second, expedited}
	}
	return [...]class{expedited, first, second}
}

// admitted updates the order after the admission of a member of class c.
func (l *lane) admitted(c class) {
	if l.othersNext = c == expedited; !l.othersNext {
		l.unsyncedNext = c == returning
	}
}

// len returns how many members are queued.
func (l *lane) len() (count int) {
	for i := range l.queues {
		count += l.queues[i].Len()
	}
	return count
}

// each calls f for each queued member.
func (l *lane) each(f func(*member)) {
	for i := range l.queues {
		for e := l.queues[i].Front(); e != nil; e = e.Next() {
			f(e.Value.(*member))
		}
	}
}
