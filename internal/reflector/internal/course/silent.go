// SPDX-License-Identifier: Apache-2.0

package course

import (
	"time"

	"github.com/refwatch/refwatch/internal/reflector/internal/moment"
)

// A stream may have lost an event, or deliver nothing for ever. One that brings nothing for two minutes, not even
// a bookmark, is compared with a list. kube-apiserver sends a bookmark about once a minute.
//
//   - A list that shows something else ends the stream, and another one takes its place. It may have overtaken the
//     event: that costs one more read.
//   - A list that fails says nothing about the stream. But lists may fail for good: after two in a row, or one that
//     hangs, another stream takes its place, which a WatchList opens. Where WatchLists do not work, either, the stream
//     is kept.
//   - Whether lists fail is known per resource: two that have failed are enough for all its streams.

// silentAfter is how long a stream may bring nothing.
const silentAfter = 2 * time.Minute

// Silence is what is known of the silence of a stream. The zero value is that of a new one.
type Silence struct {
	comparing  bool
	unanswered bool          // the last list failed
	kept       moment.Moment // when two lists in a row had failed, and the stream was kept
}

// Lists is what the comparisons of a resource have learned of its lists. The zero value knows nothing.
type Lists struct {
	failed bool          // the last one did
	since  moment.Moment // when the last two had failed; 0 after one that worked
}

// Fail reports whether lists have failed lately: none is needed to find that out.
func (l *Lists) Fail(now moment.Moment) bool { return l.since != 0 && now.Sub(l.since) < silentAfter }

// Add takes a list, which works or has a fault.
func (l *Lists) Add(works bool, fault Fault, now moment.Moment) {
	switch {
	case works:
		*l = Lists{}
	case fault != NoFault:
		if l.failed {
			l.since = now
		}
		l.failed = true
	}
}

// Is reports whether the stream is to be compared, which last brought something at the given moment.
func (s *Silence) Is(contact, now moment.Moment) bool {
	return !s.comparing && min(now.Sub(contact), now.Sub(s.kept)) >= silentAfter
}

// Begin is Is, and begins the comparison.
func (s *Silence) Begin(contact, now moment.Moment) bool {
	began := s.Is(contact, now)
	s.comparing = s.comparing || began
	return began
}

// End takes the list of the comparison, as [Lists.Add]. listsFail and mayWatchList say whether the lists of others fail
// and WatchLists may work. End reports whether another stream must take the place of this one.
func (s *Silence) End(works bool, fault Fault, listsFail, mayWatchList bool, now moment.Moment) (replace bool) {
	s.comparing = false
	if !works && fault == NoFault {
		return false // nothing was asked
	}
	repeated := !works && (s.unanswered || listsFail)
	s.unanswered = !works
	if replace = (fault == Hung || repeated) && mayWatchList; repeated && !replace {
		s.kept = now
	}
	s.comparing = replace // the session ends, and begins no other comparison meanwhile
	return replace
}
