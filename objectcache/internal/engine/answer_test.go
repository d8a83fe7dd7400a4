// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/refwatch/refwatch/internal/reflector"
)

var noon = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)

// ago returns a time before noon.
func ago(d time.Duration) time.Time { return noon.Add(-d) }

// What becomes of a Get that began a second ago, two seconds after the newest owner, the second one, was added.
func TestAnswer(t *testing.T) {
	const grace = 10 * time.Second
	watched := Facts{ReadFor: 2, Noticed: true, Live: true, Synced: true, Version: "10", Contact: ago(time.Minute)}
	immutable := Facts{ReadFor: 1, Noticed: true, Synced: true, Immutable: true, Version: "10", Contact: ago(time.Hour)}
	onDemand := Facts{ReadFor: 2, Noticed: true, Synced: true, Exists: true, ByGet: true, Version: "10", Contact: ago(time.Minute)}
	with := func(f Facts, change func(*Facts)) Facts {
		change(&f)
		return f
	}
	tests := map[string]struct {
		facts  Facts
		demand Demand
		want   Verdict
		after  time.Duration // of wait
	}{
		"unknown":               {Facts{}, Demand{}, Wait, -1},
		"unknown, ended":        {Facts{}, Demand{Ended: true}, Fail, 0},
		"unknown, just refused": {Facts{Attempts: reflector.Status{RefusedSince: ago(4 * time.Second), LastErrorTime: noon}}, Demand{}, Wait, 9 * time.Second},
		"unknown, refused since long": {
			Facts{Attempts: reflector.Status{RefusedSince: ago(20 * time.Second), LastErrorTime: ago(2 * time.Second)}}, Demand{}, Fail, 0,
		},
		"too old, and watches alone are refused since long": {
			with(watched, func(f *Facts) {
				f.Attempts = reflector.Status{RefusedSince: ago(20 * time.Second), LastErrorTime: ago(2 * time.Second), Polled: true}
			}), Demand{NotOlderThan: "11"}, Wait, -1,
		},
		"unknown, refused, and not recently": {
			Facts{Attempts: reflector.Status{RefusedSince: ago(20 * time.Second), LastErrorTime: ago(4 * time.Second)}}, Demand{}, Wait, -1,
		},
		"watched":                   {watched, Demand{}, Serve, 0},
		"watched, a newer owner":    {with(watched, func(f *Facts) { f.ReadFor = 1 }), Demand{}, Serve, 0},
		"watched, too old":          {watched, Demand{NotBefore: ago(30 * time.Second)}, Wait, -1},
		"watched, too old, ended":   {watched, Demand{NotBefore: ago(30 * time.Second), Ended: true}, Fail, 0},
		"watched, young enough":     {watched, Demand{NotBefore: ago(time.Minute)}, Serve, 0},
		"an older version":          {watched, Demand{NotOlderThan: "11"}, Wait, -1},
		"an older version, ended":   {watched, Demand{NotOlderThan: "11", Ended: true}, Fail, 0},
		"the version":               {watched, Demand{NotOlderThan: "10"}, Serve, 0},
		"behind after its own read": {watched, Demand{NotOlderThan: "11", Read: 2}, Fail, 0},
		"a live Get":                {watched, Demand{Live: true, Read: 3}, Wait, -1},
		"a live Get, read":          {watched, Demand{Live: true, Read: 2}, Serve, 0},

		"immutable, read for its owner": {with(immutable, func(f *Facts) { f.ReadFor = 2 }), Demand{}, Serve, 0},
		"immutable is never stale":      {with(immutable, func(f *Facts) { f.ReadFor = 2 }), Demand{NotBefore: ago(time.Second)}, Serve, 0},
		"immutable, a newer owner":      {immutable, Demand{}, Wait, stuckGrace},
		"immutable, a newer owner that was just added": {
			immutable, Demand{OwnerAddedAt: ago(500 * time.Millisecond)}, Wait, time.Second,
		},
		"immutable, a newer owner, ended":        {immutable, Demand{Ended: true}, ServeOnce, 0},
		"immutable, the owner is gone":           {immutable, Demand{Owner: 1}, Serve, 0},
		"immutable, a live Get":                  {immutable, Demand{Live: true, Read: 3}, Wait, -1},
		"immutable, a live Get, ended":           {immutable, Demand{Live: true, Read: 3, Ended: true}, Fail, 0},
		"immutable, the first read is unnoticed": {with(immutable, func(f *Facts) { f.Noticed = false }), Demand{Ended: true}, Fail, 0},
		"immutable, all owners have the previous state": {
			with(immutable, func(f *Facts) { f.PreviousFor = 2 }), Demand{}, ServeAll, 0,
		},
		"immutable, the read failed": {
			with(immutable, func(f *Facts) { f.Attempts.FailedAt = ago(2 * time.Second) }), Demand{}, ServeAll, 0,
		},
		"immutable, a read before the owner failed": {
			with(immutable, func(f *Facts) { f.Attempts.FailedAt = ago(5 * time.Second) }), Demand{}, Wait, stuckGrace,
		},
		"immutable, the server is away": {with(immutable, func(f *Facts) { f.Attempts.Away = true }), Demand{}, ServeAll, 0},
		"immutable, the server is away, and the owner was just added": {
			with(immutable, func(f *Facts) { f.Attempts.Away = true }), Demand{OwnerAddedAt: ago(500 * time.Millisecond)}, Wait, time.Second,
		},
		"immutable, Retry-After": {
			with(immutable, func(f *Facts) { f.Attempts.RetryAfter = noon.Add(time.Second) }), Demand{}, ServeAll, 0,
		},
		"immutable, the answer is lost": {
			with(immutable, func(f *Facts) { f.Attempts.Hung, f.Attempts.AskedAt = true, ago(stuckGrace) }), Demand{}, ServeAll, 0,
		},
		"immutable, the answer takes long": {
			with(immutable, func(f *Facts) { f.Attempts.Hung, f.Attempts.AskedAt = true, ago(time.Second) }), Demand{}, Wait, stuckGrace,
		},
		"immutable, refused since long": {
			with(immutable, func(f *Facts) {
				f.Attempts.RefusedSince, f.Attempts.LastErrorTime = ago(20*time.Second), ago(2*time.Second)
			}),
			Demand{}, ServeAll, 0,
		},
		"immutable, refused since the owner was added, and the Get has just begun": {
			with(immutable, func(f *Facts) {
				f.Attempts.RefusedSince, f.Attempts.LastErrorTime = ago(20*time.Second), ago(500*time.Millisecond)
			}),
			Demand{OwnerAddedAt: ago(15 * time.Second)}, ServeAll, 0,
		},
		"immutable, the owner's grace ends before the attempt can be stuck": {
			with(immutable, func(f *Facts) {
				f.Attempts.RefusedSince, f.Attempts.LastErrorTime = ago(20*time.Second), ago(500*time.Millisecond)
			}),
			Demand{OwnerAddedAt: ago(9 * time.Second)}, Wait, time.Second,
		},
		"without a stream, a newer owner": {with(watched, func(f *Facts) { f.Live, f.ReadFor = false, 1 }), Demand{}, Wait, stuckGrace},
		"without a stream, too old": {
			with(watched, func(f *Facts) { f.Live, f.ReadFor = false, 1 }), Demand{NotBefore: ago(time.Second), Ended: true}, Fail, 0,
		},
		"read on demand":         {onDemand, Demand{}, Serve, 0},
		"its TTL is over":        {onDemand, Demand{Lapsed: true}, Wait, stuckGrace},
		"its TTL is over, ended": {onDemand, Demand{Lapsed: true, Ended: true}, ServeOnce, 0},
		"its TTL is over, and the Get has had its read": {onDemand, Demand{Lapsed: true, Read: 2}, Serve, 0},
		"its TTL is over, and the read failed":          {with(onDemand, func(f *Facts) { f.Attempts.Failures = 1 }), Demand{Lapsed: true}, ServeAll, 0},
		"its TTL is over, and the server is away":       {with(onDemand, func(f *Facts) { f.Attempts.Away = true }), Demand{Lapsed: true}, ServeAll, 0},
		"its TTL is over, and it is too old":            {onDemand, Demand{Lapsed: true, NotBefore: ago(time.Second), Ended: true}, Fail, 0},
		"read on demand, a newer owner":                 {with(onDemand, func(f *Facts) { f.ReadFor = 1 }), Demand{}, Wait, stuckGrace},
		"the TTL of an absence is over":                 {with(onDemand, func(f *Facts) { f.Exists = false }), Demand{Lapsed: true}, Wait, -1},
		"the TTL of an absence is over, ended":          {with(onDemand, func(f *Facts) { f.Exists = false }), Demand{Lapsed: true, Ended: true}, Fail, 0},
		"the version of an absence":                     {with(onDemand, func(f *Facts) { f.Exists = false }), Demand{NotOlderThan: "9"}, Wait, -1},
		"the version of an absence, read":               {with(onDemand, func(f *Facts) { f.Exists = false }), Demand{NotOlderThan: "9", Read: 2}, Serve, 0},
		"the version, and its TTL is over":              {onDemand, Demand{NotOlderThan: "10", Lapsed: true, Ended: true}, ServeOnce, 0},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			d := test.demand
			d.Began = ago(time.Second)
			if d.Owner == 0 {
				d.Owner = 2
			}
			if d.OwnerAddedAt.IsZero() {
				d.OwnerAddedAt = ago(3 * time.Second)
			}
			got, after := d.Answer(&test.facts, grace, noon)
			if got != test.want || got == Wait && after != test.after {
				t.Errorf("got %s after %v, want %s after %v", got, after, test.want, test.after)
			}
		})
	}
}

