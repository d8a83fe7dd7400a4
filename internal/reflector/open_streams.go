// SPDX-License-Identifier: Apache-2.0

package reflector

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"

	"github.com/refwatch/refwatch/internal/redact"
	"github.com/refwatch/refwatch/internal/reflector/internal/admission"
	"github.com/refwatch/refwatch/internal/reflector/internal/course"
	"github.com/refwatch/refwatch/internal/reflector/internal/failure"
	"github.com/refwatch/refwatch/internal/reflector/internal/moment"
)

const (
	// silentAfter is how long a stream may deliver nothing, not even a bookmark, before
	// it is verified. kube-apiserver sends a bookmark about once a minute.
	silentAfter = 2 * time.Minute
	// silenceCheck is how often a verifier looks for silent streams: one look at all of
	// them costs less than a timer for each.
	silenceCheck = 30 * time.Second
	// eventAfter is how long a stream may go on to deliver nothing after a list has shown a
	// change that it has not delivered. A list overtakes the event that is under way, by
	// seconds if all objects change at once. A server that sends bookmarks sends one in
	// that time. One that sends none has only the event itself to send. What arrives need
	// not reach the version of the list: that may be a later one than that of the event,
	// and then nothing follows. A stream that is silent again is compared again.
	eventAfter = 90 * time.Second
)

// openStreams are the sessions of a gate whose state is stored. It verifies those that
// are silent, and ends all when a restore of etcd is proved: a stream at a version that the server
// does not have yet delivers nothing. A watch after a list may start as such a stream, if etcd is
// restored between the two.
type openStreams struct {
	limit int // of verifications of one resource at a time

	mu        sync.Mutex
	restores  course.Restores
	sessions  map[*session]struct{}
	timer     *time.Timer
	silent    map[silentKey]map[*session]struct{} // those to be verified
	verifying map[string]int                      // by resource, verifications under way
	listless  map[string]moment.Moment            // by resource, when two lists in a row had failed; 0 after one
}

// silentKey selects silent streams of a resource: those whose last list was answered, or never
// asked for, or the others. These are verified after all others of the resource.
type silentKey struct {
	resource   string
	unanswered bool
}

func newOpenStreams(limit int) openStreams {
	return openStreams{
		limit:     limit,
		sessions:  map[*session]struct{}{},
		silent:    map[silentKey]map[*session]struct{}{},
		verifying: map[string]int{},
		listless:  map[string]moment.Moment{},
	}
}

func (o *openStreams) add(s *session) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.sessions[s] = struct{}{}
	if len(o.sessions) > 1 {
		return
	}
	if o.timer != nil {
		o.timer.Reset(silenceCheck)
		return
	}
	o.timer = time.AfterFunc(silenceCheck, o.check)
}

func (o *openStreams) remove(s *session) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.sessions, s)
	delete(o.silent[silentKey{s.r.resource(), false}], s)
	delete(o.silent[silentKey{s.r.resource(), true}], s)
	if len(o.sessions) == 0 && o.timer != nil {
		o.timer.Stop()
	}
}

// prove takes the proof of a restore by a read that was asked for when so many were known. If it is
// the first one of that restore, all open streams end, for a consistent read. prove returns how many
// restores the read is of after.
func (o *openStreams) prove(asked uint64) (after uint64) {
	o.mu.Lock()
	first, after := o.restores.Prove(asked, moment.Now())
	o.mu.Unlock()
	if first {
		for _, s := range o.all() {
			s.r.refreshRestored(after)
		}
	}
	return after
}

// restoreCount returns how many restores of etcd were proved.
func (o *openStreams) restoreCount() uint64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.restores.Count()
}

func (o *openStreams) all() []*session {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Collect(maps.Keys(o.sessions))
}

// check lets the silent streams be verified, and ends those that are too old, have lost a change, or that
// no list can verify.
func (o *openStreams) check() {
	old, lost, unverified := o.verifySilent()
	for _, s := range old {
		s.end(nil)
	}
	for _, s := range lost {
		s.end(failure.ErrSilent)
	}
	for _, s := range unverified {
		s.end(failure.ErrUnverified)
	}
}

// compared takes whether the list of a verification was answered. It reports whether two of a resource
// in a row were not: what one stream proves of lists, all know.
func (o *openStreams) compared(resource string, answered bool) (listless bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if answered {
		delete(o.listless, resource)
		return false
	}
	_, listless = o.listless[resource]
	if o.listless[resource] = 0; listless {
		o.listless[resource] = moment.Now()
	}
	return listless
}

