// SPDX-License-Identifier: Apache-2.0

package reflector

import (
	"sync"
	"time"

	"github.com/refwatch/refwatch/internal/reflector/internal/course"
	"github.com/refwatch/refwatch/internal/reflector/internal/moment"
	"github.com/refwatch/refwatch/internal/states"
)

// progress is what a reflector remembers from one session to the next: how far it
// has read, how its attempts went, and how the next read must be made. It also keeps
// what others may ask about the session under way.
type progress struct {
	mu          sync.Mutex
	seen        course.Seen
	synced      bool
	consistent  bool   // the next read must be a consistent one of its own
	needed      uint64 // when a state of that time or later was last needed: see consistentReads
	includes    uint64 // when the newest consistent read began that the state includes, 0 if it includes none
	readFor     uint64 // the highest number that the next read of what is needed covers
	lastReadFor uint64 // the one that the last such read covered
	lastContact moment.Moment
	notUpdated  moment.Moment // see Status.NotUpdatedSince
	failures    *failures     // nil, as nearly always, if none has failed
	current     attempt       // zero between two sessions
}

// attempt is the part of progress that is about the session under way.
type attempt struct {
	course.Session
	includes uint64 // when the newest consistent read began that the answer includes, 0 if it includes none
	parked   bool   // no goroutine belongs to the stream
	sent     bool   // the request was sent: see ask
	readFor  uint64 // what the request covers
	silence  course.Silence
	part     moment.Moment // when a part of the answer to the request arrived last, 0 for none
}

// slowStore is how long the store may take with an answer. After that the attempt counts as one
// whose answer is late.
const slowStore = time.Second

// ask begins an attempt. It returns the version to read at; an empty one asks for a
// consistent read. The gate knows so many restores of etcd. shared is the newest consistent read of
// the resource, zero if there is none. The clock of reads is read with the lock held, so that its
// order is that of ask, requireReadFor and refresh.
func (p *progress) ask(restores uint64, reads *consistentReads, shared consistentRead) (version string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := reads.now()
	a := &p.current
	a.Since, a.Answered, a.Consistent, a.includes, a.readFor = moment.Now(), 0, false, 0, p.readFor
	a.sent, a.part = false, 0
	switch mustBeConsistent := p.seen.Ask(restores); {
	case p.consistent || mustBeConsistent:
	case p.includes > p.needed:
		a.includes = p.includes
		return p.seen.Version()
	case shared.began > p.needed && shared.after == restores:
		a.includes = shared.began
		return laterVersion(shared.version, p.seen.Version())
	}
	a.Consistent, a.includes = true, now
	return ""
}

// laterVersion returns the later one of two versions; an empty one is the earliest.
func laterVersion(a, b string) string {
	if order, _ := states.CompareVersions(a, b); order < 0 {
		return b
	}
	return a
}

// requestSent records that a request was sent. It reports whether it is the one that ask has begun.
func (p *progress) requestSent() (first bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	first, p.current.sent = !p.current.sent, true
	return first
}

// partArrived records that a part of an answer has arrived. It reports whether that is the answer to the request for
// the state, and whether it is the first part.
func (p *progress) partArrived() (first, is bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.current.Answered != 0 {
		return false, false
	}
	first, p.current.part = p.current.part == 0, moment.Now()
	return first, true
}

// lastPart returns when a part of the answer to the request for the state arrived last, zero for never.
func (p *progress) lastPart() moment.Moment {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.current.part
}

// unansweredSince returns when the request for the state was sent, if no part of the answer has come yet,
// else zero. The header of a stream is an answer.
func (p *progress) unansweredSince() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.current.Answered != 0 || p.current.part != 0 || p.current.Streaming || p.current.Dropped {
		return time.Time{}
	}
	return p.current.Since.Time()
}

// checkRead takes the version of a complete read that is about to reach the store: see
// [course.Seen.Read]. known is how many restores the gate knew when the read was asked for.
func (p *progress) checkRead(version string) (restored, proves bool, known uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if restored, proves = p.seen.Read(version); restored {
		p.includes = 0
	}
	return restored, proves, p.seen.After()
}

// restoreProved takes how many restores the read under way is of after.
func (p *progress) restoreProved(after uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen.Proved(after)
}

// refreshRestored is refresh, for a state that is of before one of so many restores. That begins with
// a consistent read: see ask.
func (p *progress) refreshRestored(restores uint64, active bool) (end bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.seen.MustRead(restores) || p.isReadingLocked(active) {
		return false
	}
	p.current.Demanded = p.current.Demanded || active
	p.current.Restored = p.current.Restored || active
	return active
}

// stateAnswered records that the server has answered the request for the state. An empty version
// is that of a GET, which says nothing about others. stateAnswered returns the read if it was a
// consistent one of its own, else zero.
func (p *progress) stateAnswered(version string) (read consistentRead) {
	p.mu.Lock()
	defer p.mu.Unlock()
	a := &p.current
	a.Answered = moment.Now()
	if a.Consistent {
		read = consistentRead{began: a.includes, sent: a.Since, version: version, after: p.seen.After()}
	}
	return read
}

// stateStored records that a complete read has reached the store, which a session makes once or
// begins a stream with. If the selection is not watchable, its failures count on.
func (p *progress) stateStored(version string, watchable, once bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now, a := moment.Now(), &p.current
	p.synced, p.lastContact = p.synced || !a.Dropped, a.Answered
	p.seen.Stored(version)
	p.consistent = false
	if a.includes > 0 {
		p.includes, p.lastReadFor = a.includes, a.readFor
	}
	if watchable {
		p.failures.forget()
	} else if p.failures != nil {
		p.failures.refusedSince = 0
	}
	if p.notUpdated = 0; a.Dropped || !once && !a.Streaming {
		p.notUpdated = a.Answered // the stream is to be opened
	}
	a.Since, a.Stored, a.Once = now, true, once
}

