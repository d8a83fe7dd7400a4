// SPDX-License-Identifier: Apache-2.0

package reflector

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"k8s.io/klog/v2"
)

const (
	// listAfter and listEvery are when a reflector whose WatchLists are refused
	// tries whether it may list: at the third refusal in a row, for the Node
	// authorizer refuses what it is about to admit, and at each eighth after it.
	listAfter, listEvery = 3, 8
	// watchAgainAfter is how long it is listed only, where it may list and not
	// watch. It is tried again then.
	watchAgainAfter = time.Minute
	// longestAnswer bounds how long the state is waited for, however often it did
	// not come in time.
	longestAnswer = 4 * answerTimeout
)

// detour is what a reflector has found out about the ways to its own selection.
// What it says of the server is in the gate's knowledge. The zero value says that
// the direct way will do.
type detour struct {
	refused    int       // WatchLists that were refused since the last read
	refusal    error     // of the WatchList in whose place a list is tried
	noList     bool      // the last attempt was a list, and was answered with a refusal
	broken     int       // WatchLists that broke since the last one that worked
	late       int       // attempts in a row that had no answer in time
	watchError error     // why the watch after a list was refused; nil if it was not
	watchAgain time.Time // not before
}

// detourLocked returns the detour to be changed. Few reflectors ever have one.
func (r *Reflector) detourLocked() *detour {
	if r.detour == nil {
		r.detour = &detour{}
	}
	return r.detour
}

// answerLimit is how long the next attempt may take to bring the state. Of the
// attempts after one that took too long, each second one may take longer: a server
// that is slow is waited for in the end, and a request that hangs is repeated soon.
func (r *Reflector) answerLimit() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.detour == nil || r.detour.late%2 == 1 {
		return answerTimeout
	}
	return min(answerTimeout<<min(r.detour.late/2, 8), longestAnswer)
}

// noteAnswerLocked counts the attempts that had no answer in time.
func (r *Reflector) noteAnswerLocked(err error) {
	if errors.Is(err, errNoAnswer) {
		r.detourLocked().late++
	}
}

// noteWayLocked records that a session's read has reached the store. As long as
// the watch after a list is refused, a read alone does not make all well. A
// server that needed long is given as long the next time.
func (r *Reflector) noteWayLocked(s *session, failures int) {
	d := r.detour
	if d == nil {
		return
	}
	d.refused, d.refusal, d.noList = 0, nil, false
	if !s.listMode {
		d.broken, d.watchError, d.watchAgain = 0, nil, time.Time{}
	}
	if d.watchError != nil {
		r.status.Failures = failures
	}
	if time.Since(s.began) < answerTimeout/2 {
		d.late = 0
	}
	if *d == (detour{}) {
		r.detour = nil
	}
}

// triesList decides, after a WatchList could not be opened, whether to list in
// its place, now.
func (s *session) triesList(err error) bool {
	switch {
	case refusesWatchList(err):
		s.r.gate.noteNoWatchList(s.r.resource)
		s.logLists(err)
		return true
	case refusesCaller(err):
		s.r.mu.Lock()
		defer s.r.mu.Unlock()
		d := s.r.detourLocked()
		if d.refused++; d.refused%listEvery != listAfter {
			return false
		}
		d.refusal = err
		return true
	case Classify(err) == Malformed: // the source, then
		s.noteBroken(err)
	}
	return false
}

// usesLists tells whether the next session is to begin with a list, by what is
// known of the server. If that is no more than a guess, and the list was refused,
// a WatchList is tried in between: the caller may be allowed to watch alone.
func (r *Reflector) usesLists() bool {
	lists, certain := r.gate.usesLists(r.resource)
	r.mu.Lock()
	defer r.mu.Unlock()
	noList := r.detour != nil && r.detour.noList
	if noList {
		r.detour.noList = false
	}
	return lists && (certain || !noList)
}

