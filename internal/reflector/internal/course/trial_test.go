// SPDX-License-Identifier: Apache-2.0

package course_test

import (
	"strings"
	"testing"
	"time"

	"github.com/refwatch/refwatch/internal/reflector/internal/course"
	"github.com/refwatch/refwatch/internal/reflector/internal/moment"
)

// Requests of several selections are throttled, and GETs take their place. When that lesson is over, the first trial is
// one of a list or a WatchList, and no GET: no turn of a GET is left from before.
func TestFirstTrialAfterGets(t *testing.T) {
	w := newVerbWorld(course.AlsoGets)
	names := []string{"a", "b", "c", "d", "e", "f"}
	throttled := answers{"throttled", "throttled", "well", "well", "well"}
	for range 6 {
		for _, name := range names {
			attempt(w.of(name), throttled, false, false, w.now)
			w.now = w.now.Add(time.Second)
		}
	}
	for _, name := range names {
		if got := attempt(w.of(name), throttled, false, false, w.now); got.requests[len(got.requests)-1] != "GET well" {
			t.Fatalf("%s: got %v, want a GET", name, got.requests)
		}
	}
	began := w.now
	for w.now.Sub(began) < 10*time.Minute {
		for _, name := range names {
			if got := attempt(w.of(name), well, false, false, w.now); got.requests[0] != "GET well" {
				if after := w.now.Sub(began); after > 90*time.Second {
					t.Errorf("the first trial of another verb: after %v, want 90 s at most", after)
				}
				return
			}
			w.now = w.now.Add(2 * time.Second)
		}
	}
	t.Error("no trial of another verb in 10 minutes")
}

// While nothing but GETs works, each selection tries each other verb within an hour, however others fail.
// What fails for others may work for it again.
func TestEachSelectionTriesHourly(t *testing.T) {
	for _, fault := range []string{"failing", "throttled", "hangs", "refused"} {
		for verbs, listOnly := range map[string]bool{"WatchLists and lists": false, "lists": true} {
			t.Run(fault+", "+verbs, func(t *testing.T) {
				w := newVerbWorld(course.AlsoGets)
				w.listOnly = listOnly
				a := answers{fault, fault, "well", "well", "well"}
				type trial struct{ name, verb string }
				tried, count := map[trial]moment.Moment{}, map[trial]int{}
				began := w.now
				for w.now.Sub(began) < 12*time.Hour {
					for i := range 9 {
						name := string(rune('a' + i))
						got := attempt(w.of(name), a, false, false, w.now)
						for _, request := range got.requests {
							trial := trial{name, strings.Fields(request)[0]}
							tried[trial] = w.now
							count[trial]++
						}
						for _, verb := range []string{"WatchList", "list"} {
							if verb == "WatchList" && listOnly {
								continue
							}
							if after := w.now.Sub(max(began, tried[trial{name, verb}])); after > time.Hour+5*time.Minute {
								t.Fatalf("%s has tried no %s for %v, want an hour at most", name, verb, after)
							}
						}
						w.now = w.now.Add(time.Second)
					}
					w.now = w.now.Add(5 * time.Second)
				}
				for trial, n := range count {
					if trial.verb != "GET" && n > 12*6 {
						t.Errorf("%s: got %d in 12 hours, want 6 an hour at most", trial, n)
					}
				}
			})
		}
	}
}

// Requests hang or are throttled for several selections, whose references then go but for one. When all is well, that
// one has a stream within two hours, although nobody else has found out.
func TestLastSelectionTries(t *testing.T) {
	for _, fault := range []string{"hangs", "throttled"} {
		t.Run(fault, func(t *testing.T) {
			w := newVerbWorld(course.AlsoGets)
			a := answers{fault, fault, "well", "well", "well"}
			names := []string{"a", "b", "c", "d", "e", "f"}
			for began := w.now; w.now.Sub(began) < 10*time.Minute; w.now = w.now.Add(5 * time.Second) {
				for _, name := range names {
					attempt(w.of(name), a, false, false, w.now)
					w.now = w.now.Add(time.Second)
				}
			}
			for _, name := range names[1:] {
				w.of(name).Leave()
			}
			for began := w.now; w.now.Sub(began) < 2*time.Hour; w.now = w.now.Add(12 * time.Second) {
				if attempt(w.of("a"), well, false, false, w.now).streams {
					return
				}
			}
			t.Error("no stream two hours after all was well")
		})
	}
}

