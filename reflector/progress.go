// SPDX-License-Identifier: Apache-2.0

package reflector

import (
	"fmt"
	"sync"
	"time"

	"github.com/refwatch/refwatch/cache"
	"github.com/refwatch/refwatch/reflector/internal/failure"
)

// progress is what a reflector remembers from one session to the next: how far it
// has read, how its attempts went, and how the next read must be made. It also keeps
// what others may ask about the session under way.
type progress struct {
	counters *Counters // counts the open stream; nil for a Reader

	mu           sync.Mutex
	version      string // the highest seen since the last rollback
	synced       bool
	consistent   bool   // the next read must be a consistent one
	readFor      uint64 // the highest number that the next consistent read covers
	lastReadFor  uint64 // the one that the last consistent read covered
	rollbacks    uint64 // of the gate, before the last consistent read
	lastContact  time.Time
	failures     int
	lastError    error
	failedAt     time.Time
	refusedSince time.Time
	malformed    uint64
	lastClass    failure.Class // of the last failure, None if all is well
	current      attempt       // zero between two sessions
}

// attempt is the part of progress that is about the session under way.
type attempt struct {
	askedAt    time.Time // when the request for the state was sent
	syncedAt   time.Time // when the state reached the store; zero before
	consistent bool      // the request asked for a consistent read
	rolledBack bool      // the answer proved that the server was rolled back
	streaming  bool      // the stream is open
	parked     bool      // no goroutine belongs to it
	refreshed  bool      // the session was ended for a consistent read
	beyond     bool      // it was, because the server was rolled back
	verifying  bool      // the silent stream is being compared with a list
	rollbacks  uint64    // of the gate, before the request
	readFor    uint64    // what the request covers
}

// ask begins an attempt. It returns the version to read at; an empty one asks for a
// consistent read. After a rollback that any reflector has proved, the versions seen
// before are of no use.
func (p *progress) ask(rollbacks uint64) (version string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.consistent && p.rollbacks == rollbacks && p.readFor <= p.lastReadFor {
		version = p.version
	}
	a := &p.current
	a.askedAt, a.consistent, a.rollbacks, a.readFor = time.Now(), version == "", rollbacks, p.readFor
	return version
}

// checkRead checks the version of a complete read that is about to reach the store. A
// consistent read below a version that was seen proves that the server was rolled
// back. rollbacks is how many rollbacks the gate knew when the read began.
func (p *progress) checkRead(version string) (rolledBack bool, rollbacks uint64, err error) {
	if err := cache.CheckVersion(version); err != nil {
		return false, 0, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if order, _ := cache.CompareVersions(version, p.version); order >= 0 {
		return false, 0, nil
	}
	if !p.current.consistent {
		return false, 0, fmt.Errorf("%w: a read at version %s, older than the one asked for", cache.ErrMalformed, version)
	}
	p.version = "" // even if the store refuses this read, the next one proves nothing more
	p.current.rolledBack = true
	return true, p.current.rollbacks, nil
}

// stateStored records that a complete read has reached the store. If the selection is
// not watchable, its failures count on.
func (p *progress) stateStored(version string, watchable bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now, a := time.Now(), &p.current
	p.synced, p.version, p.lastContact = true, version, now
	p.consistent = false
	if a.consistent {
		p.rollbacks, p.lastReadFor = a.rollbacks, a.readFor
		if a.rolledBack {
			p.rollbacks++
		}
	}
	p.refusedSince = time.Time{}
	if watchable {
		p.failures, p.lastClass = 0, failure.None
	}
	a.syncedAt = now
}

// watchAllowed records that a watch that was refused before is open.
func (p *progress) watchAllowed() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failures, p.refusedSince, p.lastClass = 0, time.Time{}, failure.None
}

// streamOpened records that the stream of the session is open.
func (p *progress) streamOpened() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.current.streaming {
		p.counters.openStreams.Add(1)
	}
	p.current.streaming = true
}

// streamParked records that no goroutine belongs to the stream of the session any more.
func (p *progress) streamParked() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.current.parked = true
	p.counters.parkedStreams.Add(1)
}

// contact records that an event or a bookmark has reached the store.
func (p *progress) contact(version string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lastContact = time.Now()
	if order, _ := cache.CompareVersions(version, p.version); order > 0 {
		p.version = version
	}
}

