// SPDX-License-Identifier: Apache-2.0

package course

import (
	"time"

	"github.com/refwatch/refwatch/internal/reflector/internal/failure"
	"github.com/refwatch/refwatch/internal/reflector/internal/moment"
)

// Which request the next attempt makes. Each verb may fail for good, for one object, one kind, or
// all, while another one works. Two rules keep the object fresh then:
//
//   - A verb that fails gives the next attempt to another one: a list, and a WatchList that hangs, at
//     once, a WatchList that fails otherwise after the second time, and one that is refused to the
//     caller after the third, because the Node authorizer refuses what it does not know yet. A GET
//     follows where both have failed: in the same attempt, unless it would have no time left, or the
//     server asks for a pause (429). So the sixth attempt at the latest reads the state, whatever
//     fails; where requests are throttled, one of the first after 30 s.
//   - What works where another verb does not is a lesson: it is used for a minute, and then twice as
//     long each time, up to an hour. When that is over, one attempt tries the other verb again.
//
// A selection learns for itself. When a second one learns the same, and no WatchList has worked in
// between, their resource learns; if a WatchList has worked for nobody, one is enough. Then one
// selection at a time tries, and each one that is polled within an hour. The resource does not learn GETs
// while those that have streams are half as many as those that fail, or more. Four selections try then. Once
// it has learned them, a selection whose own request has hung uses them, too, unless its GET has failed
// since.

// Verb is a way to read the state and the changes after it.
type Verb uint8

const (
	// WatchList is one request for both (KEP-3157).
	WatchList Verb = iota
	// List is a list, followed by a watch.
	List
	// Metadata is a list of the metadata of a large object, followed by a watch.
	Metadata
	// Get is a GET of the object, which no watch follows.
	Get
	// VerbCount is how many there are.
	VerbCount
)

const (
	// lessonFirst and lessonLongest are how long a lesson lasts.
	lessonFirst, lessonLongest = time.Minute, time.Hour
	// watchLessonLongest is the same for a watch that fails after a list that works: the selection
	// has no stream until then.
	watchLessonLongest = 15 * time.Minute
	// refusedFirst and refusedEvery are when a selection whose WatchLists are refused to the caller
	// is listed: after the third refusal in a row, and after each eighth one from then on.
	refusedFirst, refusedEvery = 3, 8
	// listedEvery is how often a WatchList follows a list that failed, if lists have worked where
	// WatchLists did not: after the first one, and each eighth one from then on. In an outage of all
	// verbs a refusal of WatchLists is not to be taken for the answer.
	listedEvery = 8
	// failedEvery is after how many WatchLists that failed otherwise a selection is listed, if the
	// verb works for others. A connection may break at any time. So it is with the lists of a read
	// without a stream.
	failedEvery = 2
	// failedEveryOfAll is after how many failures of a verb, of different selections of a resource and
	// since one worked, the next attempt of any selection uses another verb. A thousand selections
	// would else fail once each before one of them does.
	failedEveryOfAll = 4
	// throttledFor is for how long lists and WatchLists of a selection are throttled before a GET takes
	// their place: else GETs would defeat the priority and fairness of the server.
	throttledFor = 30 * time.Second
)

// Verbs is which verb the next attempt of a selection uses. Make one with [NewVerbs]. It must not be
// used beside another one of its resource.
type Verbs struct {
	resource *Resource
	learned  *learned // nil, as nearly always, if WatchLists have simply worked
	id       uint64   // in its resource
	listOnly bool     // the source knows no WatchList
	gets     Gets
	streams  bool // its stream is open
	sick     bool // its last WatchList or list hung or was throttled, or two have failed since the last read
}

// learned is what a selection has learned. The zero value is nothing.
type learned struct {
	next     turn
	refused  int              // WatchLists in a row that were refused to the caller
	failed   int              // WatchLists in a row that failed otherwise
	unknown  bool             // the last of them was not known to the server
	lists    lesson           // WatchLists fail, and lists work
	unlisted int              // lists that failed since the last read
	ungotten int              // lists that had failed when a GET last did, 1 at least; 0 if none has since the last read
	last     Verb             // the last WatchList or list that failed since then
	cause    error            // and why
	gets     lesson           // both fail, and GETs work
	failedAt [2]moment.Moment // when a WatchList and a list last failed, or another verb first took its place; 0 for never
	round    uint32           // Resource.round of its last trial
	trial    bool             // that is under way, and one of Resource.trials
	ungot    lesson           // GETs are refused
	polled   error            // why there is no stream after the last list or GET; nil if there was one
	unwatch  int              // watches after a list that failed in a row
	watches  lesson           // no watch is tried after a list
	whole    lesson           // metadata could not be read

	unanswered int           // attempts without an answer since the last read
	slow       time.Duration // how long that took, if it was long

	throttle throttle
}

// turn is whose turn the next attempt is.
type turn uint8

const (
	anyTurn turn = iota
	listTurn
	watchListTurn
	getTurn
)

