// SPDX-License-Identifier: Apache-2.0

package course_test

import (
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/refwatch/refwatch/internal/reflector/internal/course"
	"github.com/refwatch/refwatch/internal/reflector/internal/failure"
	"github.com/refwatch/refwatch/internal/reflector/internal/moment"
	"github.com/refwatch/refwatch/test/testmain"
)

var faults = []string{"well", "unreachable", "unknown", "refused", "failing", "throttled", "broken", "hangs"}

func faultOf(name string) (course.Fault, bool) {
	i := slices.Index(faults, name)
	return []course.Fault{0, course.NoFault, course.Unknown, course.Refused, course.Failing, course.Throttled, course.Broken, course.Hung}[max(i, 0)], i >= 0
}

// answers are what the server answers to each verb: one of faults.
type answers struct{ watchList, list, watch, metadata, get string }

var well = answers{"well", "well", "well", "well", "well"}

func (a *answers) to(verb course.Verb) string {
	return map[course.Verb]string{course.WatchList: a.watchList, course.List: a.list, course.Metadata: a.metadata, course.Get: a.get}[verb]
}

// throttled reports whether a GET has to wait until others have been throttled for a while.
func (a *answers) throttled() bool {
	return slices.Contains([]string{a.watchList, a.list}, "throttled") && a.watchList != "well" && a.list != "well"
}

// attempted is what became of an attempt.
type attempted struct {
	requests        []string
	stored, streams bool
	took            time.Duration
}

// attempt makes an attempt, as a session does: it tries each verb once.
func attempt(v *course.Verbs, a answers, large, once bool, now moment.Moment) (got attempted) {
	v.Ended() // the stream of the attempt before
	ask := func(verb course.Verb, name string) (other course.Verb, goOn bool) {
		answer := a.to(verb)
		got.requests = append(got.requests, name+" "+answer)
		if answer == "well" {
			v.Stored(verb, 0, time.Second, now)
			got.stored, got.streams = true, verb == course.WatchList
			if err := v.Unwatched(now); err != nil || once || verb == course.WatchList || verb == course.Get {
				return verb, false
			}
			got.requests = append(got.requests, "watch "+a.watch)
			if a.watch == "well" {
				v.Watched(nil, course.NoFault, now)
				got.streams = true
				return verb, false
			}
			fault, _ := faultOf(a.watch)
			if fault == course.Hung {
				now, got.took = now.Add(course.AnswerTimeout), got.took+course.AnswerTimeout
			}
			v.Watched(errors.New(a.watch), fault, now)
			return verb, false
		}
		fault, _ := faultOf(answer)
		if fault == course.Hung {
			timeout := verb.AnswerTimeout(5 * time.Second)
			now, got.took = now.Add(timeout), got.took+timeout
			v.NoAnswer()
		}
		err := errors.New(answer)
		switch answer {
		case "unauthorized":
			err, fault = apierrors.NewUnauthorized("no"), course.Refused
		case "500": // failing has no answer from the server
			err, fault = apierrors.NewInternalError(err), course.Failing
		}
		other, goOn = v.Failed(verb, failure.From(err), fault, once, now)
		return other, goOn && fault != course.Hung
	}
	names := map[course.Verb]string{course.WatchList: "WatchList", course.List: "list", course.Get: "GET"}
	verb := v.Next(once, now)
	if large && verb != course.Get && v.MayCompare(now) {
		if _, goOn := ask(course.Metadata, "metadata"); got.stored || !goOn {
			return got
		}
	}
	tried := map[course.Verb]bool{}
	for goOn := true; goOn && !tried[verb]; {
		tried[verb] = true
		verb, goOn = ask(verb, names[verb])
	}
	return got
}

// verbs are selections of one resource.
type verbs struct {
	now      moment.Moment
	resource course.Resource
	byName   map[string]*course.Verbs
	gets     course.Gets
	listOnly bool
}

func newVerbWorld(gets course.Gets) *verbs {
	return &verbs{gets: gets, now: moment.Moment(time.Hour), byName: map[string]*course.Verbs{}}
}

func (w *verbs) of(name string) *course.Verbs {
	if w.byName[name] == nil {
		v := course.NewVerbs(&w.resource, w.listOnly, w.gets)
		w.byName[name] = &v
	}
	return w.byName[name]
}

// The worst that may become of an object, if one verb works and the others fail in any way, for it or for all: the
// state is read by the sixth attempt (later where one is throttled), and then is never older than this, if nobody
// waits.
const (
	longestStale   = 3 * time.Minute
	mostRequests   = 310 // an hour
	attemptsAtMost = 5   // and the next one has it
	// throttledAttempts is how many more there may be in the 30 s until a GET takes the place of requests that
	// are throttled.
	throttledAttempts = 6
)

