// SPDX-License-Identifier: Apache-2.0

package reflector

import (
	"fmt"
	"time"
)

// What the reflector notes of its sessions: it decides at which version, and how,
// the next one begins.

// noteOpen counts an attempt and returns the version to read at; empty asks for
// a consistent read.
func (r *Reflector) noteOpen() (version string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.status.Opens++
	r.session.askLocked(r.readFor)
	if r.afresh || r.readFor > r.status.ReadFor {
		return ""
	}
	return r.status.ResourceVersion
}

// noteRead is called when a complete read at version is about to reach the
// store. A consistent read below what was seen means the server was rolled back.
func (r *Reflector) noteRead(version string, consistent bool) error {
	if err := wellFormed(version); err != nil {
		return err
	}
	r.mu.Lock()
	older := olderThan(version, r.status.ResourceVersion)
	if older && consistent {
		r.status.Epochs++
	}
	r.mu.Unlock()
	switch {
	case !older:
		return nil
	case !consistent:
		return fmt.Errorf("%w: a read at version %s, older than the one asked for", ErrMalformed, version)
	}
	if store, ok := r.store.(EpochStore); ok {
		store.NewEpoch()
	}
	return nil
}

// noteSynced is called when a complete read has reached the store.
func (r *Reflector) noteSynced(session *session, version string) {
	r.mu.Lock()
	session.synced = true
	session.syncedAt = time.Now()
	r.afresh, r.urgent, r.tooLarge = false, false, 0
	r.status.synced(version, session.syncedAt)
	if session.consistent {
		r.status.ReadFor = session.readFor
	}
	r.mu.Unlock()
	if session.turn != nil {
		session.expire()
		session.turn.end(nil)
		session.turn, session.expire = nil, nil
		if !session.listMode {
			r.gate.noteWatchList(r.resource)
		}
		r.gate.follow(r)
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
func (r *Reflector) noteEnd(err error) {
	if err == nil {
		return
	}
	r.mu.Lock()
	switch Classify(err) {
	case Expired, Malformed, Silent:
		r.afresh = true
	case TooLarge:
		// Once may be a server that lags. At the second time ask what is true.
		r.tooLarge++
		r.afresh = r.afresh || r.tooLarge > 1
	default:
		r.tooLarge = 0
	}
	r.status.failed(err, time.Now())
	r.mu.Unlock()
	r.changed()
}