// WatchLists and lists fail, so GETs are used. Then there are no connections for WatchLists, which have some of their
// own. GETs bring the state all the same.
func TestGetsWithoutConnectionsForWatchLists(t *testing.T) {
	for _, names := range [][]string{{"a"}, {"a", "b", "c", "d"}} {
		w := newVerbWorld(course.AlsoGets)
		read := map[string]moment.Moment{}
		began := w.now
		for w.now.Sub(began) < 12*time.Hour {
			fault := "failing"
			if w.now.Sub(began) > 10*time.Minute {
				fault = "unreachable"
			}
			for _, name := range names {
				if attempt(w.of(name), answers{fault, "failing", "well", "well", "well"}, false, false, w.now).stored {
					read[name] = w.now
				}
				if after := w.now.Sub(max(began, read[name])); after > time.Minute {
					t.Fatalf("%d selections: %s was not read for %v, want a minute at most", len(names), name, after)
				}
				w.now = w.now.Add(time.Second)
			}
			w.now = w.now.Add(9 * time.Second)
		}
	}
}

// Others of its resource have learned that nothing but GETs works. A selection that may not use them, and one whose
// GETs get 401s, are read by the verb that works for them.
func TestLessonOfGetsThatCannotBeUsed(t *testing.T) {
	for name, gets := range map[string]course.Gets{"no GETs": course.NoGets, "GETs get 401s": course.AlsoGets} {
		for _, fault := range []string{"failing", "hangs"} {
			t.Run(name+", "+fault, func(t *testing.T) {
				w := newVerbWorld(course.AlsoGets)
				v := course.NewVerbs(&w.resource, false, gets)
				attempt(&v, answers{fault, "well", "well", "well", "unauthorized"}, false, false, w.now)
				for range 200 {
					for _, name := range []string{"h", "i", "j", "k"} {
						attempt(w.of(name), answers{fault, fault, "well", "well", "well"}, false, false, w.now)
						w.now = w.now.Add(time.Second)
					}
				}
				for range 3 {
					if attempt(&v, answers{fault, "well", "well", "well", "unauthorized"}, false, false, w.now).stored {
						return
					}
					w.now = w.now.Add(12 * time.Second)
				}
				t.Error("is not read by the third attempt")
			})
		}
	}
}

// A selection whose request hung once, and was answered since then, goes on with its own turn, however slow the answer
// was.
func TestLessonOfGetsAfterASlowRead(t *testing.T) {
	w := newVerbWorld(course.AlsoGets)
	v := course.NewVerbs(&w.resource, false, course.AlsoGets)
	attempt(&v, answers{"hangs", "hangs", "well", "well", "hangs"}, false, false, w.now)
	v.Stored(course.WatchList, 4*time.Second, 5*time.Second, w.now)
	v.Ended()
	learned := false // by others: nothing but GETs works
	for i := range 12 {
		got := attempt(w.of([]string{"h", "i", "j", "k"}[i%4]), answers{"hangs", "hangs", "well", "well", "well"}, false, false, w.now)
		learned = got.stored
	}
	if !learned {
		t.Fatal("a GET has not worked for others")
	}
	v.Turn(course.List)
	if got := v.Next(false, w.now); got != course.List {
		t.Errorf("got verb %d, want a list, whose turn it is", got)
	}
}

// A selection that is well opens its streams by WatchLists, although its own had failed once and lists had worked, and
// another one fails for good.
func TestWatchListsBesideASelectionThatFails(t *testing.T) {
	for _, gets := range []course.Gets{course.NoGets, course.AlsoGets} {
		w := newVerbWorld(gets)
		a, b := w.of("a"), w.of("b")
		fail := func(times int) {
			for range times {
				attempt(b, answers{"failing", "failing", "failing", "well", "failing"}, false, false, w.now)
				w.now = w.now.Add(15 * time.Second)
			}
		}
		for range 8 {
			fail(1)
			attempt(a, answers{"failing", "well", "well", "well", "well"}, false, false, w.now)
		}
		for i := range 24 {
			fail(180)
			if got := attempt(a, well, false, false, w.now).requests[0]; got != "WatchList well" {
				t.Errorf("gets %v, stream %d: got %s, want a WatchList", gets, i, got)
			}
		}
	}
}
