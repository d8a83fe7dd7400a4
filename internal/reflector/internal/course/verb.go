// SPDX-License-Identifier: Apache-2.0

package course

import (
	"time"

	"github.com/refwatch/refwatch/internal/reflector/internal/moment"
)

// Which request the next attempt makes. Each verb may fail for good, for one object, one kind, or
// all, while another one works. Two rules keep the object fresh then:
//
//   - A verb that fails gives the next attempt to another one: one that hangs at once, one that fails
//     otherwise after the second time, and one that is refused to the caller after the third, because
//     the Node authorizer refuses what it does not know yet. So the fifth attempt at the latest reads
//     the state, whatever fails.
//   - What works where another verb does not is a lesson: it is used for a minute, and then twice as
//     long each time, up to an hour. When that is over, one attempt tries the other verb again.
//
// A selection learns for itself. Two selections, of which the second one knows no better, learn for
// their resource; one does, if the verb has worked for nobody. Then one selection at a time tries.

// Verb is a way to read the state and the changes after it.
type Verb uint8

const (
	// WatchList is one request for both (KEP-3157).
	WatchList Verb = iota
	// List is a list, followed by a watch.
	List
	// Metadata is a list of the metadata of a large object, followed by a watch.
	Metadata
	// Get is a GET of a source that is read by nothing else. Only its time-outs follow these rules.
	Get
)

// Other returns the verb that takes the place of a WatchList or of a list.
func (v Verb) Other() Verb {
	if v == WatchList {
		return List
	}
	return WatchList
}

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
)

// lesson is that another verb works. The zero value is none.
type lesson struct {
	until moment.Moment // the other verb is used
	lasts time.Duration
}

func (l *lesson) holds(now moment.Moment) bool { return l.lasts > 0 && now < l.until }

// use reports whether an attempt uses the other verb. When the lesson is over, one attempt does not.
func (l *lesson) use(now moment.Moment) bool {
	if l.holds(now) {
		return true
	}
	if l.lasts > 0 {
		l.until = now.Add(lessonFirst)
	}
	return false
}

// learn begins the lesson again, for twice as long as the last time.
func (l *lesson) learn(now moment.Moment, first, longest time.Duration) {
	l.lasts = min(max(2*l.lasts, first), longest)
	l.until = now.Add(l.lasts)
}

// Resource is what the selections of a resource have learned together. The zero value knows nothing.
type Resource struct {
	lists    lesson   // WatchLists fail, and lists work
	of       uint64   // the selection that has learned that last, 0 if a WatchList has worked since
	works    bool     // a WatchList has worked
	unlisted lesson   // lists fail, and WatchLists work
	whole    lesson   // metadata cannot be read
	next     turn     // of the next attempt of any selection that has no turn of its own
	failed   [3]count // requests by verb
	ids      uint64   // of the selections so far
}

// count counts the failures of a verb since it worked. Those of one selection in a row are one.
type count struct {
	n  int
	of uint64 // the selection of the last one
}

// add counts a failure of a selection. It reports whether it is one of those after which all know.
func (c *count) add(of uint64) bool {
	if c.of == of {
		return false
	}
	c.n, c.of = c.n+1, of
	return c.n%failedEveryOfAll == 0
}

// learn takes the lesson of a selection.
func (r *Resource) learn(id uint64, now moment.Moment, first time.Duration) {
	if r.works && r.lists.lasts == 0 && (r.of == 0 || r.of == id) {
		r.of = id
		return
	}
	r.of = id
	r.lists.learn(now, first, lessonLongest)
}

// Verbs is which verb the next attempt of a selection uses. Make one with [NewVerbs]. It must not be
// used beside another one of its resource.
type Verbs struct {
	resource *Resource
	learned  *learned // nil, as nearly always, if WatchLists have simply worked
	id       uint64   // in its resource
	listOnly bool     // the source knows no WatchList
}

// learned is what a selection has learned. The zero value is nothing.
type learned struct {
	next     turn
	refused  int    // WatchLists in a row that were refused to the caller
	failed   int    // WatchLists in a row that failed otherwise
	unknown  bool   // the last of them was not known to the server
	lists    lesson // WatchLists fail, and lists work
	unlisted int    // lists that failed since the last read
	polled   error  // why there is no watch after the last list; nil if there was one
	unwatch  int    // watches after a list that failed in a row
	watches  lesson // no watch is tried after a list
	whole    lesson // metadata could not be read
	late     int    // attempts in a row without an answer in time
	givenUp  int    // attempts in a row that were given up while a caller waited
}

