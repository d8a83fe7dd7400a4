// SPDX-License-Identifier: Apache-2.0

package course

import (
	"cmp"
	"time"

	"github.com/refwatch/refwatch/internal/reflector/internal/failure"
	"github.com/refwatch/refwatch/internal/reflector/internal/moment"
)

// GETs, which take the place of WatchLists and lists that fail.

// Gets says which attempts of a selection may be GETs.
type Gets uint8

const (
	// NoGets: none.
	NoGets Gets = iota
	// AlsoGets: those that take the place of WatchLists and lists that fail.
	AlsoGets
	// OnlyGets: all. Of these rules only the time-outs apply.
	OnlyGets
)

// getsFirst is how long the resource's lesson of GETs lasts at first: those that failed may be the only ones that do.
const getsFirst = 10 * time.Second

// usesGets reports whether a lesson says that nothing but GETs works, and this attempt is no trial of another verb.
func (v *Verbs) usesGets(now moment.Moment) bool {
	l, r := v.learned, v.resource
	if l != nil && l.gets.holds(now) {
		return true
	}
	return r.gets.lasts > 0 && !v.beginTrial(now)
}

// beginTrial reports whether this attempt tries another verb although the lesson of the resource says that nothing but
// GETs works. When that is over, four selections do that are not sick; if none has for a minute, one that is. Each
// selection tries each verb half an hour to an hour after that last failed for it: what fails for others may work for
// it again.
func (v *Verbs) beginTrial(now moment.Moment) bool {
	l, r := v.record(), v.resource
	watchList, list := v.isDue(WatchList, now), v.isDue(List, now)
	isOver := !r.gets.holds(now)
	switch {
	case watchList || list:
		l.round = r.round
		return true
	case v.sick && now < r.gets.until.Add(lessonFirst), !isOver && r.trials == 0:
		return false
	case !isOver && (r.trials >= failedEveryOfAll || l.round == r.round):
		return false
	}
	if isOver {
		r.gets.use(now) // for a minute the others go on with GETs
		r.round++
	}
	if r.trials++; v.sick {
		r.trials = failedEveryOfAll // there is no other one
	}
	l.round, l.trial = r.round, true
	return true
}

// isDue reports whether a verb failed for the selection so long ago that it is tried again, whatever others have
// learned: half an hour to an hour, because not all should try at once. If it has not failed, the time begins with the
// first call, when another verb takes its place.
func (v *Verbs) isDue(verb Verb, now moment.Moment) bool {
	if v.listOnly && verb == WatchList {
		return false
	}
	at := &v.record().failedAt[verb]
	if *at == 0 {
		*at = now
	}
	return now.Sub(*at) >= lessonLongest-time.Duration(v.id%30)*time.Minute
}

// trialVerb returns the verb of a trial: the one that failed longer ago. If that is not known, selections take turns.
func (v *Verbs) trialVerb() Verb {
	failedAt := v.record().failedAt
	if v.listOnly || failedAt[List] < failedAt[WatchList] || failedAt[List] == failedAt[WatchList] && !v.resource.triedList {
		return List
	}
	return WatchList
}

// mayGet reports whether a GET may take the place of a WatchList or a list.
func (v *Verbs) mayGet(now moment.Moment) bool {
	l, throttled := v.learned, v.resource.throttle
	if v.gets != AlsoGets || v.resource.ungot.holds(now) || l != nil && l.ungot.holds(now) {
		return false
	}
	if l != nil && l.throttle != 0 && (throttled == 0 || l.throttle < throttled) {
		throttled = l.throttle // its own, although others may be well
	}
	return !throttled.isNew(now)
}

// knowsGets reports whether GETs have worked where WatchLists and lists did not.
func (v *Verbs) knowsGets() bool {
	return v.gets == AlsoGets && (v.resource.gets.lasts > 0 || v.learned != nil && v.learned.gets.lasts > 0)
}

// allFail reports whether neither WatchLists nor lists have worked since the last read, or lately. GETs
// may fail, too: one follows each list.
func (v *Verbs) allFail(l *learned) bool {
	if v.knowsGets() {
		return true
	}
	return l.unlisted > l.ungotten && (v.listOnly || l.failed+l.refused > 0 || v.knowsLists())
}

// getFailed takes the failure of a GET. The turn is that of the verb which has not failed last. A GET that is refused
// is not sent for a while.
func (v *Verbs) getFailed(l *learned, f failure.Failure, fault Fault, now moment.Moment) {
	if l.next = listTurn; l.last == List {
		l.next = watchListTurn
	}
	l.ungotten = max(1, l.unlisted)
	if f.Class == failure.Unauthorized {
		return // it is about the token, and no verb needs another one
	}
	v.resource.count(Get, v.id)
	if fault != Refused && fault != Unknown {
		return
	}
	l.ungot.learn(now, lessonFirst, lessonLongest)
	if v.resource.failed[Get].n >= failedEveryOfAll {
		v.resource.ungot.learn(now, lessonFirst, lessonLongest)
	}
}

// opened takes that the stream of the selection is open: see Ended.
func (v *Verbs) opened() {
	if !v.streams {
		v.streams = true
		v.resource.streams++
	}
}

// recovered takes that a WatchList or a list of the selection has worked.
func (v *Verbs) recovered() {
	if v.sick {
		v.sick = false
		v.resource.sick--
	}
}

// Leave takes that the selection makes no attempt any more.
func (v *Verbs) Leave() {
	v.recovered()
	v.Ended()
}

// Ended takes the end of an attempt, or of the stream after it.
func (v *Verbs) Ended() {
	if v.streams {
		v.streams = false
		v.resource.streams--
	}
}

// got takes a GET that has delivered the state in place of a WatchList or a list.
func (v *Verbs) got(now moment.Moment) {
	r, l := v.resource, v.record()
	failed := l.refused+l.failed+l.unlisted > 0
	shared := (failed || r.allFail()) && r.learnGets(l.trial, now)
	if failed && !shared {
		l.gets.learn(now, lessonFirst, lessonLongest)
	}
	l.polled = cmp.Or(l.cause, l.polled, failure.ErrUnread)
	l.ungot, r.ungot = lesson{}, lesson{}
}

// Only reports whether all attempts are GETs.
func (v *Verbs) Only() bool { return v.gets == OnlyGets }

// Cause returns why the last WatchList or list failed, nil if none has since the last read.
func (v *Verbs) Cause() error {
	if v.learned == nil {
		return nil
	}
	return v.learned.cause
}