// drawnFacts returns any facts.
func drawnFacts(t *rapid.T) Facts {
	number := rapid.Uint64Range(0, 3)
	at := func(label string) time.Time {
		if age := rapid.IntRange(0, 20).Draw(t, label); age > 0 {
			return ago(time.Duration(age-5) * 500 * time.Millisecond)
		}
		return time.Time{}
	}
	flag := func(label string) bool { return rapid.Bool().Draw(t, label) }
	return Facts{
		ReadFor: number.Draw(t, "readFor"), PreviousFor: number.Draw(t, "previousFor"), Version: "10", Contact: at("contact"),
		Noticed: flag("noticed"), Live: flag("live"), Synced: flag("synced"), Immutable: flag("immutable"),
		Exists: flag("exists"), ByGet: flag("byGet"),
		Attempts: reflector.Status{
			Away: flag("away"), Hung: flag("hung"), AskedAt: at("asked"), FailedAt: at("failed"), LastErrorTime: at("error"),
			RefusedSince: at("refused"), RetryAfter: at("retryAfter"),
			Failures: rapid.IntRange(0, 1).Draw(t, "failures"),
		},
	}
}

// drawnDemand returns any demand.
func drawnDemand(t *rapid.T) Demand {
	ages := rapid.IntRange(0, 10)
	d := Demand{
		Began: ago(time.Duration(ages.Draw(t, "began")) * 300 * time.Millisecond), Owner: rapid.Uint64Range(1, 3).Draw(t, "owner"),
		OwnerAddedAt: ago(time.Duration(ages.Draw(t, "added")) * 300 * time.Millisecond),
		NotOlderThan: rapid.SampledFrom([]string{"", "", "9", "11"}).Draw(t, "version"),
		Live:         rapid.Bool().Draw(t, "live"), Ended: rapid.Bool().Draw(t, "ended"), Lapsed: rapid.Bool().Draw(t, "lapsed"),
	}
	if staleness := rapid.IntRange(0, 3).Draw(t, "staleness"); staleness > 0 {
		d.NotBefore = ago(time.Duration(staleness) * time.Second)
	}
	if d.Live || d.Lapsed || d.NotOlderThan != "" {
		d.Read = rapid.Uint64Range(0, 3).Draw(t, "read")
	}
	return d
}

