// SPDX-License-Identifier: Apache-2.0

package admission_test

import (
	"slices"
	"strconv"
	"time"

	"github.com/refwatch/refwatch/internal/reflector/internal/admission"
)

// measuresOfRefusals are those of an outage of a kind whose objects the server refuses.
var measuresOfRefusals = []measure{
	{"forbidden, 5xx", "seconds until one has synced after an outage, beside 999 that have lost their right", 90, afterAnOutage(admission.Failed, 0)},
	{"forbidden, 401", "seconds until one has synced after an outage, beside 999 that have lost their right", 90, afterAnOutage(admission.Unauthorized, 0)},
	{"forbidden, 429", "seconds until one has synced after an outage, beside 999 that have lost their right", 90, afterAnOutage(admission.Throttled, 0)},
	{"forbidden, 5xx, awaited", "the same, if a caller waits for it", 15, afterAnOutage(admission.Failed, 1)},
	{"forbidden, 401, awaited", "the same, if a caller waits for it", 15, afterAnOutage(admission.Unauthorized, 1)},
	{"forbidden, 429, awaited", "the same, if a caller waits for it", 15, afterAnOutage(admission.Throttled, 1)},
	{"forbidden, all awaited", "the same, if callers wait for all", 60, afterAnOutage(admission.Failed, 1000)},
	{"forbidden, many kinds", "attempts a second after an outage, of 20 kinds of 100 that are forbidden", 30, func(r *rig) float64 {
		var all []*client
		for i := range 20 {
			all = append(all, r.join(100, strconv.Itoa(i), healthy())...)
		}
		advance(time.Minute)
		r.behave(all, fails(admission.Failed))
		r.cutStreams(all)
		advance(time.Minute)
		r.behave(all, fails(admission.Refused))
		advance(time.Minute)
		began := time.Now()
		advance(time.Minute)
		return float64(r.attemptsSince(began)) / 60
	}},
	{"half forbidden, 5xx", "attempts in a minute of an outage, of 1,000 of which half are forbidden", 100, refusedInAnOutage(admission.Failed, 500, fails(admission.Failed))},
	{"half forbidden, 401", "the same of 401s", 100, refusedInAnOutage(admission.Unauthorized, 500, fails(admission.Unauthorized))},
	{"half forbidden, hung", "the same, if the others hang", 100, refusedInAnOutage(admission.Failed, 500, hangs())},
	{"half forbidden, other failures", "the same, if the others get 429s", 100, refusedInAnOutage(admission.Failed, 500, throttled(0))},
	{"nine tenths forbidden, 5xx", "the same, if nine tenths are forbidden", 1500, refusedInAnOutage(admission.Failed, 900, fails(admission.Failed))},
}

// afterAnOutage returns how long one of 1,000 members waits after an outage of their kind, if the others are forbidden.
// Callers wait for it and others, so many in all.
func afterAnOutage(kind admission.Kind, awaited int) func(*rig) float64 {
	return func(r *rig) float64 {
		one := r.loseRight(kind)
		began := time.Now()
		for r.countSynced(one) == 0 && time.Since(began) < time.Hour {
			r.expedite(slices.Concat(one, r.clients)[:awaited], 200*time.Millisecond, 200*time.Millisecond)
		}
		return time.Since(began).Seconds()
	}
}

// refusedInAnOutage returns how many attempts 1,000 members make in a minute of an outage of their kind. Some of them
// are forbidden.
func refusedInAnOutage(kind admission.Kind, forbidden int, others behavior) func(*rig) float64 {
	return func(r *rig) float64 {
		all := r.failTogether(kind, 1000)
		advance(time.Minute)
		r.behave(all, others)
		r.behave(all[:forbidden], fails(admission.Refused))
		advance(5 * time.Minute)
		began := time.Now()
		advance(time.Minute)
		return float64(r.attemptsSince(began))
	}
}

// loseRight returns the only one of 1,000 members that has not lost its right during an outage that has just ended. Its
// attempt has failed in the outage, so it is tried late.
func (r *rig) loseRight(kind admission.Kind) (one []*client) {
	all := r.failTogether(kind, 1000)
	advance(2 * time.Minute)
	r.behave(all, fails(admission.Refused))
	r.mu.Lock()
	tried := slices.IndexFunc(all, func(c *client) bool { return len(c.attempts) > 1 })
	r.mu.Unlock()
	one = all[tried : tried+1]
	r.behave(one, healthy())
	return one
}

// failTogether returns n members in an outage of their kind. Another kind has one member.
func (r *rig) failTogether(kind admission.Kind, n int) []*client {
	r.join(1, "configmaps", healthy())
	all := r.join(n, "secrets", healthy())
	advance(time.Minute)
	r.behave(all, fails(kind))
	r.cutStreams(all)
	return all
}
