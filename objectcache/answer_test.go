// SPDX-License-Identifier: Apache-2.0

package objectcache

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/refwatch/refwatch/reflector"
)

var noon = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)

// ago returns a time before noon.
func ago(d time.Duration) time.Time { return noon.Add(-d) }

// What becomes of a Get that began a second ago, two seconds after the newest owner, the second one, was added.
func TestAnswer(t *testing.T) {
	const grace = 10 * time.Second
	watched := facts{readFor: 2, noticed: true, live: true, synced: true, version: "10", contact: ago(time.Minute)}
	immutable := facts{readFor: 1, noticed: true, synced: true, immutable: true, version: "10", contact: ago(time.Hour)}
	with := func(f facts, change func(*facts)) facts {
		change(&f)
		return f
	}
	tests := map[string]struct {
		facts  facts
		demand demand
		want   verdict
		after  time.Duration // of wait
	}{
		"unknown":               {facts{}, demand{}, wait, -1},
		"unknown, ended":        {facts{}, demand{ended: true}, fail, 0},
		"unknown, just refused": {facts{attempts: reflector.Status{RefusedSince: ago(4 * time.Second), LastErrorTime: noon}}, demand{}, wait, 9 * time.Second},
		"unknown, refused since long": {
			facts{attempts: reflector.Status{RefusedSince: ago(20 * time.Second), LastErrorTime: ago(2 * time.Second)}}, demand{}, fail, 0,
		},
		"unknown, refused, and not recently": {
			facts{attempts: reflector.Status{RefusedSince: ago(20 * time.Second), LastErrorTime: ago(4 * time.Second)}}, demand{}, wait, -1,
		},
		"watched":                     {watched, demand{}, serve, 0},
		"watched, a newer owner":      {with(watched, func(f *facts) { f.readFor = 1 }), demand{}, serve, 0},
		"watched, too old":            {watched, demand{maxStaleness: 30 * time.Second}, wait, -1},
		"watched, too old, ended":     {watched, demand{maxStaleness: 30 * time.Second, ended: true}, fail, 0},
		"watched, young enough":       {watched, demand{maxStaleness: time.Minute}, serve, 0},
		"an older version":            {watched, demand{notOlderThan: "11"}, wait, -1},
		"an older version, ended":     {watched, demand{notOlderThan: "11", ended: true}, fail, 0},
		"the version":                 {watched, demand{notOlderThan: "10"}, serve, 0},
		"behind after its own read":   {watched, demand{notOlderThan: "11", read: 2}, fail, 0},
		"a live Get":                  {watched, demand{live: true, read: 3}, wait, -1},
		"a live Get, read":            {watched, demand{live: true, read: 2}, serve, 0},
		"its own read is never stale": {watched, demand{live: true, read: 2, maxStaleness: time.Second}, serve, 0},

		"immutable, read for its owner": {with(immutable, func(f *facts) { f.readFor = 2 }), demand{}, serve, 0},
		"immutable is never stale":      {with(immutable, func(f *facts) { f.readFor = 2 }), demand{maxStaleness: time.Second}, serve, 0},
		"immutable, a newer owner":      {immutable, demand{}, wait, stuckGrace},
		"immutable, a newer owner that was just added": {
			immutable, demand{ownerAddedAt: ago(500 * time.Millisecond)}, wait, time.Second,
		},
		"immutable, a newer owner, ended":        {immutable, demand{ended: true}, serveOnce, 0},
		"immutable, the owner is gone":           {immutable, demand{owner: 1}, serve, 0},
		"immutable, a live Get":                  {immutable, demand{live: true, read: 3}, wait, -1},
		"immutable, a live Get, ended":           {immutable, demand{live: true, read: 3, ended: true}, fail, 0},
		"immutable, the first read is unnoticed": {with(immutable, func(f *facts) { f.noticed = false }), demand{ended: true}, fail, 0},
		"immutable, all owners have the previous state": {
			with(immutable, func(f *facts) { f.previousFor = 2 }), demand{}, serveAll, 0,
		},
		"immutable, the read failed": {
			with(immutable, func(f *facts) { f.attempts.FailedAt = ago(2 * time.Second) }), demand{}, serveAll, 0,
		},
		"immutable, a read before the owner failed": {
			with(immutable, func(f *facts) { f.attempts.FailedAt = ago(5 * time.Second) }), demand{}, wait, stuckGrace,
		},
		"immutable, the server is away": {with(immutable, func(f *facts) { f.attempts.Away = true }), demand{}, serveAll, 0},
		"immutable, the server is away, and the owner was just added": {
			with(immutable, func(f *facts) { f.attempts.Away = true }), demand{ownerAddedAt: ago(500 * time.Millisecond)}, wait, time.Second,
		},
		"immutable, Retry-After": {
			with(immutable, func(f *facts) { f.attempts.RetryAfter = noon.Add(time.Second) }), demand{}, serveAll, 0,
		},
		"immutable, the answer is lost": {
			with(immutable, func(f *facts) { f.attempts.Hung, f.attempts.AskedAt = true, ago(stuckGrace) }), demand{}, serveAll, 0,
		},
		"immutable, the answer takes long": {
			with(immutable, func(f *facts) { f.attempts.Hung, f.attempts.AskedAt = true, ago(time.Second) }), demand{}, wait, stuckGrace,
		},
		"immutable, refused since long": {
			with(immutable, func(f *facts) {
				f.attempts.RefusedSince, f.attempts.LastErrorTime = ago(20*time.Second), ago(2*time.Second)
			}),
			demand{}, serveAll, 0,
		},
		"without a stream, a newer owner": {with(watched, func(f *facts) { f.live, f.readFor = false, 1 }), demand{}, wait, stuckGrace},
		"without a stream, too old": {
			with(watched, func(f *facts) { f.live, f.readFor = false, 1 }), demand{maxStaleness: time.Second, ended: true}, fail, 0,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			d := test.demand
			d.began = ago(time.Second)
			if d.owner == 0 {
				d.owner = 2
			}
			if d.ownerAddedAt.IsZero() {
				d.ownerAddedAt = ago(3 * time.Second)
			}
			got, after := d.answer(&test.facts, grace, noon)
			if got != test.want || got == wait && after != test.after {
				t.Errorf("got %s after %v, want %s after %v", got, after, test.want, test.after)
			}
		})
	}
}

