// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/refwatch/refwatch/internal/reflector"
	"github.com/refwatch/refwatch/internal/states"
)

const (
	// recentRefusal is the age up to which Get returns a refusal at once. While
	// Gets wait, the server is asked again every 1.1 to 1.6 s.
	recentRefusal = 2 * time.Second
	// stuckGrace is how long a Get of an object without a stream waits for a read for a
	// new owner while the read is stuck. The gate has tried to reach the server by then.
	stuckGrace = 1500 * time.Millisecond
	// graceTrips is how many round trips the server has to refuse for at least: another verb may
	// work.
	graceTrips = 5
	// DemandSpacing is the shortest time between two reads of an object without a stream
	// that Gets demand.
	DemandSpacing = 250 * time.Millisecond
)

// Facts are what a store knows of an object at one moment. With a demand they decide what
// a Get returns: see Demand.Answer.
type Facts struct {
	// ReadFor is the highest number of a read that was asked for before the read of the
	// state began: see Owners.
	ReadFor uint64
	// PreviousFor is the newest owner without whose read all owners have the state.
	PreviousFor uint64
	Attempts    reflector.Status
	Version     string    // the highest version that the object was seen at
	Contact     time.Time // when the server last sent something about the object
	Noticed     bool      // the store has noticed the first read
	Live        bool      // a stream brings the changes, so a new owner needs no read
	Synced      bool
	Exists      bool
	Immutable   bool
	ByGet       bool // all states are from GETs: an absence has no version
}

// Demand is what a Get demands of the state that it returns.
type Demand struct {
	Began time.Time
	// Owner is the newest owner that was there when the Get began, and still is, and
	// OwnerAddedAt is when it was added.
	Owner        uint64
	OwnerAddedAt time.Time
	NotBefore    time.Time // when the server must have sent something at the earliest; zero is no bound
	NotOlderThan string    // the resource version that the state must include; may be empty
	Lapsed       bool      // the TTL of the state is over
	Live         bool      // needs a read that begins after the call
	Read         uint64    // the number of the read that the Get has asked for; 0 if it has not
	Ended        bool      // the Get waits no longer
}

// Verdict is what becomes of a Get.
type Verdict string

const (
	// Serve: the Get returns the state.
	Serve Verdict = "serve"
	// ServeAll: the Get returns the state, although there was no read for the newest owner.
	// All owners have it from now on, until another one is added.
	ServeAll Verdict = "serveAll"
	// ServeOnce: the Get cannot wait for that read and returns the state. Others wait.
	ServeOnce Verdict = "serveOnce"
	// Wait: the Get asks again when something has changed, or after a time.
	Wait Verdict = "wait"
	// Fail: the Get returns an error.
	Fail Verdict = "fail"
)

// Serves reports whether a Get returns the state.
func (v Verdict) Serves() bool { return v == Serve || v == ServeAll || v == ServeOnce }

// Answer decides what becomes of a Get. The Get, TryGet, Changes and Status of a WatchStore
// share it; a state that Servable passes to all owners needs no more. refusalGrace is
// WatchOptions.RefusalGrace. after is when a Get that waits has to ask again although nothing
// has changed; negative means never.
func (d *Demand) Answer(f *Facts, refusalGrace time.Duration, now time.Time) (v Verdict, after time.Duration) {
	grace := graceLeft(refusalGrace, &f.Attempts, d.Began, now)
	switch {
	case f.Meets(d):
		return Serve, 0
	case !d.includedIn(f):
		if d.Ended || d.IsBehind(f) || grace == 0 {
			return Fail, 0
		}
	case f.isPrevious(d):
		until := f.untilPrevious(d, refusalGrace, now)
		switch {
		case until == 0 || grace == 0:
			return ServeAll, 0
		case d.Ended:
			return ServeOnce, 0
		}
		return Wait, Sooner(grace, until)
	case d.Ended || grace == 0:
		return Fail, 0
	}
	return Wait, grace
}

// Meets reports whether the state meets all demands.
func (f *Facts) Meets(d *Demand) bool {
	if !f.Synced || !Servable(f.ReadFor, d.Owner, f.Live, f.Immutable, f.IsStale(d)) {
		return false
	}
	return d.includedIn(f) && (!d.Lapsed || d.ReadDone(f))
}

// Servable reports whether a state may be returned to all owners up to one. An immutable
// object is never stale.
func Servable(readFor, owner uint64, live, immutable, stale bool) bool {
	if immutable {
		return readFor >= owner
	}
	return !stale && (live || readFor >= owner)
}

// NeedsOwnerRead reports whether a state may be served to a new owner only if it was read
// for that owner: no stream reports that the object was replaced by another.
func NeedsOwnerRead(synced, live, immutable bool) bool { return synced && (immutable || !live) }

// isPrevious reports whether the state lacks nothing but a read, for the newest owner or after
// its TTL. It may be served if that read fails: an owner that had the object may be asking. An
// absence is not served beyond its TTL. Until the store has noticed the first read it is false:
// the next Get would not return that state.
func (f *Facts) isPrevious(d *Demand) bool {
	if d.Lapsed && !f.Exists {
		return false
	}
	return f.Noticed && NeedsOwnerRead(f.Synced, f.Live, f.Immutable) && !f.IsStale(d)
}