// verifySilent begins verifications. It returns the sessions that the server should have ended, those
// whose event did not arrive in time, and those that are silent while lists fail. A session that has lost
// an event has had no goroutine and no list since its verification.
func (o *openStreams) verifySilent() (old, lost, unverified []*session) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for s := range o.sessions {
		switch {
		case s.began.Since() > streamLimit-time.Duration(s.began%256)*time.Second:
			old = append(old, s)
		case s.r.progress.hasLostEvent(eventAfter):
			lost = append(lost, s)
		case !s.r.progress.isSilent(silentAfter):
		case o.areListlessLocked(s.r.resource()) && s.r.verbs.mayWatchList():
			unverified = append(unverified, s)
		default:
			o.addSilentLocked(s)
		}
		if s.r.gate.shortStreams.mayBeOver(s.began.Since()) && s.life.beginCall() {
			go s.logLongStreams()
		}
	}
	for key := range o.silent {
		o.verifyLocked(key.resource)
	}
	if len(o.sessions) > 0 {
		o.timer.Reset(silenceCheck)
	}
	return old, lost, unverified
}

// areListlessLocked reports whether lists of a resource have failed lately.
func (o *openStreams) areListlessLocked(resource string) bool {
	return o.listless[resource].Since() < silentAfter
}

func (o *openStreams) addSilentLocked(s *session) {
	key := silentKey{s.r.resource(), s.r.progress.isUnanswered()}
	silent := o.silent[key]
	if silent == nil {
		silent = map[*session]struct{}{}
		o.silent[key] = silent
	}
	silent[s] = struct{}{}
}

// verifyLocked begins verifications of a resource, as many as there may be. A stream that
// waits for its own has no goroutine. Lists that hang hold up those of their resource only,
// and are repeated after all others.
func (o *openStreams) verifyLocked(resource string) {
	for _, unanswered := range [...]bool{false, true} {
		key := silentKey{resource, unanswered}
		for s := range o.silent[key] {
			if o.verifying[resource] >= o.limit {
				return
			}
			delete(o.silent[key], s)
			if s.r.progress.beginVerifying(silentAfter) && s.life.beginCall() {
				o.verifying[resource]++
				go s.verify()
			}
		}
		delete(o.silent, key)
	}
}

// verified follows a verification, also if the source has ended its goroutine.
func (o *openStreams) verified(resource string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.verifying[resource]--; o.verifying[resource] == 0 {
		delete(o.verifying, resource)
	}
	o.verifyLocked(resource)
}

// verify reads the selection beside the stream, on a goroutine of its own. A list older than the
// stream ends the session, for a consistent read. So does a change that the stream has not delivered, if
// nothing arrives in eventAfter. So do two lists in a row that fail, or one that hangs: lists may fail for
// good. The next session reads with a WatchList, unless these do not work, either.
func (s *session) verify() {
	defer s.life.endCall()
	defer s.r.gate.streams.verified(s.r.resource())
	defer s.life.dropContext()
	repeated := s.r.progress.isUnanswered()
	err := s.compare()
	if s.isOver() {
		return // the list was ended from this side
	}
	fault := course.FaultOf(err, false)
	if err == nil || fault != course.NoFault {
		repeated = s.r.gate.streams.compared(s.r.resource(), err == nil) || repeated
	}
	switch {
	case errors.Is(err, failure.ErrSilent):
		s.end(err)
		return
	case (fault == course.Hung || repeated && fault != course.NoFault) && s.r.verbs.mayWatchList():
		s.end(failure.ErrUnverified)
		return
	case err != nil:
		klog.FromContext(s.r.ctx).V(2).Info("Verification of a silent stream failed", "reflector", s.r.String(), "err", err)
	}
	if s.r.progress.endVerifying(err == nil, repeated) {
		s.r.changed()
	}
}

// compare compares what the stream has delivered with a consistent list. If the list shows
// something else, an event is under way, or was lost, and is awaited. compare returns
// ErrSilent if the list is older, and another error if that is not known.
func (s *session) compare() (err error) {
	defer redact.Panic(&err) // of the store
	seen, lastContact := s.r.progress.seenUntil()
	list, err := s.verifyingList()
	if err != nil {
		return err
	}
	version, err := versionOf(list)
	if err != nil {
		return err
	}
	items, err := s.itemsOf(list)
	if err != nil {
		return err
	}
	if seen.IsAbove(version) {
		return failure.ErrSilent // a consistent read proves a restore
	}
	if same, known := s.r.store.holds(items); known && !same {
		s.r.progress.awaitEvent(lastContact)
	}
	return nil
}

// verifyingList lists the selection once, consistently. Its failure says nothing
// about the stream.
func (s *session) verifyingList() (runtime.Object, error) {
	var member admission.Member
	s.r.gate.admission.Join(&member, s.r.resource(), verifying{observer{s.r}})
	defer member.Leave()
	sessionCtx := s.context()
	if err := member.Acquire(sessionCtx); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(sessionCtx, course.AnswerTimeout)
	defer cancel()
	list, err := s.listAt(ctx, "")
	switch {
	case sessionCtx.Err() != nil:
		return nil, sessionCtx.Err()
	case err != nil && ctx.Err() != nil:
		err = failure.ErrNoAnswer
	}
	member.Release(failure.Outcome(err))
	return list, err
}