// drawnFacts returns any facts.
func drawnFacts(t *rapid.T) facts {
	number := rapid.Uint64Range(0, 3)
	at := func(label string) time.Time {
		if age := rapid.IntRange(0, 20).Draw(t, label); age > 0 {
			return ago(time.Duration(age-5) * 500 * time.Millisecond)
		}
		return time.Time{}
	}
	flag := func(label string) bool { return rapid.Bool().Draw(t, label) }
	return facts{
		readFor: number.Draw(t, "readFor"), previousFor: number.Draw(t, "previousFor"), version: "10", contact: at("contact"),
		noticed: flag("noticed"), live: flag("live"), synced: flag("synced"), immutable: flag("immutable"),
		exists: flag("exists"), byGet: flag("byGet"),
		attempts: reflector.Status{
			Away: flag("away"), Hung: flag("hung"), AskedAt: at("asked"), FailedAt: at("failed"), LastErrorTime: at("error"),
			RefusedSince: at("refused"), RetryAfter: at("retryAfter"),
		},
	}
}

// drawnDemand returns any demand.
func drawnDemand(t *rapid.T) demand {
	ages := rapid.IntRange(0, 10)
	d := demand{
		began: ago(time.Duration(ages.Draw(t, "began")) * 300 * time.Millisecond), owner: rapid.Uint64Range(1, 3).Draw(t, "owner"),
		ownerAddedAt: ago(time.Duration(ages.Draw(t, "added")) * 300 * time.Millisecond),
		maxStaleness: time.Duration(rapid.IntRange(0, 3).Draw(t, "staleness")) * time.Second,
		notOlderThan: rapid.SampledFrom([]string{"", "", "9", "11"}).Draw(t, "version"),
		live:         rapid.Bool().Draw(t, "live"), ended: rapid.Bool().Draw(t, "ended"), lapsed: rapid.Bool().Draw(t, "lapsed"),
	}
	if d.live || d.lapsed || d.notOlderThan != "" {
		d.read = rapid.Uint64Range(0, 3).Draw(t, "read")
	}
	return d
}

