// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"errors"
	"slices"
	"time"
)

const (
	// fewFailures is how many failing members prove a trouble, if there are as many;
	// there is one more for each membersPerFailure of them, up to mostFailures.
	// So it takes more in a row than a share of bad members makes likely.
	fewFailures, membersPerFailure, mostFailures = 4, 64, 16
)

// trouble is what a resource, or the server, fails at as a whole. The zero value
// is none.
type trouble struct {
	// Suspected: members that have failed with no success in between.
	failing []*Member
	kind    Kind
	cause   error
	at      time.Time

	// Proved.
	proved bool
	since  time.Time
	probes uint32
	probe  *Member   // under way
	next   time.Time // no probe before
}

// suspect notes a failure of a member, and reports whether trouble is proved by
// it.
func (t *trouble) suspect(m *Member, o Outcome, needed int, now time.Time) bool {
	if t.proved && (t.kind != o.Kind || errors.Is(o.Cause, errHung)) {
		return false
	}
	t.kind, t.cause, t.at = o.Kind, o.Cause, now
	if t.proved {
		return false
	}
	if !slices.Contains(t.failing, m) {
		t.failing = append(t.failing, m)
	}
	if len(t.failing) < needed {
		return false
	}
	t.proved, t.since, t.next = true, now, now
	if o.Kind == Throttled { // one probe at a time, at the pace of the resource
		t.next = m.resource.free
	}
	return true
}

// failed notes that a probe failed, or has hung for too long.
func (t *trouble) failed(m *Member, now time.Time) {
	t.probe = nil
	pace, r := outagePace, m.resource
	if t == &r.trouble {
		pace = resourcePace
	}
	t.next = later(now.Add(pace.pause(t.probes)), r.free)
}

// begin notes that a probe is under way.
func (t *trouble) begin(m *Member) {
	t.probe = m
	t.probes++
}

// clear ends the trouble, and any suspicion of one.
func (t *trouble) clear() { *t = trouble{} }

// forget lets go of a member that has left.
func (t *trouble) forget(m *Member) {
	if i := slices.Index(t.failing, m); i >= 0 {
		t.failing = slices.Delete(t.failing, i, i+1)
	}
}

// needed is how many failing members prove a trouble, of so many that could fail.
// One alone proves nothing.
func needed(members int) int {
	return max(2, min(fewFailures+members/membersPerFailure, mostFailures, members))
}

// involves reports whether a member of r is among those that failed.
func (t *trouble) involves(r *resource) bool {
	return slices.ContainsFunc(t.failing, func(m *Member) bool { return m.resource == r })
}