// turn is whose turn the next attempt is.
type turn uint8

const (
	anyTurn turn = iota
	listTurn
	watchListTurn
)

// NewVerbs returns the verbs of a selection of a resource. listOnly says that its source cannot serve
// WatchList.
func NewVerbs(resource *Resource, listOnly bool) Verbs {
	resource.ids++
	return Verbs{resource: resource, id: resource.ids, listOnly: listOnly}
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
	l, next := v.learned, anyTurn
	if l != nil {
		next = l.next
	}
	switch {
	case v.listOnly:
		return List
	case next == anyTurn:
		next, v.resource.next = v.resource.next, anyTurn
	}
	switch {
	case next == listTurn:
		return List
	case next == watchListTurn:
		return WatchList
	case once && v.resource.unlisted.use(now):
		return WatchList
	case once:
		return List
	case l != nil && l.lists.holds(now), v.resource.lists.use(now):
		return List
	}
	return WatchList
}

// MayWatchList reports whether a WatchList may work where lists do not.
func (v *Verbs) MayWatchList(now moment.Moment) bool {
	return !v.listOnly && !v.resource.lists.holds(now) && (v.learned == nil || !v.learned.lists.holds(now))
}

// MayCompare reports whether the metadata of a large object may be read in place of the state. It may
// not while it is another verb's turn, as that of a WatchList if watches fail after the metadata.
func (v *Verbs) MayCompare(now moment.Moment) bool {
	l := v.learned
	if l == nil {
		return !v.resource.whole.holds(now)
	}
	return !v.resource.whole.holds(now) && l.next == anyTurn && !l.whole.holds(now) && (l.polled == nil || l.lists.holds(now))
}

// Failed takes the fault of a request for the state. once is as in Next. Failed reports whether the
// attempt goes on: a list takes the place of a WatchList, a WatchList that of a list, and what Next
// has returned that of Metadata.
func (v *Verbs) Failed(verb Verb, fault Fault, once bool, now moment.Moment) (goOn bool) {
	if fault == NoFault || verb == Get {
		return false
	}
	l := v.record()
	if verb != Metadata {
		l.next = anyTurn
	}
	switch verb {
	case WatchList:
		return v.watchListFailed(l, fault)
	case List:
		l.unlisted++
		if v.resource.failed[List].add(v.id) {
			v.resource.next = watchListTurn
		}
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
	l.whole.learn(now, lessonFirst, lessonLongest)
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
	if v.resource.failed[WatchList].add(v.id) {
		v.resource.next = listTurn
	}
	if v.knowsLists() || fault == Hung || fault == Broken && !v.resource.works || l.failed%failedEvery == 0 {
		l.next = listTurn
	}
	return false
}

// ListNext makes the next attempt a list.
func (v *Verbs) ListNext() { v.record().next = listTurn }

// Stored takes a read that has delivered the state, and how long that took. It reports whether there
// is a watch after it, as far as is known. A server that was slow keeps the longer time-out.
func (v *Verbs) Stored(verb Verb, took time.Duration, now moment.Moment) (well bool) {
	r, l := v.resource, v.learned
	switch verb {
	case WatchList:
		r.works, r.of, r.lists = true, 0, lesson{}
		if r.failed[List].n >= failedEveryOfAll && !r.unlisted.holds(now) {
			r.unlisted.learn(now, lessonFirst, lessonLongest)
		}
		if r.next == listTurn {
			r.next = anyTurn
		}
	case List:
		r.unlisted = lesson{}
		if r.next == watchListTurn {
			r.next = anyTurn
		}
	case Metadata:
		r.whole = lesson{}
	}
	if verb != Get {
		r.failed[verb] = count{}
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
	if verb != Get {
		l.next, l.refused, l.failed, l.unknown, l.unlisted = anyTurn, 0, 0, false, 0
	}
	if verb == WatchList {
		l.lists, l.polled, l.unwatch, l.watches = lesson{}, nil, 0, lesson{}
	}
	if took < AnswerTimeout/2 {
		l.late = 0
	}
	if took < patience/2 {
		l.givenUp = 0
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
		l := v.learned
		if l == nil {
			return false
		}
		recovered = l.polled != nil
		l.polled, l.unwatch, l.watches = nil, 0, lesson{}
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

// IsPolled reports whether lists work, and the watch after them does not.
func (v *Verbs) IsPolled() bool { return v.learned != nil && v.learned.polled != nil }
