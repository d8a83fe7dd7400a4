// SPDX-License-Identifier: Apache-2.0

package course

import (
	"time"

	"github.com/refwatch/refwatch/internal/reflector/internal/moment"
)

// What selections and their resource have learned of verbs.

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

// throttle is when a WatchList or a list was throttled, for the first time since one worked; 0 if none was.
type throttle moment.Moment

func (t *throttle) begin(now moment.Moment) {
	if *t == 0 {
		*t = throttle(now)
	}
}

// isNew reports whether that was lately.
func (t throttle) isNew(now moment.Moment) bool {
	return t != 0 && now.Sub(moment.Moment(t)) < throttledFor
}

// Resource is what the selections of a resource have learned together. The zero value knows nothing.
type Resource struct {
	lists     lesson   // WatchLists fail, and lists work
	of        uint64   // the selection that has learned that last, 0 if a WatchList has worked since
	works     bool     // a WatchList has worked
	unlisted  lesson   // lists fail, and WatchLists work
	whole     lesson   // metadata cannot be read
	gets      lesson   // WatchLists and lists fail, and GETs work
	ungot     lesson   // GETs are refused
	triedList bool     // the last trial of another verb than GET was a list
	trials    int      // of other verbs since the lesson of GETs began, or began again
	round     uint32   // how often it was over; a selection tries once then
	streams   int      // that are open
	sick      int      // selections: see Verbs.sick
	slow      bool     // the last WatchList or list that failed was not answered, or throttled
	throttle  throttle // of any WatchList or list
	next      turn     // of the next attempt of any selection that has no turn of its own
	failed    [VerbCount]count
	ids       uint64 // of the selections so far
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

// learnGets takes the lesson that GETs work, and nothing else does. It reports whether it is one of the resource: the
// selection then has none of its own, so that another verb which works for one soon is used for all. It is none while
// others are well, or none but this one fails. The lesson becomes longer when a trial has failed and four have begun:
// others may be well whose streams had just ended when it was learned.
func (r *Resource) learnGets(trial bool, now moment.Moment) (learned bool) {
	if r.sick < 2 || r.othersAreWell() {
		return false
	}
	if r.gets.lasts == 0 || trial && r.trials >= failedEveryOfAll {
		r.gets.learn(now, getsFirst, lessonLongest)
		r.trials = 0
	}
	return true
}

// count takes the failure of a verb for a selection. When WatchLists of several have failed, lists are next until as
// many of them have failed: then a GET is, unless a list works. In an outage one selection at a time makes one request,
// and a caller waits.
func (r *Resource) count(verb Verb, id uint64) {
	again := r.failed[verb].add(id)
	unknown := r.failed[WatchList].n >= failedEveryOfAll && r.failed[List].n < failedEveryOfAll
	gotten := r.failed[Get].n
	switch {
	case !again && !unknown:
	case r.allFail() && (gotten < failedEveryOfAll || r.failed[verb].n/failedEveryOfAll%2 == 0):
		r.next = getTurn
	case verb == WatchList, unknown:
		r.next = listTurn
	case verb == List:
		r.next = watchListTurn
	}
}

// othersAreWell reports whether the selections that fail are no more than twice as many as those with streams.
func (r *Resource) othersAreWell() bool { return r.streams > 0 && r.sick <= 2*r.streams }

// allFail reports whether WatchLists and lists of several selections have failed since one worked, the last one by no
// answer or by 429, and few others are well. Then a selection need not wait for its own. When all connections break,
// those that are well must not be taken for those that are not.
func (r *Resource) allFail() bool {
	return r.slow && !r.othersAreWell() && r.bothFail()
}

// bothFail reports whether WatchLists and lists of several selections have failed since one worked.
func (r *Resource) bothFail() bool {
	return r.failed[WatchList].n >= failedEveryOfAll && r.failed[List].n >= failedEveryOfAll
}

// stored takes that a verb has worked.
func (r *Resource) stored(verb Verb, now moment.Moment) {
	switch r.failed[verb] = (count{}); verb {
	case Get:
		return
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
		r.failed[WatchList] = count{} // it is known what works where they fail
		if r.next == watchListTurn {
			r.next = anyTurn
		}
	case Metadata:
		r.whole = lesson{}
	}
	r.gets, r.throttle = lesson{}, 0
	if r.next == getTurn {
		r.next = anyTurn
	}
}
