// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"container/heap"

	"github.com/refwatch/refwatch/internal/reflector/internal/moment"
)

// schedule is a heap of the members that are due at a time: when their pause ends, or when their attempt counts as
// hung. The earliest is the first.
type schedule []*member

var _ heap.Interface = (*schedule)(nil)

func (s schedule) Len() int           { return len(s) }
func (s schedule) Less(i, j int) bool { return s[i].due.Before(s[j].due) }
func (s schedule) Swap(i, j int) {
	s[i], s[j] = s[j], s[i]
	s[i].index, s[j].index = uint32(i+1), uint32(j+1)
}

func (s *schedule) Push(m any) {
	*s = append(*s, m.(*member))
	m.(*member).index = uint32(len(*s))
}

func (s *schedule) Pop() any {
	last := len(*s) - 1
	m := (*s)[last]
	(*s)[last] = nil
	*s = (*s)[:last]
	m.index = 0
	return m
}

// set adds m, or moves it, to a time.
func (s *schedule) set(m *member, due moment.Moment) {
	m.due = due
	if m.index > 0 {
		heap.Fix(s, int(m.index)-1)
		return
	}
	heap.Push(s, m)
}

// remove removes m, if it is there.
func (s *schedule) remove(m *member) {
	if m.index > 0 {
		heap.Remove(s, int(m.index)-1)
	}
}