// watchAllowed records that a watch that was refused before is open.
func (p *progress) watchAllowed() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failures.forget()
}

// streamOpened records that the stream of the session is open.
func (p *progress) streamOpened(counters *Counters) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.current.Streaming {
		counters.openStreams.Add(1)
	}
	p.current.Streaming = true
	if p.current.Stored {
		p.notUpdated = 0
	}
}

// streamParked records that no goroutine belongs to the stream of the session any more.
func (p *progress) streamParked(counters *Counters) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.current.parked = true
	counters.parkedStreams.Add(1)
}

// contact records that an event or a bookmark has reached the store. at is when it arrived.
func (p *progress) contact(version string, at moment.Moment) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lastContact = max(p.lastContact, at)
	p.seen.Event(version)
}

// forgetFailures forgets those for which the next attempt does not wait.
func (p *progress) forgetFailures() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failures.forget()
}

// restart makes the next read one whose state is not older than this call, and the state not
// synced until then. active says whether a session is under way. If it reads the state, it is
// left alone, unless again is set. restart reports whether it must end.
func (p *progress) restart(reads *consistentReads, active, again bool) (end bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.needed, p.synced = reads.now(), false
	p.notUpdatedLocked()
	if active && (again || p.current.Stored) {
		p.current.Dropped = true
	}
	return p.current.Dropped
}

// notUpdatedLocked notes that changes do not reach the store from now on, if they did.
func (p *progress) notUpdatedLocked() {
	if p.notUpdated == 0 {
		p.notUpdated = moment.Now()
	}
}

// drop says that the session under way is of no use any more.
func (p *progress) drop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.current.Dropped = true
}

// sessionEnded returns the attempt that has ended, and forgets it.
func (p *progress) sessionEnded(counters *Counters) attempt {
	p.mu.Lock()
	defer p.mu.Unlock()
	ended := p.current
	p.current = attempt{}
	if ended.Streaming {
		counters.openStreams.Add(-1)
		if !ended.Once && !ended.Dropped {
			p.notUpdatedLocked()
		}
	}
	if ended.parked {
		counters.parkedStreams.Add(-1)
	}
	return ended
}

// requireReadFor makes the next read one that covers number: its state is not older than
// this call.
func (p *progress) requireReadFor(number uint64, reads *consistentReads) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if number > p.readFor {
		p.readFor, p.needed = number, reads.now()
	}
}

// accept makes a state new enough that is not older than a consistent read of another reflector.
func (p *progress) accept(read consistentRead) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.needed = read.began - 1
}

// refresh makes the next read one whose state is not older than this call. active says
// whether a session is under way. refresh reports whether that session must end; one that
// is reading the state is left alone.
func (p *progress) refresh(reads *consistentReads, active bool) (end bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.needed = reads.now()
	if p.isReadingLocked(active) {
		return false
	}
	p.current.Demanded = p.current.Demanded || active
	return active
}

// isReadingLocked reports whether the session that is under way, if active is set, reads
// the state.
func (p *progress) isReadingLocked(active bool) bool { return active && !p.current.Stored }

// isSilent reports whether the stream must be compared with a list.
func (p *progress) isSilent() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.current.Stored && p.current.silence.Is(p.lastContact, moment.Now())
}

// beginComparing is isSilent, and begins the comparison.
func (p *progress) beginComparing() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.current.Stored && p.current.silence.Begin(p.lastContact, moment.Now())
}

// endComparing takes the end of a comparison, as [course.Silence.End].
func (p *progress) endComparing(works bool, fault course.Fault, listsFail, mayWatchList bool) (replace bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := moment.Now()
	if works {
		p.lastContact = now
	}
	return p.current.silence.End(works, fault, listsFail, mayWatchList, now)
}

// version returns the highest version that was seen.
func (p *progress) version() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.seen.Version()
}

// isAbove reports whether a later version than this one was seen.
func (p *progress) isAbove(version string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.seen.IsAbove(version)
}

// seenUntil returns what was seen until the last contact, and the time of that.
func (p *progress) seenUntil() (seen course.Seen, lastContact moment.Moment) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.seen, p.lastContact
}

// status returns the progress as a Status, without what only admission knows.
func (p *progress) status() Status {
	p.mu.Lock()
	defer p.mu.Unlock()
	status := Status{
		Synced:          p.synced,
		ResourceVersion: p.seen.Version(),
		LastContact:     p.lastContact.Time(),
		NotUpdatedSince: p.notUpdated.Time(),
		ReadFor:         p.lastReadFor,
	}
	if f := p.failures; f != nil {
		failedAt := f.failedAt.Time()
		status.Failures, status.LastError, status.LastErrorTime, status.FailedAt = f.inRow, f.lastError, failedAt, failedAt
		status.RefusedSince, status.Malformed = f.refusedSince.Time(), f.malformed
		status.Polled = f.polls && f.inRow > 0
	}
	switch {
	case p.current.Dropped:
	case !p.current.Stored:
		status.AskedAt, status.AnsweredAt = p.current.Since.Time(), p.current.Answered.Time()
		status.Arriving = p.current.part != 0
		status.Hung = p.current.Answered != 0 && p.current.Answered.Since() >= slowStore
	default:
		status.Streaming, status.Parked = p.current.Streaming, p.current.parked
	}
	return status
}