// noteListError records that a list failed, and returns the error that this is. In
// its place the refusal of the WatchList is reported, if there was one, unless the
// server asked for patience.
func (s *session) noteListError(err error) error {
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	if class := Classify(err); class.refusal() || class == Malformed {
		s.r.detourLocked().noList = true
	}
	if d := s.r.detour; d != nil && d.refusal != nil {
		if Classify(err) != Throttled {
			err = d.refusal
		}
		d.refusal = nil
	}
	return err
}

// noteNoState decides how to go on after a WatchList that was opened has ended
// without the state, and returns the error that this is.
func (s *session) noteNoState(err error) error {
	if s.ctx.Err() != nil {
		return err // ended from this side
	}
	switch {
	case refusesWatchList(err), refusesCaller(err):
		if s.triesList(err) {
			s.listNext()
		}
		return err
	case !isBroken(err):
		return err
	}
	s.noteBroken(err)
	if Classify(err) == Connection {
		return fmt.Errorf("%w: %w", errEndedEarly, err)
	}
	return err
}

// noteBroken records that the WatchList of a session did not bring the state. The
// reflector itself lists next, unless it was the first to break where others have
// worked: a connection may be cut at any time.
func (s *session) noteBroken(err error) {
	lists := s.r.gate.noteBrokenWatchList(s.r.resource, s.r.number, s.began)
	s.r.mu.Lock()
	d := s.r.detourLocked()
	d.broken++
	lists = lists || d.broken > 1 || errors.Is(err, errNoBookmark)
	s.r.mu.Unlock()
	if lists {
		s.logLists(err)
		s.listNext()
	}
}

// isBroken tells whether a stream ended for what was in it, or at a moment when
// it should not. An error that the server sent is no such end.
func isBroken(err error) bool {
	switch Classify(err) {
	case Malformed:
		return true
	case Connection:
		return statusCode(err) == 0 || isDecoding(err)
	}
	return false
}

// listNext has the next session use a list.
func (s *session) listNext() {
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	s.r.listNext = true
}

func (s *session) logLists(err error) {
	klog.FromContext(s.ctx).V(2).Info("The server does not do WatchList, using list and watch", "reflector", s.r.name, "err", err)
}

// watchRefusal returns why the watch after a list was refused, if that is too
// recent to try again.
func (s *session) watchRefusal() error {
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	d := s.r.detour
	if d == nil || !time.Now().Before(d.watchAgain) {
		return nil
	}
	s.r.listNext = true
	return d.watchError
}

// noteWatch records how the watch after a list was answered. Where it is refused,
// the list is repeated at the pace of the back-off.
func (s *session) noteWatch(err error) {
	s.r.mu.Lock()
	well := false
	switch {
	case err == nil && s.r.detour != nil && s.r.detour.watchError != nil:
		well = true
		s.r.detour.watchError, s.r.detour.watchAgain = nil, time.Time{}
		s.r.status.Failures, s.r.status.RefusedSince = 0, time.Time{}
	case refusesWatchList(err), refusesCaller(err):
		d := s.r.detourLocked()
		d.watchError, d.watchAgain = err, time.Now().Add(watchAgainAfter)
		s.r.listNext = true
	}
	s.r.mu.Unlock()
	if well {
		s.r.changed()
	}
}

// refusesWatchList tells whether an answer to a WatchList is that the server does
// not know such a request: with its gate off it is invalid (422), and so it is to
// servers before 1.27, for the resourceVersionMatch that goes with it. Others,
// and proxies, have other words for it.
func refusesWatchList(err error) bool {
	switch statusCode(err) {
	case http.StatusBadRequest, http.StatusUnprocessableEntity, http.StatusMethodNotAllowed,
		http.StatusNotAcceptable, http.StatusUnsupportedMediaType, http.StatusNotImplemented:
		return true
	}
	return false
}

// refusesCaller tells whether an answer to a watch says no to this caller, or of
// this object, while a list may be answered: rights are given by verb, and a
// proxy may know some paths only.
func refusesCaller(err error) bool {
	return Classify(err).refusal() && statusCode(err) != http.StatusUnauthorized && !refusesWatchList(err)
}
