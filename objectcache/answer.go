// SPDX-License-Identifier: Apache-2.0

package objectcache

import (
	"time"

	"github.com/refwatch/refwatch/cache"
	"github.com/refwatch/refwatch/reflector"
)

const (
	// recentRefusal is the age up to which Get returns a refusal at once. While
	// Gets wait, the server is asked again every 1.1 to 1.6 s.
	recentRefusal = 2 * time.Second
	// stuckGrace is how long a Get of an object without a stream waits for a read for a
	// new owner while the read is stuck. The gate has tried to reach the server by then.
	stuckGrace = 1500 * time.Millisecond
)

// facts are what a store knows of an object at one moment. With a demand they decide what
// a Get returns: see answer.
type facts struct {
	// readFor is the highest number of a read that was asked for before the read of the
	// state began: see owners.
	readFor uint64
	// previousFor is the newest owner without whose read all owners have the state.
	previousFor uint64
	attempts    reflector.Status
	version     string    // the highest version that the object was seen at
	contact     time.Time // when the server last sent something about the object
	noticed     bool      // the store has noticed the first read
	live        bool      // a stream brings the changes, so a new owner needs no read
	synced      bool
	exists      bool
	immutable   bool
	byGet       bool // the state is from a GET, and an absence has no version
}

// demand is what a Get demands of the state that it returns.
type demand struct {
	began time.Time
	// owner is the newest owner that was there when the Get began, and still is, and
	// ownerAddedAt is when it was added.
	owner        uint64
	ownerAddedAt time.Time
	maxStaleness time.Duration // 0 is no bound
	notOlderThan string        // the resource version that the state must include; may be empty
	lapsed       bool          // the TTL of the state is over
	live         bool          // needs a read that begins after the call
	read         uint64        // the number of the read that the Get has asked for; 0 if it has not
	ended        bool          // the Get waits no longer
}

// verdict is what becomes of a Get.
type verdict string

const (
	// serve: the Get returns the state.
	serve verdict = "serve"
	// serveAll: the Get returns the state, although there was no read for the newest owner.
	// All owners have it from now on, until another one is added.
	serveAll verdict = "serveAll"
	// serveOnce: the Get cannot wait for that read and returns the state. Others wait.
	serveOnce verdict = "serveOnce"
	// wait: the Get asks again when something has changed, or after a time.
	wait verdict = "wait"
	// fail: the Get returns an error.
	fail verdict = "fail"
)

// serves reports whether a Get returns the state.
func (v verdict) serves() bool { return v == serve || v == serveAll || v == serveOnce }

// answer decides what becomes of a Get. The Get, TryGet, Changes and Status of a WatchStore
// share it; a state that servable passes to all owners needs no more. refusalGrace is
// WatchOptions.RefusalGrace. after is when a Get that waits has to ask again although nothing
// has changed; negative means never.
func (d *demand) answer(f *facts, refusalGrace time.Duration, now time.Time) (v verdict, after time.Duration) {
	grace := graceLeft(refusalGrace, &f.attempts, d.began, now)
	switch {
	case f.meets(d, now):
		return serve, 0
	case !d.includedIn(f):
		if d.ended || d.isBehind(f) || grace == 0 {
			return fail, 0
		}
	case f.isPrevious(d, now):
		until := f.untilPrevious(d, refusalGrace, now)
		switch {
		case until == 0 || grace == 0:
			return serveAll, 0
		case d.ended:
			return serveOnce, 0
		}
		return wait, sooner(grace, until)
	case d.ended || grace == 0:
		return fail, 0
	}
	return wait, grace
}

// meets reports whether the state meets all demands.
func (f *facts) meets(d *demand, now time.Time) bool {
	if !f.synced || !servable(f.readFor, d.owner, f.live, f.immutable, f.isStale(d.bound(f), now)) {
		return false
	}
	return d.includedIn(f) && (!d.lapsed || d.readDone(f))
}

// servable reports whether a state may be returned to all owners up to one. An immutable
// object is never stale.
func servable(readFor, owner uint64, live, immutable, stale bool) bool {
	if immutable {
		return readFor >= owner
	}
	return !stale && (live || readFor >= owner)
}

// needsOwnerRead reports whether a state may be served to a new owner only if it was read
// for that owner: no stream reports that the object was replaced by another.
func needsOwnerRead(synced, live, immutable bool) bool { return synced && (immutable || !live) }

