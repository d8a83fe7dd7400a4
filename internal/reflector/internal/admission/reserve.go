// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"slices"
	"time"

	"github.com/refwatch/refwatch/internal/reflector/internal/moment"
)

const (
	// reserveRate is how many members a second, and reserveBurst how many at a time, come one by one. If more come, as
	// after a cut of many streams, they are a crowd, and share the window.
	reserveRate, reserveBurst = 20, 16
	// crowdTime is for how long before its attempt a member may have been one of a crowd.
	crowdTime = time.Second
	// reserveSize is how many members wait in a reserve at most. More of them are a crowd, too.
	reserveSize = 64
	// fullCredit is how many reserved attempts begin at most until one attempt of any member succeeds. It is enough to
	// find one healthy member among twenty, and few for a server that is away.
	fullCredit = 128
	// sparePlaces is how many places one resource leaves to others at most, however many of its members wait.
	sparePlaces = 8
)

// reserve holds members of a resource that came one by one: they are new, or synced at their last attempt. They may
// well be healthy, whatever others fail with. So each makes an attempt within expeditedDeadline, also in an outage and
// after a 429, and its failure says little about the others. They are in their lane, too: what comes first admits them.
type reserve struct {
	places  *budget
	waiting []*member     // in the order in which they came
	crowdAt moment.Moment // when there was a crowd last
}

func newReserve() reserve { return reserve{places: newBudget(reserveRate, reserveBurst)} }

// offer adds m, whose pause begins, if it may be healthy. In a crowd all that wait lose their places.
func (r *reserve) offer(m *member, now moment.Moment) {
	if m.reserved || m.failing || m.failures > 0 || m.retried {
		return
	}
	crowd := r.places.next(now).After(now) || len(r.waiting) == reserveSize
	r.places.add(-1)
	r.places.tokens = max(r.places.tokens, -reserveBurst)
	if crowd {
		r.crowdAt = now
		for _, other := range r.waiting {
			other.reserved = false
		}
		r.waiting = nil
	}
	if !crowd {
		m.reserved = true
		r.waiting = append(r.waiting, m)
	}
}

// remove removes m, if it is there.
func (r *reserve) remove(m *member) {
	if !m.reserved {
		return
	}
	m.reserved = false
	i := slices.Index(r.waiting, m)
	r.waiting = slices.Delete(r.waiting, i, i+1)
}

// pickReserved returns the member of a reserve to admit, nil if there is none: one that others have kept waiting.
func (s *server) pickReserved(now moment.Moment) *member {
	if s.credit <= 0 {
		return nil
	}
	for _, r := range s.inTurn() {
		if !s.hasPlace(r) {
			continue
		}
		for _, m := range r.reserve.waiting {
			if m.state == queued && s.ready(m.due.Add(expeditedDeadline), now) {
				s.credit--
				return m
			}
		}
	}
	return nil
}

// hasPlace reports whether the limit allows another attempt of a resource. It leaves some places to others that have
// members: they may be healthy where it is slow.
func (s *server) hasPlace(r *resource) bool {
	spare := 0
	if r.members < s.members {
		spare = min(sparePlaces, s.limit/4)
	}
	return s.opening < s.limit && r.opening < s.limit-spare
}