// NewVerbs returns the verbs of a selection of a resource. listOnly says that its source cannot serve
// WatchList.
func NewVerbs(resource *Resource, listOnly bool, gets Gets) Verbs {
	resource.ids++
	return Verbs{resource: resource, id: resource.ids, listOnly: listOnly, gets: gets}
}

func (v *Verbs) record() *learned {
	if v.learned == nil {
		v.learned = &learned{}
	}
	return v.learned
}

// Next returns the verb of the attempt that begins now. once says that the state alone is needed: a
// list costs the server less.
func (v *Verbs) Next(once bool, now moment.Moment) Verb {
	l, next := v.learned, v.turn()
	switch {
	case v.gets == OnlyGets, v.mayGet(now) && (next == getTurn || next == anyTurn && v.usesGets(now)):
		return Get
	case v.listOnly:
		return List
	case next == anyTurn && !v.knowsGets() && (v.resource.next != getTurn || v.mayGet(now)):
		next, v.resource.next = v.resource.next, anyTurn
	}
	switch {
	case next == getTurn && v.mayGet(now):
		return Get
	case next == listTurn:
		return List
	case next == watchListTurn:
		return WatchList
	case v.knowsGets():
		verb := v.trialVerb()
		v.resource.triedList = verb == List
		return verb
	case once && v.resource.unlisted.use(now):
		return WatchList
	case once:
		return List
	case l != nil && l.lists.holds(now), v.resource.lists.use(now):
		if l == nil || !v.isDue(WatchList, now) {
			return List
		}
	}
	return WatchList
}

// turn returns whose turn the next attempt of the selection is. If its resource has learned that nothing but GETs works
// while its own request hung, that gives the turn to no other verb, unless a GET has failed since.
func (v *Verbs) turn() turn {
	l := v.learned
	if l == nil || v.gets == AlsoGets && v.resource.gets.lasts > 0 && l.unanswered > 0 && l.ungotten == 0 && l.next != getTurn {
		return anyTurn
	}
	return l.next
}

// MayWatchList reports whether a WatchList may work where lists do not.
func (v *Verbs) MayWatchList(now moment.Moment) bool {
	return !v.listOnly && !v.resource.lists.holds(now) && (v.learned == nil || !v.learned.lists.holds(now))
}

// MayCompare reports whether the metadata of a large object may be read in place of the state. It may
// not while it is another verb's turn, as that of a WatchList if watches fail after the metadata.
func (v *Verbs) MayCompare(now moment.Moment) bool {
	l := v.learned
	if v.resource.whole.holds(now) || v.resource.gets.holds(now) {
		return false
	}
	return l == nil || !l.gets.holds(now) && l.next == anyTurn && !l.whole.holds(now) && (l.polled == nil || l.lists.holds(now))
}

// Failed takes the failure of a request for the state. once is as in Next. Failed reports whether the
// attempt goes on, and with which verb: what Next has returned takes the place of Metadata. If the
// attempt cannot go on, [Verbs.Turn] makes that the verb of the next one.
func (v *Verbs) Failed(verb Verb, f failure.Failure, fault Fault, once bool, now moment.Moment) (other Verb, goOn bool) {
	if fault == NoFault || v.gets == OnlyGets {
		if l := v.learned; l != nil && verb <= List {
			l.failedAt[verb] = now // it has no connection, and a GET may have one
		}
		return verb, false
	}
	l := v.record()
	switch verb {
	case Metadata:
		return verb, v.metadataFailed(l, fault, now)
	case Get:
		v.getFailed(l, f, fault, now)
		return verb, false
	}
	l.next, l.last, l.cause, l.failedAt[verb] = anyTurn, verb, f.Err, now
	slow := fault == Hung || fault == Throttled // others cannot all find out for themselves
	v.resource.slow = slow
	if fault == Throttled {
		l.throttle.begin(now)
		v.resource.throttle.begin(now)
	}
	if other = List; verb == WatchList {
		goOn = v.watchListFailed(l, fault)
	} else {
		other, goOn = WatchList, v.listFailed(l, fault, once)
	}
	if !v.sick && (slow || l.failed+l.refused+l.unlisted > 1) {
		v.sick = true
		v.resource.sick++
	}
	// A selection believes what others have found out, if its own request failed likewise. A connection may break at
	// any time, and says nothing.
	same := slow || f.Class != failure.Unreachable
	if (v.allFail(l) || same && v.resource.bothFail()) && v.mayGet(now) {
		l.next = getTurn
		return Get, !slow
	}
	return other, goOn
}

func (v *Verbs) listFailed(l *learned, fault Fault, once bool) (goOn bool) {
	l.unlisted++
	v.resource.count(List, v.id)
	if once && fault == Refused && !v.listOnly { // the caller may be allowed to watch only
		return true
	}
	switch {
	case once && fault != Hung && l.unlisted%failedEvery != 0: // a list costs less
	case !once && (l.unknown || v.knowsLists()) && l.unlisted%listedEvery != 1:
		l.next = listTurn
	default:
		l.next = watchListTurn
	}
	return false
}

