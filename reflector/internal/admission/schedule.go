// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"container/heap"
	"time"
)

// schedule holds the members that wait for a time: those in a pause, and those
// whose attempt is going to leave the window. The earliest is the first.
type schedule []*Member

var _ heap.Interface = (*schedule)(nil)

func (s schedule) Len() int           { return len(s) }
func (s schedule) Less(i, j int) bool { return s[i].due.Before(s[j].due) }
func (s schedule) Swap(i, j int) {
	s[i], s[j] = s[j], s[i]
	s[i].position, s[j].position = i+1, j+1
}

func (s *schedule) Push(m any) {
	*s = append(*s, m.(*Member))
	m.(*Member).position = len(*s)
}

func (s *schedule) Pop() any {
	last := len(*s) - 1
	m := (*s)[last]
	(*s)[last] = nil
	*s = (*s)[:last]
	m.position = 0
	return m
}

// set makes m due at a time.
func (s *schedule) set(m *Member, due time.Time) {
	m.due = due
	if m.position > 0 {
		heap.Fix(s, m.position-1)
		return
	}
	heap.Push(s, m)
}

// drop takes m out, if it is in.
func (s *schedule) drop(m *Member) {
	if m.position > 0 {
		heap.Remove(s, m.position-1)
	}
}
