// SPDX-License-Identifier: Apache-2.0

package admission_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/refwatch/refwatch/internal/reflector/internal/admission"
	"github.com/refwatch/refwatch/test/testmain"
)

// measure is a number of one scenario, and the most that it may be.
type measure struct {
	scenario string
	number   string
	most     float64
	value    func(*rig) float64
}

// measures have 4,096 places. A number is worse without the mechanism of admission that it is about: see the table in
// docs/design/0004-admission.md, and the mutants.
var measures = []measure{
	{"far", "seconds until 5,000 whose answers take 1.4 s have synced", 9, func(r *rig) float64 {
		return r.untilSynced(r.join(5000, "secrets", healthy().taking(1400*time.Millisecond)), 10*time.Minute)
	}},
	{"far, after two outages", "seconds until 1,000 whose answers take 8 s have synced", 200, func(r *rig) float64 {
		good := healthy().taking(8 * time.Second)
		all := r.join(1000, "secrets", good)
		advance(5 * time.Minute)
		for range 2 {
			r.behave(all, fails(admission.Unreachable))
			r.cutStreams(all)
			advance(time.Minute)
			r.behave(all, good)
			for before := r.countSynced(all); r.countSynced(all) == before; {
				advance(time.Second)
			}
		}
		return r.untilSynced(all, 10*time.Minute)
	}},
	{"near", "most under way, with 5,000 at a server that does 2,000 a second", 60, func(r *rig) float64 {
		widest := r.takes(func(opening int) time.Duration { return time.Duration(opening) * time.Second / 2000 })
		took := r.untilSynced(r.join(5000, "secrets", healthy()), 3*time.Second)
		return max(took, float64(*widest))
	}},
	{"far and busy", "most under way, with 5,000 at a server that does 200 a second, 0.3 s away", 240, func(r *rig) float64 {
		widest := r.takes(func(opening int) time.Duration {
			return max(300*time.Millisecond, time.Duration(opening)*time.Second/200)
		})
		took := r.untilSynced(r.join(5000, "secrets", healthy()), 35*time.Second)
		return max(took, float64(*widest))
	}},
	{"moved", "seconds until 2,000 have synced, after the way has become 1.4 s long for good", 10, func(r *rig) float64 {
		takes := 10 * time.Millisecond
		r.takes(func(int) time.Duration { return takes })
		r.join(100, "secrets", healthy())
		advance(time.Minute)
		takes = 1400 * time.Millisecond
		for range 60 {
			r.join(5, "secrets", healthy())
			advance(30 * time.Second)
		}
		return r.untilSynced(r.join(2000, "secrets", healthy()), 10*time.Minute)
	}},
	{"moved, soon", "seconds until 2,000 have synced, when the way has just become 1.4 s long", 12, func(r *rig) float64 {
		takes := 10 * time.Millisecond
		r.takes(func(int) time.Duration { return takes })
		all := r.join(100, "secrets", healthy())
		advance(time.Minute)
		takes = 1400 * time.Millisecond
		r.cutStreams(all)
		r.untilSynced(all, time.Minute)
		return r.untilSynced(r.join(2000, "secrets", healthy()), 10*time.Minute)
	}},
	{"overload", "429s, of a server that answers 20 of 5,000 at a time", 900, func(r *rig) float64 {
		refused := 0
		r.override = func(int) (behavior, bool) {
			if r.Status().Opening > 20 {
				refused++
				return throttled(time.Second), true
			}
			return healthy().taking(50 * time.Millisecond), true
		}
		r.untilSynced(r.join(5000, "secrets", healthy()), 10*time.Minute)
		return float64(refused)
	}},
	{"busy etcd", "seconds until 5,000 whose answers take up to 0.1 s have synced", 2, func(r *rig) float64 {
		random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // the same each time
		r.takes(func(int) time.Duration { return time.Duration(random.Float64() * 100 * float64(time.Millisecond)) })
		return r.untilSynced(r.join(5000, "secrets", healthy()), time.Minute)
	}},
	{"slow kind", "seconds until 1,000 whose answers take 10 s have synced", 60, func(r *rig) float64 {
		slow := r.join(1000, "configmaps", healthy().taking(10*time.Second))
		r.untilSynced(slow, 10*time.Minute)
		r.cutStreams(slow)
		return r.untilSynced(slow, 10*time.Minute)
	}},
	{"awaited", "seconds until 50 of 5,000 that callers wait for have synced", 1, func(r *rig) float64 {
		r.join(2500, "secrets", healthy().taking(100*time.Millisecond))
		awaited := r.join(50, "secrets", healthy().taking(100*time.Millisecond))
		r.join(2450, "secrets", healthy().taking(100*time.Millisecond))
		for _, c := range awaited {
			c.Expedite()
		}
		return r.untilSynced(awaited, time.Minute)
	}},
	{"others", "seconds until 50 have synced, of 2,550 of which callers wait for the others", 1, func(r *rig) float64 {
		awaited := r.join(2500, "secrets", healthy().taking(100*time.Millisecond))
		for _, c := range awaited {
			c.Expedite()
		}
		return r.untilSynced(r.join(50, "secrets", healthy().taking(100*time.Millisecond)), time.Minute)
	}},
	{"third kind", "seconds until 50 have synced, beside 5,000 of each of two other kinds", 5, func(r *rig) float64 {
		r.join(5000, "configmaps", healthy().taking(1400*time.Millisecond))
		r.join(5000, "leases", healthy().taking(1400*time.Millisecond))
		r.join(1, "secrets", healthy())
		advance(15 * time.Second)
		return r.untilSynced(r.join(50, "secrets", healthy()), time.Minute)
	}},
	{"other kind", "seconds until 500 have synced, beside 1,000 whose answers take 10 s", 1, func(r *rig) float64 {
		slow := r.join(1000, "configmaps", healthy().taking(10*time.Second))
		r.untilSynced(slow, 10*time.Minute)
		r.cutStreams(slow)
		advance(time.Second)
		return r.untilSynced(r.join(500, "secrets", healthy()), 10*time.Minute)
	}},
	{"forbidden, awaited", "attempts a second of 1,000 that callers wait for", 180, func(r *rig) float64 {
		bad := r.join(1000, "secrets", fails(admission.Refused))
		r.expedite(bad, 200*time.Millisecond, time.Minute)
		began := time.Now()
		r.expedite(bad, 200*time.Millisecond, time.Minute)
		return float64(r.attemptsSince(began)) / time.Since(began).Seconds()
	}},
	{"forbidden", "attempts a second of 1,000 that no caller waits for", 30, func(r *rig) float64 {
		r.join(1000, "secrets", fails(admission.Refused))
		advance(time.Minute)
		began := time.Now()
		advance(time.Minute)
		return float64(r.attemptsSince(began)) / time.Since(began).Seconds()
	}},
	{"allowed", "seconds until ten have synced that callers wait for, after they were forbidden for minutes", 3, func(r *rig) float64 {
		ten := r.join(11, "secrets", fails(admission.Refused))[:10]
		r.expedite(ten, 200*time.Millisecond, 5*time.Minute)
		r.behave(ten, healthy())
		began := time.Now()
		for r.countSynced(ten) < len(ten) {
			r.expedite(ten, 50*time.Millisecond, 50*time.Millisecond)
		}
		return time.Since(began).Seconds()
	}},
	{"failing slowly", "most under way, of 1,000 that fail after 2 s, and that callers wait for", 120, func(r *rig) float64 {
		r.join(20, "secrets", healthy())
		bad := r.join(1000, "configmaps", fails(admission.Failed).taking(2*time.Second))
		r.expedite(bad, 200*time.Millisecond, time.Minute)
		most := 0
		for range 100 {
			r.expedite(bad, 200*time.Millisecond, 200*time.Millisecond)
			most = max(most, r.Status().Opening)
		}
		return float64(most)
	}},
	{"one bad server of three", "seconds until 500 have synced", 3.8, func(r *rig) float64 {
		random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // the same each time
		r.override = func(int) (behavior, bool) { return fails(admission.Failed), random.IntN(3) == 0 }
		return r.untilSynced(r.join(500, "secrets", healthy()), 10*time.Minute)
	}},
	{"another way", "seconds until one whose first request has to be another one has synced", 0.1, func(r *rig) float64 {
		r.untilSynced(r.join(100, "secrets", healthy()), time.Minute)
		seen := 0
		r.override = func(int) (behavior, bool) { seen++; return fails(admission.Answered), seen == 1 }
		return r.untilSynced(r.join(1, "secrets", healthy()), time.Minute)
	}},
	{"cut again and again", "seconds until all of 500 are back", 4, func(r *rig) float64 {
		all := r.join(500, "secrets", healthy())
		for range 24 {
			advance(5 * time.Second)
			r.cutStreams(all)
		}
		return r.untilSynced(all, time.Minute)
	}},
	{"arrivals, 429", "seconds that a good one of 20 waits", 0.5, arrivalsWait(throttled(0))},
	{"arrivals, hung", "seconds that a good one of 20 waits", 0.2, arrivalsWait(hangs())},
	{"arrivals, 401", "seconds that a good one of 20 waits", 0.5, arrivalsWait(fails(admission.Unauthorized))},
	{"arrivals, all 429", "seconds until a stream that has ended is back", 0.4, func(r *rig) float64 {
		good := r.join(100, "secrets", healthy())
		advance(time.Minute)
		for i := range 100 {
			r.join(1, "secrets", throttled(time.Minute))
			r.cutStreams(good[i : i+1])
			advance(100 * time.Millisecond)
		}
		advance(time.Minute)
		return r.longestReturn(good).Seconds()
	}},
	{"arrivals, away", "attempts a second", 6, func(r *rig) float64 {
		old := r.join(200, "secrets", healthy())
		advance(time.Minute)
		r.behave(old, fails(admission.Unreachable))
		r.cutStreams(old)
		advance(20 * time.Second)
		began := time.Now()
		for range 1200 {
			r.join(1, "secrets", fails(admission.Unreachable))[0].Expedite()
			advance(100 * time.Millisecond)
		}
		return float64(r.attemptsSince(began)) / time.Since(began).Seconds()
	}},
	{"hung", "seconds until 100 healthy ones have synced beside 300", 5, func(r *rig) float64 {
		r.untilSynced(r.join(20, "secrets", healthy()), time.Minute)
		r.join(300, "secrets", hangs())
		return r.untilSynced(r.join(100, "secrets", healthy()), 10*time.Minute)
	}},
	{"rights lost", "attempts in the first second, of 1,000", 150, func(r *rig) float64 {
		bad := r.join(1000, "secrets", healthy())
		advance(time.Minute)
		r.behave(bad, fails(admission.Refused))
		began := time.Now()
		r.cutStreams(bad)
		advance(time.Second)
		return float64(r.attemptsSince(began))
	}},
	{"rights lost, new", "seconds that a new one waits", 0.5, func(r *rig) float64 { return r.newWait(false) }},
	{"rights lost, awaited", "seconds that a new one waits if callers wait for all", 0.5, func(r *rig) float64 { return r.newWait(true) }},
	{"away", "attempts in a minute, of 1,000", 100, func(r *rig) float64 {
		all := r.join(1000, "secrets", healthy())
		advance(time.Minute)
		r.behave(all, fails(admission.Unreachable))
		began := time.Now()
		r.cutStreams(all)
		advance(time.Minute)
		return float64(r.attemptsSince(began))
	}},
	{"away, after it", "seconds until 1,000 have synced", 8, func(r *rig) float64 { return r.syncedAfter(fails(admission.Unreachable)) }},
	{"5xx of a kind", "attempts in a minute, of 1,000, beside one of another kind", 100, func(r *rig) float64 {
		r.failTogether(admission.Failed, 1000)
		began := time.Now()
		advance(time.Minute)
		return float64(r.attemptsSince(began))
	}},
	{"5xx, after it", "seconds until 1,000 have synced", 4.5, func(r *rig) float64 { return r.syncedAfter(fails(admission.Failed)) }},
	{"back", "most under way after two answers, of 1,000 after a minute", 10, func(r *rig) float64 {
		all := r.join(1000, "secrets", healthy())
		advance(time.Minute)
		r.behave(all, fails(admission.Unreachable))
		r.cutStreams(all)
		advance(time.Minute)
		r.behave(all, healthy().taking(100*time.Millisecond))
		for r.countSynced(all) == 0 {
			advance(10 * time.Millisecond)
		}
		advance(110 * time.Millisecond)
		return float64(r.Status().Opening)
	}},
	{"new in an outage", "seconds that a healthy one of 400 new ones waits, beside 300 with 5xx", 6, func(r *rig) float64 {
		old := r.join(300, "secrets", healthy())
		advance(time.Minute)
		r.behave(old, fails(admission.Failed))
		r.cutStreams(old)
		advance(20 * time.Second)
		r.join(199, "secrets", fails(admission.Failed))
		one := r.join(1, "secrets", healthy())
		r.join(200, "secrets", fails(admission.Failed))
		advance(5 * time.Minute)
		return r.longestWait(one).Seconds()
	}},
	{"some 429", "seconds until 50 healthy ones have synced after a cut, beside 100 with 429", 600, func(r *rig) float64 {
		bad := r.join(100, "secrets", healthy())
		good := r.join(50, "secrets", healthy())
		advance(time.Minute)
		r.behave(bad, throttled(0))
		r.cutStreams(slices.Concat(bad, good))
		return r.untilSynced(good, 10*time.Minute)
	}},
	{"all 429", "attempts in a minute, of 1,000", 65, func(r *rig) float64 {
		all := r.join(1000, "secrets", healthy())
		advance(time.Minute)
		r.behave(all, throttled(0))
		r.cutStreams(all)
		began := time.Now()
		advance(time.Minute)
		return float64(r.attemptsSince(began))
	}},
	{"Retry-After", "attempts in a minute, of 5 that are to wait for 30 s and that callers wait for", 15, func(r *rig) float64 {
		r.untilSynced(r.join(50, "secrets", healthy()), time.Minute)
		began := time.Now()
		r.expedite(r.join(5, "secrets", throttled(30*time.Second)), 200*time.Millisecond, time.Minute)
		return float64(r.attemptsSince(began))
	}},
	{"401 of a kind", "seconds until 300 of another kind have synced after a cut", 15, func(r *rig) float64 {
		good := r.join(300, "secrets", healthy().taking(2*time.Second))
		advance(time.Minute)
		bad := r.join(100, "configmaps", fails(admission.Unauthorized))
		r.expedite(bad, 200*time.Millisecond, 10*time.Second)
		took, _ := r.resync(good, bad, 10*time.Minute)
		return took.Seconds()
	}},
}