// inherit takes over the failures of the reflector whose pause p continues: they are why the next attempt waits. p has
// made no attempt.
func (p *progress) inherit(previous *progress) {
	previous.mu.Lock()
	defer previous.mu.Unlock()
	if previous.failures > 0 {
		p.failures, p.lastError, p.failedAt = previous.failures, previous.lastError, previous.failedAt
		p.refusedSince, p.lastClass = previous.refusedSince, previous.lastClass
	}
}

// sessionEnded returns the attempt that has ended, and forgets it.
func (p *progress) sessionEnded() attempt {
	p.mu.Lock()
	defer p.mu.Unlock()
	ended := p.current
	p.current = attempt{}
	if ended.streaming {
		p.counters.openStreams.Add(-1)
	}
	if ended.parked {
		p.counters.parkedStreams.Add(-1)
	}
	return ended
}

// failed records why a session ended. It reports whether the class of the failure is
// another one than before.
func (p *progress) failed(err error) (class failure.Class, changed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	class = failure.Of(err)
	p.consistent = p.consistent || class.NeedsConsistentRead()
	p.failures++
	p.lastError, p.failedAt = err, time.Now()
	switch {
	case !class.IsRefusal():
		p.refusedSince = time.Time{}
	case p.refusedSince.IsZero():
		p.refusedSince = p.failedAt
	}
	if class == failure.Malformed {
		p.malformed++
	}
	changed = p.lastClass != class
	p.lastClass = class
	return class, changed
}

// requireReadFor makes the next read a consistent one that covers number.
func (p *progress) requireReadFor(number uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.readFor = max(p.readFor, number)
}

// refresh makes the next read a consistent one. active says whether a session is under
// way. refresh reports whether that session must end; one that is reading the state is
// left alone.
func (p *progress) refresh(active bool) (end bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.refreshLocked(active)
}

// refreshBeyond is refresh for a selection that has seen versions above the given one,
// and no consistent read since so many rollbacks of the server.
func (p *progress) refreshBeyond(version string, rollbacks uint64, active bool) (end bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if order, _ := cache.CompareVersions(version, p.version); order >= 0 || p.rollbacks > rollbacks {
		return false
	}
	end = p.refreshLocked(active)
	p.current.beyond = p.current.beyond || end
	return end
}

func (p *progress) refreshLocked(active bool) (end bool) {
	if active && p.current.syncedAt.IsZero() {
		return false
	}
	p.consistent = true
	p.current.refreshed = p.current.refreshed || active
	return active
}

// isSilent reports whether the stream has delivered nothing for so long that it must be
// verified, and is not being verified.
func (p *progress) isSilent(silentAfter time.Duration) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.isSilentLocked(silentAfter)
}

func (p *progress) isSilentLocked(silentAfter time.Duration) bool {
	return !p.current.syncedAt.IsZero() && !p.current.verifying && time.Since(p.lastContact) >= silentAfter
}

// beginVerifying is isSilent, and begins the verification of a silent stream.
func (p *progress) beginVerifying(silentAfter time.Duration) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	silent := p.isSilentLocked(silentAfter)
	p.current.verifying = p.current.verifying || silent
	return silent
}

// endVerifying records whether the server has confirmed the state.
func (p *progress) endVerifying(confirmed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.current.verifying = false
	if confirmed {
		p.lastContact = time.Now()
	}
}

// seen returns the highest version and the time of the last contact.
func (p *progress) seen() (version string, lastContact time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.version, p.lastContact
}

// status returns the progress as a Status, without what only admission knows.
func (p *progress) status() Status {
	p.mu.Lock()
	defer p.mu.Unlock()
	status := Status{
		Synced:          p.synced,
		ResourceVersion: p.version,
		LastContact:     p.lastContact,
		ReadFor:         p.lastReadFor,
		Failures:        p.failures,
		LastError:       p.lastError,
		LastErrorTime:   p.failedAt,
		FailedAt:        p.failedAt,
		RefusedSince:    p.refusedSince,
		Malformed:       p.malformed,
	}
	if p.current.syncedAt.IsZero() {
		status.AskedAt = p.current.askedAt
	} else {
		status.Streaming, status.Parked = p.current.streaming, p.current.parked
	}
	return status
}
