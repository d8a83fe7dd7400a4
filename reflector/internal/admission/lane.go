// SPDX-License-Identifier: Apache-2.0

package admission

import "math/rand/v2"

// class is why a member is in line.
type class uint8

const (
	waited    class = iota // a caller waits for it
	returning              // it was synced before
	fresh                  // it was never synced
	classes
)

// lane holds the members in line of one resource, healthy or failing ones.
type lane struct {
	lines [classes]line
	// othersNext says that the last one served was of those that a caller waits
	// for, freshNext that of the others the last one was not new.
	othersNext, freshNext bool
}

func (l *lane) add(m *Member) { l.lines[m.class()].push(m) }

// peek returns the member to serve next, nil if there is none of a class that
// eligible admits. The oldest of a class goes first, or any.
func (l *lane) peek(eligible func(class) bool, random bool) *Member {
	for _, c := range l.order() {
		if l.lines[c].first != nil && eligible(c) {
			return l.lines[c].peek(random)
		}
	}
	return nil
}

// order returns the classes as the next turn prefers them. Every second one is of
// members that a caller waits for; the other two share the rest.
func (l *lane) order() [classes]class {
	first, second := returning, fresh
	if l.freshNext {
		first, second = fresh, returning
	}
	if l.othersNext {
		return [...]class{first, second, waited}
	}
	return [...]class{waited, first, second}
}

// served notes whose turn it was.
func (l *lane) served(c class) {
	if l.othersNext = c == waited; !l.othersNext {
		l.freshNext = c == returning
	}
}

func (l *lane) count() int {
	count := 0
	for i := range l.lines {
		count += l.lines[i].count
	}
	return count
}

// each calls f for each member in line.
func (l *lane) each(f func(*Member)) {
	for i := range l.lines {
		for m := l.lines[i].first; m != nil; m = m.after {
			f(m)
		}
	}
}

// line is a queue of members, linked through them. A member is in one at most.
type line struct {
	first, last *Member
	count       int
}

// peek returns the oldest member in line, or any; nil if there is none. Any is for
// where the oldest may be those that fail.
func (l *line) peek(random bool) *Member {
	m := l.first
	if random && l.count > 1 {
		for range rand.IntN(l.count) {
			m = m.after
		}
	}
	return m
}

func (l *line) push(m *Member) {
	m.line, m.before, m.after = l, l.last, nil
	if l.last == nil {
		l.first = m
	} else {
		l.last.after = m
	}
	l.last = m
	l.count++
}

// leaveLine takes m out of its line, if it is in one.
func (m *Member) leaveLine() {
	l := m.line
	if l == nil {
		return
	}
	if m.before == nil {
		l.first = m.after
	} else {
		m.before.after = m.after
	}
	if m.after == nil {
		l.last = m.before
	} else {
		m.after.before = m.before
	}
	l.count--
	m.line, m.before, m.after = nil, nil, nil
}