// The whole product of faults, but those that leave nothing that works. Attempts of an object that is polled follow
// each other after 10 to 15 s, others after 0.1 s at first, and a stream lasts for 30 to 60 minutes.
func TestVerbsOfEachFault(t *testing.T) {
	testmain.Long(t)
	random := rand.New(rand.NewPCG(1, 2))
	cells := 0
	for a := range products() {
		for _, kind := range []string{"small", "large", "once"} {
			for _, others := range []string{"alone", "beside one that is well", "beside one like it", "after a lesson"} {
				for _, gets := range []course.Gets{course.NoGets, course.AlsoGets} {
					large := kind == "large"
					if works := a.watchList == "well" || a.list == "well" || gets == course.AlsoGets && a.get == "well"; !works {
						continue
					}
					if gets == course.NoGets && a.get != "well" || !large && a.metadata != "well" || kind == "once" && a.watch != "well" ||
						a.watch != "well" && a.list != "well" && (!large || a.metadata != "well") {
						continue // is not asked for
					}
					cells++
					w := newVerbWorld(gets)
					if _, err := live(w, w.of("a"), a, large, kind == "once", others, random); err != nil {
						t.Errorf("%s, %s, gets %d, %+v: %v", kind, others, gets, a, err)
					}
				}
			}
		}
	}
	t.Logf("%d cells", cells)
}

// products yields each way in which the verbs may fail.
func products() iter.Seq[answers] {
	return func(yield func(answers) bool) {
		answer := slices.DeleteFunc(slices.Clone(faults), func(f string) bool { return f == "unreachable" }) // no verb works
		for i := range len(answer) * len(answer) * len(answer) * len(answer) * len(answer) {
			next := func() (a string) { a, i = answer[i%len(answer)], i/len(answer); return a }
			if !yield(answers{next(), next(), next(), next(), next()}) {
				return
			}
		}
	}
}

// lived is what has become of an object for some hours.
type lived struct {
	stale    time.Duration // how old the state was at most
	requests float64       // an hour
	last     attempted
}

// live makes attempts for some hours: first all is well, then not.
func live(w *verbs, v *course.Verbs, a answers, large, once bool, others string, random *rand.Rand) (l lived, err error) {
	attempt(v, well, large, once, w.now)
	if others == "after a lesson" { // of a day before: WatchLists failed, and lists worked
		for _, name := range []string{"a", "b", "a", "b", "a", "b"} {
			attempt(w.of(name), answers{"failing", "well", "well", "well", "well"}, false, false, w.now)
		}
		w.now = w.now.Add(24 * time.Hour)
	}
	began, fresh, streamed := w.now, w.now, w.now
	requests, attempts := 0, 0
	for w.now.Sub(began) < 4*time.Hour {
		switch others {
		case "beside one that is well":
			attempt(w.of("b"), well, false, false, w.now)
		case "beside one like it":
			attempt(w.of("b"), a, large, once, w.now)
		}
		got := attempt(v, a, large, once, w.now)
		l.last = got
		requests += len(got.requests)
		attempts++
		w.now = w.now.Add(got.took)
		if got.stored {
			fresh, attempts = w.now, 0
		}
		most := attemptsAtMost
		if a.throttled() {
			most++ // the Retry-After goes first
		}
		if attempts > most && (v.Polled() != nil || !a.throttled() || attempts > most+throttledAttempts) {
			return l, fmt.Errorf("%d attempts in a row without the state; the last one: %v", attempts, got.requests)
		}
		if got.streams {
			streamed = w.now
		}
		switch {
		case got.streams, once && got.stored:
			w.now = w.now.Add(30*time.Minute + time.Duration(random.Int64N(int64(30*time.Minute))))
			fresh = w.now
		default:
			pause := 15 * time.Second
			if v.Polled() == nil { // the back-off begins when the first attempt fails
				pause = min(pause, 100*time.Millisecond<<min(attempts, 10))
			}
			w.now = w.now.Add(pause*2/3 + time.Duration(random.Int64N(int64(pause/3))))
		}
		if l.stale = max(l.stale, w.now.Sub(fresh)); l.stale > longestStale {
			return l, fmt.Errorf("the state is %v old; the last attempt: %v", l.stale, got.requests)
		}
	}
	if a.watchList == "well" && !once && w.now.Sub(streamed) > 2*time.Hour {
		return l, errors.New("no stream for two hours, although WatchLists work")
	}
	if l.requests = float64(requests) / w.now.Sub(began).Hours(); l.requests > mostRequests {
		return l, fmt.Errorf("%.0f requests an hour", l.requests)
	}
	return l, nil
}

// step does a line of a script about verbs: "attempt NAME [large] [once] VERB=FAULT ...".
func (w *verbs) attempt(name string, words []string) (string, error) {
	a := well
	large, once := false, false
	for _, word := range words {
		verb, fault, ok := strings.Cut(word, "=")
		if _, known := faultOf(fault); ok && !known && (fault != "500" || verb == "watch") {
			return "", fmt.Errorf("unknown fault %q", fault)
		}
		switch verb {
		case "large":
			large = true
		case "once":
			once = true
		case "WatchList":
			a.watchList = fault
		case "list":
			a.list = fault
		case "watch":
			a.watch = fault
		case "metadata":
			a.metadata = fault
		case "GET":
			a.get = fault
		default:
			return "", fmt.Errorf("unknown verb %q", verb)
		}
	}
	v := w.of(name)
	got := attempt(v, a, large, once, w.now)
	w.now = w.now.Add(got.took)
	text := strings.Join(got.requests, ", ")
	switch {
	case got.streams:
		text += ": streams"
	case v.Polled() != nil:
		text += ": polled"
	case got.stored:
		text += ": read"
	}
	return text + "\n", nil
}
