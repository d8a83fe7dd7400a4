// SPDX-License-Identifier: Apache-2.0

package reflector

import (
	"context"
	"fmt"
	"time"

	"k8s.io/klog/v2"
)

// What the reflector notes of its sessions: it decides at which version, and how,
// the next one begins.

// noteOpen counts an attempt of a session and returns the version to read at;
// empty asks for a consistent read. A rollback that any reflector has proved makes
// the versions of all worthless.
func (r *Reflector) noteOpen(s *session) (version string) {
	rollbacks := r.gate.rollbacks.current()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.status.Opens++
	s.rollbacks, s.askedAt, s.readFor = rollbacks, time.Now(), r.readFor
	if !r.consistent && r.rollbacks == rollbacks && r.readFor <= r.status.ReadFor {
		version = r.status.ResourceVersion
	}
	s.consistent = version == ""
	return version
}

// noteRead is called when a complete read at version is about to reach the
// store. A consistent read below what was seen means the server was rolled back.
func (r *Reflector) noteRead(s *session, version string) error {
	if err := wellFormed(version); err != nil {
		return err
	}
	r.mu.Lock()
	older := olderThan(version, r.status.ResourceVersion)
	if older && s.consistent {
		r.status.Epochs++
		r.status.ResourceVersion = "" // the store may refuse the read: the next one proves nothing more
		s.rolledBack = true
	}
	r.mu.Unlock()
	switch {
	case !older:
		return nil
	case !s.consistent:
		return fmt.Errorf("%w: a read at version %s, older than the one asked for", ErrMalformed, version)
	}
	if store, ok := r.store.(EpochStore); ok {
		store.NewEpoch()
	}
	r.gate.noteRollback(s.rollbacks, version)
	return nil
}

// noteRollback is called when a consistent read, asked for after so many
// rollbacks, brought a version below one that was seen. Open streams that have
// seen later versions are closed: they may be silent for ever.
func (g *Gate) noteRollback(before uint64, version string) {
	if !g.rollbacks.prove(before) {
		return
	}
	for _, r := range g.silence.all() {
		r.refresh(func() bool { return r.rollbacks <= before && olderThan(version, r.status.ResourceVersion) })
	}
}

// noteSynced is called when a complete read has reached the store.
func (r *Reflector) noteSynced(session *session, version string) {
	r.mu.Lock()
	session.synced = true
	session.syncedAt = time.Now()
	r.consistent = false
	if session.consistent {
		r.rollbacks, r.status.ReadFor = session.rollbacks, session.readFor
		if session.rolledBack {
			r.rollbacks++
		}
	}
	failures := r.status.Failures
	r.status.synced(version, session.syncedAt)
	r.noteWayLocked(session, failures)
	if r.status.Failures == 0 {
		r.logged = None
	}
	r.mu.Unlock()
	if session.expire != nil {
		session.expire()
		session.expire = nil
		r.member.Release(outcomeOf(nil))
		if !session.listMode {
			r.gate.noteWatchList(r.resource)
		}
		r.gate.silence.add(r)
	}
	r.changed()
}

// noteContact is called when an event or a bookmark after the read has reached
// the store.
func (r *Reflector) noteContact(version string) {
	r.mu.Lock()
	r.status.LastContact = time.Now()
	if olderThan(r.status.ResourceVersion, version) {
		r.status.ResourceVersion = version
	}
	r.mu.Unlock()
	r.changed()
}

// noteEnd decides how the next session begins.
func (r *Reflector) noteEnd(ctx context.Context, err error) {
	if err == nil {
		klog.FromContext(ctx).V(4).Info("Stream ended, opening it again", "reflector", r.name)
		return
	}
	class := Classify(err)
	r.mu.Lock()
	switch class {
	case Expired, TooLarge, Malformed, Silent:
		// Too large may be a server that lags, or one that was rolled back: only
		// a consistent read shows which.
		r.consistent = true
	}
	r.noteAnswerLocked(err)
	r.status.failed(err, time.Now())
	news := r.logged != class
	r.logged = class
	r.mu.Unlock()
	r.logFailure(ctx, err, class, news)
	r.changed()
}

const (
	// loggedFailures and loggedFailuresPerSecond bound the lines at level 0 about
	// failures, of all reflectors of a gate.
	loggedFailures          = 10
	loggedFailuresPerSecond = 0.1
)

// logFailure writes a line about a failed attempt: at level 0 about the first and
// about each of another class, unless there were many; at level 2 otherwise.
func (r *Reflector) logFailure(ctx context.Context, err error, class Class, news bool) {
	level := 2
	if news && r.gate.failures.TryAccept() {
		level = 0
	}
	klog.FromContext(ctx).V(level).Info("Cannot read the object, will try again",
		"reflector", r.name, "class", class, "err", err)
}