// Whatever is known and demanded, an answer keeps these promises.
func TestAnswerProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f, d := drawnFacts(t), drawnDemand(t)
		grace := time.Duration(rapid.IntRange(-1, 3).Draw(t, "grace")) * time.Second
		got, after := d.Answer(&f, grace, noon)
		switch {
		case got == Wait && d.Ended:
			t.Error("a Get that has ended waits")
		case got == Wait && after == 0:
			t.Error("a Get that waits asks again at once")
		case got.Serves() && !f.Synced:
			t.Errorf("%s, and nothing is known", got)
		case got.Serves() && d.Live && (d.Read == 0 || f.ReadFor < d.Read):
			t.Errorf("%s, and the read that a live Get demands is not there", got)
		case got.Serves() && d.Lapsed && !f.Exists && !d.ReadDone(&f):
			t.Errorf("%s, and the TTL of the absence is over", got)
		case got == Serve && d.Lapsed && !d.ReadDone(&f):
			t.Error("a state is served as if its TTL were not over")
		case got.Serves() && d.NotOlderThan != "" && f.ByGet && !f.Exists && !d.ReadDone(&f):
			t.Errorf("%s, and the version of the absence is not known", got)
		case got.Serves() && d.NotOlderThan == "11" && !(f.ByGet && !f.Exists):
			t.Errorf("%s, and the state is older than demanded", got)
		case got == Serve && f.Immutable && f.ReadFor < d.Owner:
			t.Error("an immutable object without a read for its newest owner is served")
		case got.Serves() && !f.Immutable && f.Contact.Before(d.NotBefore):
			t.Errorf("%s, and the state is too old", got)
		}
	})
}

// A Get that waits until it has to ask again misses nothing: before that the answer is the same.
func TestAnswerIsTheSameUntilAskedAgain(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f, d := drawnFacts(t), drawnDemand(t)
		f.Attempts.RetryAfter, f.Attempts.AskedAt = time.Time{}, time.Time{} // the end of an attempt, or of a pause, wakes
		got, after := d.Answer(&f, 2*time.Second, noon)
		if got != Wait {
			return
		}
		if after < 0 {
			after = time.Hour
		}
		part := time.Duration(rapid.IntRange(0, 99).Draw(t, "part"))
		if then, _ := d.Answer(&f, 2*time.Second, noon.Add(after*part/100)); then != Wait {
			t.Errorf("got wait for %v, and after %d %% of it %s", after, part, then)
		}
	})
}

// A state that all owners have stays theirs until another owner is added, whatever attempts bring.
func TestAnswerKeepsWhatAllOwnersHave(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f, d := drawnFacts(t), drawnDemand(t)
		d.Live, d.NotOlderThan, d.Read, d.NotBefore = false, "", 0, time.Time{}
		if got, _ := d.Answer(&f, time.Second, noon); got != ServeAll {
			return
		}
		f.PreviousFor = max(f.PreviousFor, d.Owner) // what a store does then
		f.Attempts = drawnFacts(t).Attempts
		later := d
		later.Lapsed = false // see prolongLocked
		later.Began = noon.Add(time.Minute)
		if got, _ := later.Answer(&f, time.Second, noon.Add(time.Minute)); !got.Serves() {
			t.Errorf("a minute later: got %s", got)
		}
	})
}