// isPrevious reports whether the state lacks nothing but a read, for the newest owner or after
// its TTL. It may be served if that read fails: an owner that had the object may be asking. An
// absence is not served beyond its TTL. Until the store has noticed the first read it is false:
// the next Get would not return that state.
func (f *facts) isPrevious(d *demand, now time.Time) bool {
	if d.lapsed && !f.exists {
		return false
	}
	return f.noticed && needsOwnerRead(f.synced, f.live, f.immutable) && !f.isStale(d.bound(f), now)
}

// untilPrevious returns for how much longer Gets wait for the read for the newest owner, or
// after a TTL, before all owners have the previous state. 0 means no longer: the read has
// failed, or is stuck, or the server has refused reads for longer than refusalGrace. After the
// result, and when an attempt has ended, the caller asks again.
func (f *facts) untilPrevious(d *demand, refusalGrace time.Duration, now time.Time) time.Duration {
	switch {
	case max(f.readFor, f.previousFor) >= d.owner:
		if d.lapsed && f.attempts.Failures == 0 && !isStuck(&f.attempts, now) {
			return stuckGrace
		}
		return 0
	case f.attempts.FailedAt.After(d.ownerAddedAt):
		return 0
	}
	after := max(0, d.ownerAddedAt.Add(stuckGrace).Sub(now))
	if after == 0 && !isStuck(&f.attempts, now) {
		after = stuckGrace // it may be stuck then
	}
	if left := graceLeft(refusalGrace, &f.attempts, d.ownerAddedAt, now); left >= 0 {
		after = min(after, left)
	}
	return after
}

// isStale reports whether the server has sent nothing for longer than a duration; 0 is no
// bound. An immutable object is never stale.
func (f *facts) isStale(bound time.Duration, now time.Time) bool {
	return bound > 0 && !f.immutable && (f.contact.IsZero() || now.Sub(f.contact) > bound)
}

// bound returns the age from which the state is too old; 0 is no bound. A read that the Get
// itself has asked for is not too old.
func (d *demand) bound(f *facts) time.Duration {
	if d.readDone(f) {
		return 0
	}
	return d.maxStaleness
}

// includedIn reports whether the state includes the read and the version that the Get demands.
// The version of an absence that a GET has brought is not known: only a read that the Get has
// asked for will do.
func (d *demand) includedIn(f *facts) bool {
	switch {
	case d.live && !d.readDone(f):
		return false
	case d.notOlderThan == "":
		return true
	case f.byGet && !f.exists:
		return d.readDone(f)
	}
	order, err := cache.CompareVersions(f.version, d.notOlderThan)
	return err == nil && order >= 0
}

// readDone reports whether the state is no older than the read that the Get has asked for.
func (d *demand) readDone(f *facts) bool { return d.read > 0 && f.readFor >= d.read }

// isBehind reports whether that read is older than the version that the Get demands, if the
// state does not meet the demands. Waiting does not help then.
func (d *demand) isBehind(f *facts) bool { return d.notOlderThan != "" && d.readDone(f) }

// isStuck reports whether no Get can count on an attempt now: no reflector reaches the server,
// the server has asked to wait, or the answer to the attempt under way may be lost.
func isStuck(attempts *reflector.Status, now time.Time) bool {
	return attempts.Away || now.Before(attempts.RetryAfter) || attempts.Hung && now.Sub(attempts.AskedAt) >= stuckGrace
}

// graceLeft returns for how much longer a Get that began then tolerates refusals.
// Negative means for as long as its context allows: refusalGrace is negative, or
// the server is not refusing. If the last refusal is recent, refusalGrace counts
// from the first one, else from the beginning of the Get, once it was refused.
func graceLeft(refusalGrace time.Duration, attempts *reflector.Status, began, now time.Time) time.Duration {
	const unbounded = -1
	first, last := attempts.RefusedSince, attempts.LastErrorTime
	if refusalGrace < 0 || first.IsZero() {
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
	return max(0, from.Add(refusalGrace).Sub(now))
}

// sooner returns the shorter one of two durations of which a negative one means never.
func sooner(a, b time.Duration) time.Duration {
	if a < 0 || b >= 0 && b < a {
		return b
	}
	return a
}