// untilPrevious returns for how much longer Gets wait for the read for the newest owner, or
// after a TTL, before all owners have the previous state. 0 means no longer: the read has
// failed, or is stuck, or the server has refused reads for longer than refusalGrace. After the
// result, and when an attempt has ended, the caller asks again.
func (f *Facts) untilPrevious(d *Demand, refusalGrace time.Duration, now time.Time) time.Duration {
	switch {
	case max(f.ReadFor, f.PreviousFor) >= d.Owner:
		if d.Lapsed && f.Attempts.Failures == 0 && !isStuck(&f.Attempts, now) {
			return stuckGrace
		}
		return 0
	case f.Attempts.FailedAt.After(d.OwnerAddedAt):
		return 0
	}
	after := max(0, d.OwnerAddedAt.Add(stuckGrace).Sub(now))
	if after == 0 && !isStuck(&f.Attempts, now) {
		after = stuckGrace // it may be stuck then
	}
	if left := graceLeft(refusalGrace, &f.Attempts, d.OwnerAddedAt, now); left >= 0 {
		after = min(after, left)
	}
	return after
}

// IsStale reports whether the server has sent nothing since the time that d demands. An
// immutable object is never stale.
func (f *Facts) IsStale(d *Demand) bool { return !f.Immutable && f.Contact.Before(d.NotBefore) }

// includedIn reports whether the state includes the read and the version that the Get demands.
// The version of an absence that a GET has brought is not known: only a read that the Get has
// asked for will do.
func (d *Demand) includedIn(f *Facts) bool {
	switch {
	case d.Live && !d.ReadDone(f):
		return false
	case d.NotOlderThan == "":
		return true
	case f.ByGet && !f.Exists:
		return d.ReadDone(f)
	}
	order, err := states.CompareVersions(f.Version, d.NotOlderThan)
	return err == nil && order >= 0
}

// ReadDone reports whether the state is no older than the read that the Get has asked for.
func (d *Demand) ReadDone(f *Facts) bool { return d.Read > 0 && f.ReadFor >= d.Read }

// IsBehind reports whether that read is older than the version that the Get demands, if the
// state does not meet the demands. Waiting does not help then.
func (d *Demand) IsBehind(f *Facts) bool { return d.NotOlderThan != "" && d.ReadDone(f) }

// isStuck reports whether no Get can count on an attempt now: no reflector reaches the server,
// the server has asked to wait, or the answer to the attempt under way may be lost.
func isStuck(attempts *reflector.Status, now time.Time) bool {
	return attempts.Away || now.Before(attempts.RetryAfter) || attempts.Hung && now.Sub(attempts.AskedAt) >= stuckGrace
}

// graceLeft returns for how much longer a Get that began then tolerates refusals.
// Negative means for as long as its context allows: refusalGrace is negative, or
// the server is not refusing reads. Where it refuses watches alone, lists work. If the
// last refusal is recent, refusalGrace counts from the first one, else from the beginning
// of the Get, once it was refused.
func graceLeft(refusalGrace time.Duration, attempts *reflector.Status, began, now time.Time) time.Duration {
	const unbounded = -1
	first, last := attempts.RefusedSince, attempts.LastErrorTime
	if refusalGrace < 0 || first.IsZero() || attempts.Polled {
		return unbounded
	}
	from := first
	switch {
	case attempts.Away:
		if attempts.FailedAt.IsZero() && first.Before(began) { // this object was never asked for
			from = began
		}
	case last.Before(began):
		if began.Sub(last) > recentRefusal {
			return unbounded
		}
	case first.Before(began):
		from = began
	}
	return max(0, from.Add(max(refusalGrace, graceTrips*attempts.RoundTrip)).Sub(now))
}

// OutageLeft returns for how much longer a Get that began then waits for an object that was never read,
// while it is known that nobody can read such objects. Negative means for as long as its context allows:
// they can be read, outageGrace is negative, the server has said when to ask again, requests have no
// answer (the server may be far), or are refused, which is [Demand.Answer]'s. All Gets together wait for
// outageGrace. If others of the resource fail, the object itself may be well: until it was asked for,
// outageGrace counts from the beginning of the Get.
func OutageLeft(outageGrace time.Duration, attempts *reflector.Status, began, now time.Time) time.Duration {
	if outageGrace < 0 || attempts.OutageSince.IsZero() || !attempts.AnsweredAt.IsZero() || !attempts.RefusedSince.IsZero() ||
		errors.Is(attempts.OutageCause, reflector.ErrNoAnswer) {
		return -1
	}
	if _, asked := apierrors.SuggestsClientDelay(attempts.OutageCause); asked && apierrors.IsTooManyRequests(attempts.OutageCause) {
		return -1
	}
	from := attempts.OutageSince
	if !attempts.Unreachable && attempts.FailedAt.IsZero() && from.Before(began) {
		from = began
	}
	return max(0, from.Add(outageGrace).Sub(now))
}

// Sooner returns the shorter one of two durations of which a negative one means never.
func Sooner(a, b time.Duration) time.Duration {
	if a < 0 || b >= 0 && b < a {
		return b
	}
	return a
}