func (v *Verbs) metadataFailed(l *learned, fault Fault, now moment.Moment) (goOn bool) {
	l.whole.learn(now, lessonFirst, lessonLongest)
	if fault == Hung && l.polled == nil && !l.lists.holds(now) {
		l.unlisted++ // a list of the whole object would hang, too
	}
	if fault == Unknown || fault == Broken {
		v.resource.whole.learn(now, lessonLongest, lessonLongest)
	} else if v.resource.failed[Metadata].add(v.id) {
		v.resource.whole.learn(now, lessonFirst, lessonLongest)
	}
	return fault == Unknown || fault == Broken || fault == Refused
}

// knowsLists reports whether lists have worked where WatchLists did not.
func (v *Verbs) knowsLists() bool {
	l := v.learned
	return v.resource.lists.lasts > 0 || l != nil && (l.lists.lasts > 0 || l.polled != nil)
}

func (v *Verbs) watchListFailed(l *learned, fault Fault) (goOn bool) {
	if l.unknown = fault == Unknown; l.unknown {
		l.failed++
		l.next = listTurn
		return true // it is no answer to a caller that waits
	}
	if fault == Refused {
		l.refused++
		return v.knowsLists() || l.refused%refusedEvery == refusedFirst
	}
	l.failed++
	v.resource.count(WatchList, v.id)
	if v.knowsLists() || fault == Hung || fault == Broken && !v.resource.works || l.failed%failedEvery == 0 {
		l.next = listTurn
	}
	return false
}

// Turn makes the next attempt one of a verb.
func (v *Verbs) Turn(verb Verb) {
	v.record().next = [...]turn{WatchList: watchListTurn, List: listTurn, Metadata: anyTurn, Get: getTurn}[verb]
}

// Stored takes a read that has delivered the state, and how long that took. It reports whether there
// is a watch after it, as far as is known. A server that was slow has more patience. patience is that of
// a first attempt.
func (v *Verbs) Stored(verb Verb, took, patience time.Duration, now moment.Moment) (well bool) {
	r := v.resource
	if verb == Get && v.gets == AlsoGets {
		v.got(now)
	}
	l := v.learned
	if r.stored(verb, now); verb == WatchList {
		v.opened()
	}
	if verb != Get {
		v.recovered()
	}
	if l == nil {
		return true
	}
	if (verb == List || verb == Metadata) && (l.failed > 0 || l.refused > 0) {
		first := lessonFirst
		if l.unknown {
			first = lessonLongest
		}
		l.lists.learn(now, first, lessonLongest)
		r.learn(v.id, now, first)
	}
	if verb == Metadata {
		l.whole = lesson{}
	}
	l.next, l.refused, l.failed, l.unknown, l.unlisted, l.ungotten, l.last, l.cause = anyTurn, 0, 0, false, 0, 0, WatchList, nil
	l.trial, l.unanswered, l.slow = false, 0, 0
	if verb != Get {
		l.gets, l.throttle, l.failedAt[List], l.round = lesson{}, 0, 0, 0
	}
	if verb == WatchList {
		l.lists, l.polled, l.unwatch, l.watches = lesson{}, nil, 0, lesson{}
	}
	if l.polled == nil {
		l.failedAt[WatchList] = 0
	}
	if took >= patience/2 {
		l.slow = took
	}
	well = l.polled == nil
	if *l == (learned{}) {
		v.learned = nil
	}
	return well
}

// Unwatched returns why no watch is tried after the list that has been stored, nil if one is.
func (v *Verbs) Unwatched(now moment.Moment) error {
	if v.learned == nil || !v.learned.watches.holds(now) {
		return nil
	}
	return v.learned.polled
}

// Watched takes the answer to the watch after a list, and its fault. It reports whether a watch works
// that did not before. One that fails twice in a row, or is refused, makes the selection one that is
// polled: the list is repeated at the pace of the back-off. So does one that hangs.
func (v *Verbs) Watched(err error, fault Fault, now moment.Moment) (recovered bool) {
	if err == nil {
		v.opened()
		l := v.learned
		if l == nil {
			return false
		}
		recovered = l.polled != nil
		l.polled, l.unwatch, l.watches, l.failedAt[WatchList] = nil, 0, lesson{}, 0
		return recovered
	}
	if fault == NoFault {
		return false
	}
	l := v.record()
	if l.unwatch++; l.unwatch < 2 && fault != Refused && fault != Unknown && fault != Hung {
		return false
	}
	if fault == Hung {
		l.next = listTurn // the state is old by now
	}
	l.polled = err
	l.watches.learn(now, lessonFirst, watchLessonLongest)
	return false
}

// Polled returns why lists or GETs work, and watches do not; nil if they do, or nothing works.
func (v *Verbs) Polled() error {
	if v.learned == nil {
		return nil
	}
	return v.learned.polled
}
