// SPDX-License-Identifier: Apache-2.0

package course_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/refwatch/refwatch/internal/reflector/internal/course"
	"github.com/refwatch/refwatch/internal/reflector/internal/moment"
)

var faults = []string{"well", "unreachable", "unknown", "refused", "failing", "broken", "hangs"}

func faultOf(name string) (course.Fault, bool) {
	i := slices.Index(faults, name)
	return []course.Fault{0, course.NoFault, course.Unknown, course.Refused, course.Failing, course.Broken, course.Hung}[max(i, 0)], i >= 0
}

// answers are what the server answers to each verb: one of faults.
type answers struct{ watchList, list, watch, metadata string }

func (a *answers) to(verb course.Verb) string {
	return map[course.Verb]string{course.WatchList: a.watchList, course.List: a.list, course.Metadata: a.metadata}[verb]
}

// attempted is what became of an attempt.
type attempted struct {
	requests        []string
	stored, streams bool
	took            time.Duration
}

// attempt makes an attempt, as a session does.
func attempt(v *course.Verbs, a answers, large, once bool, now moment.Moment) (got attempted) {
	ask := func(verb course.Verb, name string) (goOn bool) {
		answer := a.to(verb)
		got.requests = append(got.requests, name+" "+answer)
		if answer == "well" {
			v.Stored(verb, 0, now)
			if once || verb == course.WatchList {
				got.stored, got.streams = true, verb == course.WatchList
				return false
			}
			got.stored = true
			if err := v.Unwatched(now); err != nil {
				return false
			}
			got.requests = append(got.requests, "watch "+a.watch)
			if a.watch == "well" {
				v.Watched(nil, course.NoFault, now)
				got.streams = true
				return false
			}
			fault, _ := faultOf(a.watch)
			if fault == course.Hung {
				now, got.took = now.Add(course.AnswerTimeout), got.took+course.AnswerTimeout
			}
			v.Watched(errors.New(a.watch), fault, now)
			return false
		}
		fault, _ := faultOf(answer)
		if fault == course.Hung {
			now, got.took = now.Add(v.AnswerTimeout()), got.took+v.AnswerTimeout()
			v.NoAnswer(false)
		}
		goOn = v.Failed(verb, fault, once, now) && fault != course.Hung
		return goOn
	}
	names := map[course.Verb]string{course.WatchList: "WatchList", course.List: "list"}
	verb := v.Next(once, now)
	if large && v.MayCompare(now) {
		if goOn := ask(course.Metadata, "metadata"); got.stored || !goOn {
			return got
		}
	}
	if goOn := ask(verb, names[verb]); goOn && !got.stored {
		other := course.List - verb
		ask(other, names[other])
	}
	return got
}

// verbs are selections of one resource.
type verbs struct {
	now      moment.Moment
	resource course.Resource
	byName   map[string]*course.Verbs
}

func newVerbWorld() *verbs {
	return &verbs{now: moment.Moment(time.Hour), byName: map[string]*course.Verbs{}}
}

func (w *verbs) of(name string) *course.Verbs {
	if w.byName[name] == nil {
		v := course.NewVerbs(&w.resource, false)
		w.byName[name] = &v
	}
	return w.byName[name]
}

// The worst that may become of an object, if one verb works and the others fail in any way, for it or for all: the
// state is read by the fifth attempt, and then is never older than this, if nobody waits.
const (
	longestStale   = 3 * time.Minute
	mostRequests   = 400 // an hour
	attemptsAtMost = 4   // and the next one has it
)

// The whole product of faults, but those that leave nothing that works. Attempts of an object without a stream follow
// each other after 7.5 to 15 s, and a stream lasts for 30 to 60 minutes.
func TestVerbsOfEachFault(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	cells := 0
	for _, watchList := range faults {
		for _, list := range faults {
			for _, watch := range faults {
				for _, metadata := range faults {
					for _, kind := range []string{"small", "large", "once"} {
						for _, others := range []string{"alone", "beside one that is well", "beside one like it", "after a lesson"} {
							a := answers{watchList, list, watch, metadata}
							large := kind == "large"
							if slices.Contains([]string{watchList, list, watch, metadata}, "unreachable") {
								continue // no verb works
							}
							if watchList != "well" && list != "well" || !large && metadata != "well" || kind == "once" && watch != "well" {
								continue
							}
							cells++
							w := newVerbWorld()
							v := w.of("a")
							if err := live(w, v, a, large, kind == "once", others, random); err != nil {
								t.Errorf("%s, %s, WatchList %s, list %s, watch %s, metadata %s: %v", kind, others, watchList, list, watch, metadata, err)
							}
						}
					}
				}
			}
		}
	}
	t.Logf("%d cells", cells)
}

// live makes attempts for some hours: first all is well, then not.
func live(w *verbs, v *course.Verbs, a answers, large, once bool, others string, random *rand.Rand) error {
	attempt(v, answers{"well", "well", "well", "well"}, large, once, w.now)
	if others == "after a lesson" { // of a day before: WatchLists failed, and lists worked
		for _, name := range []string{"a", "b", "a", "b", "a", "b"} {
			attempt(w.of(name), answers{"failing", "well", "well", "well"}, false, false, w.now)
		}
		w.now = w.now.Add(24 * time.Hour)
	}
	began, fresh, streamed := w.now, w.now, w.now
	requests, attempts := 0, 0
	for w.now.Sub(began) < 6*time.Hour {
		switch others {
		case "beside one that is well":
			attempt(w.of("b"), answers{"well", "well", "well", "well"}, false, false, w.now)
		case "beside one like it":
			attempt(w.of("b"), a, large, once, w.now)
		}
		got := attempt(v, a, large, once, w.now)
		requests += len(got.requests)
		attempts++
		w.now = w.now.Add(got.took)
		if got.stored {
			fresh, attempts = w.now, 0
		}
		if attempts > attemptsAtMost {
			return fmt.Errorf("%d attempts in a row without the state; the last one: %v", attempts, got.requests)
		}
		if got.streams {
			streamed = w.now
		}
		switch {
		case got.streams, once && got.stored:
			w.now = w.now.Add(30*time.Minute + time.Duration(random.Int64N(int64(30*time.Minute))))
			fresh = w.now
		default:
			w.now = w.now.Add(7500*time.Millisecond + time.Duration(random.Int64N(int64(7500*time.Millisecond))))
		}
		if stale := w.now.Sub(fresh); stale > longestStale {
			return fmt.Errorf("the state is %v old; the last attempt: %v", stale, got.requests)
		}
	}
	if a.watchList == "well" && !once && w.now.Sub(streamed) > 2*time.Hour {
		return errors.New("no stream for two hours, although WatchLists work")
	}
	if hours := w.now.Sub(began).Hours(); float64(requests)/hours > mostRequests {
		return fmt.Errorf("%.0f requests an hour", float64(requests)/hours)
	}
	return nil
}

// step does a line of a script about verbs: "attempt NAME [large] [once] VERB=FAULT ...".
func (w *verbs) attempt(name string, words []string) (string, error) {
	a := answers{"well", "well", "well", "well"}
	large, once := false, false
	for _, word := range words {
		verb, fault, ok := strings.Cut(word, "=")
		if _, known := faultOf(fault); ok && !known {
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
	case v.IsPolled():
		text += ": polled"
	case got.stored:
		text += ": read"
	}
	return text + "\n", nil
}