// takes makes each attempt take a time that depends on how many are under way. It returns the most that were.
func (r *rig) takes(of func(opening int) time.Duration) (widest *int) {
	widest = new(int)
	r.override = func(int) (behavior, bool) {
		opening := r.Status().Opening
		*widest = max(*widest, opening)
		return healthy().taking(of(opening)), true
	}
	return widest
}

// syncedAfter returns after how many seconds 1,000 members have synced that failed for a minute.
func (r *rig) syncedAfter(fails behavior) float64 {
	all := r.join(1000, "secrets", healthy())
	advance(time.Minute)
	r.behave(all, fails)
	r.cutStreams(all)
	advance(time.Minute)
	r.behave(all, healthy())
	return r.untilSynced(all, 10*time.Minute)
}

// arrivalsWait returns the longest wait of good members that come one by one among bad ones, whether a caller waits for
// them or not.
func arrivalsWait(bad behavior) func(*rig) float64 {
	return func(r *rig) float64 {
		got := arrivals{[]string{"secrets"}, bad, healthy(), 20, 100 * time.Millisecond, time.Minute}.run(r)
		return max(got.awaited, got.others).Seconds()
	}
}

// newWait returns how many seconds a new member waits beside 1,000 whose rights were revoked. Callers wait for all of
// them if awaited is set.
func (r *rig) newWait(awaited bool) float64 {
	bad := r.join(1000, "secrets", healthy())
	advance(time.Minute)
	r.behave(bad, fails(admission.Answered))
	r.cutStreams(bad)
	if awaited {
		for _, c := range bad {
			c.Expedite()
		}
	}
	advance(300 * time.Millisecond)
	one := r.join(1, "secrets", healthy())
	if awaited {
		one[0].Expedite()
	}
	advance(time.Minute)
	return r.longestWait(one).Seconds()
}

// untilSynced returns after how many seconds all of some members have synced, +Inf if that takes longer than a bound.
func (r *rig) untilSynced(clients []*client, bound time.Duration) float64 {
	began := time.Now()
	for r.countSynced(clients) < len(clients) {
		if time.Since(began) >= bound {
			return math.Inf(1)
		}
		advance(50 * time.Millisecond)
	}
	return time.Since(began).Seconds()
}

func TestMeasures(t *testing.T) {
	testmain.Long(t)
	for _, m := range slices.Concat(measures, measuresOfRefusals) {
		t.Run(m.scenario, func(t *testing.T) {
			inBubble(t, 4096, func(r *rig) {
				got := m.value(r)
				t.Logf("%s: got %.3g, want at most %.3g", m.number, got, m.most)
				if got > m.most {
					t.Fail()
				}
			})
		})
	}
}