// Whatever is known and demanded, an answer keeps these promises.
func TestAnswerProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f, d := drawnFacts(t), drawnDemand(t)
		grace := time.Duration(rapid.IntRange(-1, 3).Draw(t, "grace")) * time.Second
		got, after := d.answer(&f, grace, noon)
		switch {
		case got == wait && d.ended:
			t.Error("a Get that has ended waits")
		case got == wait && after == 0:
			t.Error("a Get that waits asks again at once")
		case got.serves() && !f.synced:
			t.Errorf("%s, and nothing is known", got)
		case got.serves() && d.live && (d.read == 0 || f.readFor < d.read):
			t.Errorf("%s, and the read that a live Get demands is not there", got)
		case got.serves() && d.lapsed && !f.exists && !d.readDone(&f):
			t.Errorf("%s, and the TTL of the absence is over", got)
		case got == serve && d.lapsed && !d.readDone(&f):
			t.Error("a state is served as if its TTL were not over")
		case got.serves() && d.notOlderThan != "" && f.byGet && !f.exists && !d.readDone(&f):
			t.Errorf("%s, and the version of the absence is not known", got)
		case got.serves() && d.notOlderThan == "11" && !(f.byGet && !f.exists):
			t.Errorf("%s, and the state is older than demanded", got)
		case got == serve && f.immutable && f.readFor < d.owner:
			t.Error("an immutable object without a read for its newest owner is served")
		case got.serves() && !f.immutable && !d.readDone(&f) && d.maxStaleness > 0 && noon.Sub(f.contact) > d.maxStaleness:
			t.Errorf("%s, and the state is too old", got)
		}
	})
}

// A Get that waits until it has to ask again misses nothing: before that the answer is the same.
func TestAnswerIsTheSameUntilAskedAgain(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f, d := drawnFacts(t), drawnDemand(t)
		f.attempts.RetryAfter, f.attempts.AskedAt = time.Time{}, time.Time{} // the end of an attempt, or of a pause, wakes
		got, after := d.answer(&f, 2*time.Second, noon)
		if got != wait || d.maxStaleness > 0 {
			return
		}
		if after < 0 {
			after = time.Hour
		}
		part := time.Duration(rapid.IntRange(0, 99).Draw(t, "part"))
		if then, _ := d.answer(&f, 2*time.Second, noon.Add(after*part/100)); then != wait {
			t.Errorf("got wait for %v, and after %d %% of it %s", after, part, then)
		}
	})
}

// A state that all owners have stays theirs until another owner is added, whatever attempts bring.
func TestAnswerKeepsWhatAllOwnersHave(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f, d := drawnFacts(t), drawnDemand(t)
		d.live, d.notOlderThan, d.read, d.maxStaleness = false, "", 0, 0
		if got, _ := d.answer(&f, time.Second, noon); got != serveAll {
			return
		}
		f.previousFor = max(f.previousFor, d.owner) // what a store does then
		f.attempts = drawnFacts(t).attempts
		later := d
		later.lapsed = false // see prolongLocked
		later.began = noon.Add(time.Minute)
		if got, _ := later.answer(&f, time.Second, noon.Add(time.Minute)); !got.serves() {
			t.Errorf("a minute later: got %s", got)
		}
	})
}
