// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"errors"
	"fmt"
	"slices"

	"github.com/refwatch/refwatch/internal/reflector/internal/moment"
)

// minFailures is how many members must fail to confirm an outage. One more is needed for each membersPerFailure
// members, up to maxFailures. So a share of bad members is unlikely to look like an outage. maxFailures is also how
// many probes in a row must be refused to end one.
const minFailures, membersPerFailure, maxFailures = 4, 64, 16

// maxDials is how many members, one after the other, must not reach the server to confirm an outage before its first
// answer. One dial may be that of many members. The third failure of a member is that of a third dial in any case.
const maxDials = 3

// ErrNoAnswer means that an answer has not come in time.
var ErrNoAnswer = errors.New("no answer from the server")

// errHung is the cause of an outage that hung attempts confirm.
var errHung = fmt.Errorf("%w", ErrNoAnswer)

// outage is a failure of a whole resource, or of the server. It records failures, and is confirmed when there are
// enough. The zero value is no outage.
type outage struct {
	failed   []*member     // members that failed, with no success in between
	kind     Kind          // of the last failure
	cause    error         // of the last failure
	lastSeen moment.Moment // when that was; in an outage, when an attempt last failed so

	told      *Outage // the begin that observers were told of, with no answer since then; it outlives the outage
	confirmed bool
	since     moment.Moment // when it was confirmed
	probes    uint32        // begun so far, also before it was interrupted
	probe     *member       // whose attempt is the probe under way, nil if none
	nextProbe moment.Moment // no probe begins before
	refusals  int           // how many probes in a row were refused, with no failure in between
}

// record records a failure of m, and reports whether that confirms the outage. threshold is how many members must fail.
func (o *outage) record(m *member, outcome Outcome, threshold int, now moment.Moment) bool {
	if o.confirmed && (o.kind != outcome.Kind || errors.Is(outcome.Cause, errHung)) {
		return false
	}
	if o.kind != outcome.Kind {
		o.probes, o.nextProbe = 0, 0 // they were those of an interrupted outage of another kind
	}
	o.kind, o.cause, o.lastSeen = outcome.Kind, outcome.Cause, now
	if o.confirmed {
		return false
	}
	if !slices.Contains(o.failed, m) {
		o.failed = append(o.failed, m)
	}
	if len(o.failed) < threshold {
		return false
	}
	o.confirmed, o.since, o.nextProbe = true, now, max(now, o.nextProbe)
	return true
}

// seen notes that an attempt has failed as the confirmed outage does. It keeps the cause.
func (o *outage) seen(kind Kind, now moment.Moment) {
	if o.confirmed && o.kind == kind {
		o.lastSeen, o.refusals = now, 0
	}
}

// beginProbe makes the next attempt of m the probe.
func (o *outage) beginProbe(m *member) {
	o.probe = m
	o.probes++
}

// endProbe ends the probe without success. The next one begins after a pause, and not before notBefore.
func (o *outage) endProbe(b backoff, notBefore, now moment.Moment) {
	o.probe, o.refusals = nil, 0
	o.nextProbe = max(now.Add(b.pause(o.probes)), notBefore)
}

// interrupt ends the outage because of an answer that is no success, and discards the failures recorded. If servers
// behind a load balancer fail in several ways, it is soon confirmed again, with the same kind: its pauses go on then.
func (o *outage) interrupt(b backoff, now moment.Moment) {
	interrupted := outage{told: o.told, kind: o.kind, probes: o.probes, nextProbe: o.nextProbe}
	if o.probes > 0 {
		interrupted.nextProbe = max(o.nextProbe, now.Add(b.pause(o.probes)))
	}
	*o = interrupted
}

// wasSlow reports whether the answer to m, which has just come, shows that answers are slow, and that there was no
// outage.
func (o *outage) wasSlow(m *member) bool {
	return o.confirmed && errors.Is(o.cause, errHung) && m.began.Before(o.since)
}

// clear ends the outage, and discards the failures recorded.
func (o *outage) clear() { *o = outage{told: o.told} }

// remove discards the failure of a member that leaves.
func (o *outage) remove(m *member) {
	if i := slices.Index(o.failed, m); i >= 0 {
		o.failed = slices.Delete(o.failed, i, i+1)
	}
}

// threshold returns how many members must fail to confirm the outage when m fails, of so many that could fail. One
// failure never does. Of few members all must fail. If m has rested, it is one of many that are read now and then: then
// those that rest count too. If m is the only member, its second failure is enough.
func (o *outage) threshold(m *member, couldFail int, c *census, only bool) int {
	if only && slices.Contains(o.failed, m) {
		return 1
	}
	if m.resumed {
		couldFail += c.resting
	}
	return max(2, min(minFailures+couldFail/membersPerFailure, maxFailures, couldFail))
}
