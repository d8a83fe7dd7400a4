// SPDX-License-Identifier: Apache-2.0

package reflector

import (
	"cmp"
	"fmt"
	"sync"
	"time"

	"k8s.io/client-go/features"
	clientwatchlist "k8s.io/client-go/util/watchlist"

	"github.com/refwatch/refwatch/internal/reflector/internal/course"
	"github.com/refwatch/refwatch/internal/reflector/internal/failure"
	"github.com/refwatch/refwatch/internal/reflector/internal/moment"
)

// Which verb a session uses: the driver of [course.Verbs].

// resources are what a gate knows of the verbs of each resource.
type resources struct {
	mu     sync.Mutex
	byName map[string]*resource
}

// resource guards what its reflectors know of their verbs, together and each.
type resource struct {
	mu    sync.Mutex
	knows course.Resource
}

func (r *resources) of(name string) *resource {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.byName == nil {
		r.byName = map[string]*resource{}
	}
	if r.byName[name] == nil {
		r.byName[name] = &resource{}
	}
	return r.byName[name]
}

// verbs are those of a reflector.
type verbs struct {
	resource *resource
	course   course.Verbs // guarded by resource.mu
}

func newVerbs(resource *resource, source any, gets Gets) verbs {
	resource.mu.Lock()
	defer resource.mu.Unlock()
	return verbs{resource, course.NewVerbs(&resource.knows, lacksWatchList(source), gets)}
}

// lacksWatchList reports whether a source must be listed and then watched: the source says so
// (IsWatchListSemanticsUnSupported), or client-go's feature gate WatchListClient is off.
func lacksWatchList(source any) bool {
	return clientwatchlist.DoesClientNotSupportWatchListSemantics(source) ||
		!features.FeatureGates().Enabled(features.WatchListClient)
}

// lock returns the course, and the time.
func (v *verbs) lock() (*course.Verbs, moment.Moment) {
	v.resource.mu.Lock()
	return &v.course, moment.Now()
}

func (v *verbs) unlock() { v.resource.mu.Unlock() }

func (v *verbs) next(once bool) course.Verb {
	c, now := v.lock()
	defer v.unlock()
	return c.Next(once, now)
}

func (v *verbs) mayCompare() bool {
	c, now := v.lock()
	defer v.unlock()
	return c.MayCompare(now)
}

func (v *verbs) mayWatchList() bool {
	c, now := v.lock()
	defer v.unlock()
	return c.MayWatchList(now)
}

func (v *verbs) failed(verb course.Verb, f failure.Failure, fault course.Fault, once bool) (other course.Verb, goOn bool) {
	c, now := v.lock()
	defer v.unlock()
	return c.Failed(verb, f, fault, once, now)
}

func (v *verbs) stored(verb course.Verb, took, patience time.Duration) (well bool) {
	c, now := v.lock()
	defer v.unlock()
	return c.Stored(verb, took, patience, now)
}

func (v *verbs) ended() {
	c, _ := v.lock()
	defer v.unlock()
	c.Ended()
}

func (v *verbs) leave() {
	c, _ := v.lock()
	defer v.unlock()
	c.Leave()
}

func (v *verbs) unwatched() error {
	c, now := v.lock()
	defer v.unlock()
	return c.Unwatched(now)
}

func (v *verbs) watched(err error) (recovered bool) {
	c, now := v.lock()
	defer v.unlock()
	return c.Watched(err, course.FaultOf(failure.From(err), false), now)
}

func (v *verbs) polled() error {
	c, _ := v.lock()
	defer v.unlock()
	return c.Polled()
}

// failing returns why the last WatchList or list failed, nil if it is not known.
func (v *verbs) failing() error {
	c, _ := v.lock()
	defer v.unlock()
	return c.Cause()
}

// unanswered takes that a request for the state had no answer in time.
func (v *verbs) unanswered(verb course.Verb) {
	c, now := v.lock()
	defer v.unlock()
	c.Failed(verb, failure.From(failure.ErrNoAnswer), course.Hung, false, now)
	c.NoAnswer()
}

// initialEventsNotEnded takes that a WatchList did not end its initial events in time.
func (v *verbs) initialEventsNotEnded() {
	v.failed(course.WatchList, failure.From(failure.ErrNoBookmark), course.Broken, false)
	v.turn(course.List)
}

// turn makes the next attempt one of a verb.
func (v *verbs) turn(verb course.Verb) {
	c, _ := v.lock()
	defer v.unlock()
	c.Turn(verb)
}

func (v *verbs) patience(first time.Duration) time.Duration {
	c, _ := v.lock()
	defer v.unlock()
	return c.Patience(first)
}

// readFailed takes the failure of the request for the state. It returns whether the session goes on, with which
// verb, and the failure to report.
func (s *session) readFailed(err error) (other course.Verb, goOn bool, reported failure.Failure) {
	f := failure.From(err)
	if err == nil || s.state || s.isOver() {
		return s.verb, false, f // the state was read, or the session was ended from this side
	}
	answered := s.stream != nil
	fault := course.FaultOf(f, answered)
	other, goOn = s.r.verbs.failed(s.verb, f, fault, s.once)
	if goOn && answered {
		goOn = false // a session has one stream
		s.r.verbs.turn(other)
	}
	switch {
	case s.verb == course.Get && fault == course.Refused && f.Class != failure.Unauthorized:
		s.earlier = true // the caller need not have the right to GETs
		return other, goOn, failure.From(cmp.Or(s.r.verbs.failing(), err))
	case answered && fault == course.Broken && (f.Class == failure.Unreachable || f.Class == failure.Failed):
		f = failure.Failure{Err: fmt.Errorf("%w: %w", failure.ErrEndedEarly, err), Class: failure.Failed}
	}
	return other, goOn, f
}

// Gets says which attempts of a reflector may be GETs.
type Gets = course.Gets

// The values of [Gets] are those of package course.
const (
	NoGets   = course.NoGets
	AlsoGets = course.AlsoGets
	OnlyGets = course.OnlyGets
)
