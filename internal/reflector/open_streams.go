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

// silenceCheck is how often a gate looks for silent streams: one look at all of them costs less than a timer for each.
const silenceCheck = 30 * time.Second

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
	silent    map[string]map[*session]struct{} // by resource, those to be verified
	verifying map[string]int                   // by resource, verifications under way
	lists     map[string]*course.Lists         // by resource
}

func newOpenStreams(limit int) openStreams {
	return openStreams{
		limit:     limit,
		sessions:  map[*session]struct{}{},
		silent:    map[string]map[*session]struct{}{},
		verifying: map[string]int{},
		lists:     map[string]*course.Lists{},
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
	delete(o.silent[s.r.resource()], s)
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

// check lets the silent streams be verified, and ends those that are too old, or that no list can verify.
func (o *openStreams) check() {
	old, unverified := o.verifySilent()
	for _, s := range old {
		s.end(nil)
	}
	for _, s := range unverified {
		s.end(failure.ErrUnverified)
	}
}

// verifySilent begins verifications. It returns the sessions that the server should have ended, and those that are
// silent while lists fail.
func (o *openStreams) verifySilent() (old, unverified []*session) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for s := range o.sessions {
		switch {
		case s.began.Since() > streamLimit-time.Duration(s.began%256)*time.Second:
			old = append(old, s)
		case !s.r.progress.isSilent():
		case o.listsLocked(s.r.resource()).Fail(moment.Now()) && s.r.verbs.mayWatchList():
			unverified = append(unverified, s)
		default:
			o.addSilentLocked(s)
		}
		if s.r.gate.shortStreams.mayBeOver(s.began.Since()) && s.life.beginCall() {
			go s.logLongStreams()
		}
	}
	for resource := range o.silent {
		o.verifyLocked(resource)
	}
	if len(o.sessions) > 0 {
		o.timer.Reset(silenceCheck)
	}
	return old, unverified
}

// listsLocked returns what is known of the lists of a resource.
func (o *openStreams) listsLocked(resource string) *course.Lists {
	if o.lists[resource] == nil {
		o.lists[resource] = &course.Lists{}
	}
	return o.lists[resource]
}

// listed takes the list of a verification, as [course.Lists.Add]. It reports whether lists of the resource fail.
func (o *openStreams) listed(resource string, works bool, fault course.Fault) (fail bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	lists, now := o.listsLocked(resource), moment.Now()
	lists.Add(works, fault, now)
	return lists.Fail(now)
}

func (o *openStreams) addSilentLocked(s *session) {
	silent := o.silent[s.r.resource()]
	if silent == nil {
		silent = map[*session]struct{}{}
		o.silent[s.r.resource()] = silent
	}
	silent[s] = struct{}{}
}

// verifyLocked begins verifications of a resource, as many as there may be. A stream that
// waits for its own has no goroutine. Lists that hang hold up those of their resource only.
func (o *openStreams) verifyLocked(resource string) {
	for s := range o.silent[resource] {
		if o.verifying[resource] >= o.limit {
			return
		}
		delete(o.silent[resource], s)
		if s.r.progress.beginComparing() && s.life.beginCall() {
			o.verifying[resource]++
			go s.verify()
		}
	}
	delete(o.silent, resource)
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

// verify reads the selection beside the stream, on a goroutine of its own, and ends the session if another stream must
// take its place: see [course.Silence].
func (s *session) verify() {
	defer s.life.endCall()
	defer s.r.gate.streams.verified(s.r.resource())
	defer s.life.dropContext()
	err := s.compare()
	if s.isOver() {
		return // the list was ended from this side
	}
	if errors.Is(err, failure.ErrSilent) {
		s.r.gate.streams.listed(s.r.resource(), true, course.NoFault)
		s.end(err)
		return
	}
	fault := course.FaultOf(failure.From(err), false)
	fail := s.r.gate.streams.listed(s.r.resource(), err == nil, fault)
	switch replace := s.r.progress.endComparing(err == nil, fault, fail, s.r.verbs.mayWatchList()); {
	case replace:
		s.end(failure.ErrUnverified)
	case err != nil:
		klog.FromContext(s.r.ctx).V(2).Info("Verification of a silent stream failed", "reflector", s.r.String(), "err", err)
	default:
		s.r.changed()
	}
}

// compare compares what the stream has delivered with a consistent list. It returns ErrSilent if the list is older or
// shows something else, and the stream has brought nothing meanwhile, and another error if that is not known.
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
		if _, contact := s.r.progress.seenUntil(); contact == lastContact {
			return failure.ErrSilent
		}
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
	list, err := s.peek(ctx)
	switch {
	case sessionCtx.Err() != nil:
		return nil, sessionCtx.Err()
	case err != nil && ctx.Err() != nil:
		err = failure.ErrNoAnswer
	}
	member.Release(failure.From(err).Outcome())
	return list, err
}
