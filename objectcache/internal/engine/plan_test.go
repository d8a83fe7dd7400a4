// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"iter"
	"testing"
)

func TestPlan(t *testing.T) {
	var (
		followed  = Nature{Known: true, Exists: true}
		unknown   = Nature{}
		immutable = Nature{Known: true, Exists: true, Immutable: true}
		onDemand  = Nature{OnDemand: true, Known: true, Exists: true}
	)
	for name, test := range map[string]struct {
		progress Progress
		want     Step
	}{
		"first read under way":                          {Progress{Nature: unknown}, KeepStream},
		"stream open":                                   {Progress{Nature: followed, Read: true, Covered: true}, KeepStream},
		"stream open, new owner":                        {Progress{Nature: followed, Read: true}, KeepStream},
		"stream failing":                                {Progress{Nature: followed, Failed: true}, KeepStream},
		"read is behind a GET":                          {Progress{Nature: followed, Read: true, Behind: true}, ReadAgain},
		"became immutable":                              {Progress{Nature: immutable, Read: true, Covered: true}, EndStream},
		"became immutable, new owner":                   {Progress{Nature: immutable, Read: true, MayRead: true}, ReadForOwner},
		"became immutable, one of many new owners":      {Progress{Nature: immutable, Read: true}, EndStreamUntilRead},
		"recheck under way":                             {Progress{Nature: immutable, Upkeep: ByRead, Covered: true}, KeepWatch},
		"read under way ended, an owner came meanwhile": {Progress{Nature: immutable, Upkeep: ByRead, Read: true, MayRead: true}, ReadForOwner},
		"the same, and many have come":                  {Progress{Nature: immutable, Upkeep: ByRead, Read: true}, EndStreamUntilRead},
		"recheck failed":                                {Progress{Nature: immutable, Upkeep: ByRead, Covered: true, Failed: true}, EndStream},
		"read for an owner failed":                      {Progress{Nature: immutable, Upkeep: ByRead, Failed: true}, KeepWatch},
		"read for an owner done":                        {Progress{Nature: immutable, Upkeep: ByRead, Read: true, Covered: true}, EndStream},
		"immutable at rest":                             {Progress{Nature: immutable, Upkeep: ByNone, Covered: true}, KeepWatch},
		"at rest, an event came while the stream ended": {Progress{Nature: followed, Upkeep: ByNone, Covered: true}, ReadAgain},
		"at rest, the last read is stored":              {Progress{Nature: immutable, Upkeep: ByNone, Read: true, Covered: true}, KeepWatch},
		"at rest, a timer reads for an owner":           {Progress{Nature: immutable, Upkeep: ByNone, Read: true, MayRead: true}, KeepWatch},
		"immutable and behind a GET":                    {Progress{Nature: immutable, Read: true, Covered: true, Behind: true}, ReadAgain},
		"immutable, first read under way":               {Progress{Nature: immutable, Covered: true}, KeepWatch},
		"immutable, first read failed":                  {Progress{Nature: immutable, Covered: true, Failed: true}, EndStream},
		"immutable, first read for an owner failed":     {Progress{Nature: immutable, Failed: true}, KeepWatch},
		"read done, a failure before it":                {Progress{Nature: immutable, Upkeep: ByRead, Read: true, Covered: true, Failed: true}, EndStream},
		"on demand, first read under way":               {Progress{Nature: Nature{OnDemand: true}, Upkeep: ByRead}, KeepWatch},
		"on demand, first read failed":                  {Progress{Nature: Nature{OnDemand: true}, Upkeep: ByRead, Covered: true, Failed: true}, KeepWatch},
		"on demand, read for an older owner":            {Progress{Nature: onDemand, Upkeep: ByRead, Read: true, MayRead: true}, EndStream},
		"on demand, read again and failed":              {Progress{Nature: onDemand, Upkeep: ByRead, Covered: true, Failed: true}, KeepWatch},
		"on demand at rest, new owner":                  {Progress{Nature: onDemand, Upkeep: ByNone, MayRead: true}, KeepWatch},
		"recheck has read a mutable object":             {Progress{Nature: followed, Upkeep: ByRead, Read: true, Covered: true}, ReadAgain},
	} {
		t.Run(name, func(t *testing.T) {
			if got := test.progress.Plan(); got != test.want {
				t.Errorf("got step %v, want %v", got, test.want)
			}
		})
	}
}

func TestNature(t *testing.T) {
	for name, test := range map[string]struct {
		nature Nature
		reason Reason
		next   Upkeep
	}{
		"unknown":                   {Nature{}, NeedsStream, ByStream},
		"exists":                    {Nature{Known: true, Exists: true}, NeedsStream, ByStream},
		"immutable":                 {Nature{Known: true, Exists: true, Immutable: true}, Immutable, ByRead},
		"absent":                    {Nature{Known: true}, NeedsStream, ByStream},
		"on demand":                 {Nature{OnDemand: true, Known: true, Exists: true}, OnDemand, ByRead},
		"on demand, unknown":        {Nature{OnDemand: true}, OnDemand, ByRead},
		"on demand, absent":         {Nature{OnDemand: true, Known: true}, OnDemand, ByRead},
		"state without a full read": {Nature{Exists: true, Immutable: true}, NeedsStream, ByRead},
	} {
		if got := test.nature.WithoutStream(); got != test.reason {
			t.Errorf("%s: without a stream: got %v, want %v", name, got, test.reason)
		}
		if got := test.nature.NextRead(); got != test.next {
			t.Errorf("%s: next read: got %v, want %v", name, got, test.next)
		}
	}
}

// allProgress yields every progress that a watch can have.
func allProgress() iter.Seq[Progress] {
	return func(yield func(Progress) bool) {
		for bits := range 1 << 9 {
			bit := func(i int) bool { return bits>>i&1 == 1 }
			n := Nature{Known: bit(0), Exists: bit(1), Immutable: bit(2), OnDemand: bit(3)}
			if n.Exists && !n.Known || n.Immutable && !n.Exists {
				continue
			}
			p := Progress{Nature: n, Read: bit(4), Covered: bit(5), Behind: bit(4) && bit(6), MayRead: bit(7), Failed: bit(8)}
			if p.Read && !p.Known {
				continue
			}
			upkeeps := []Upkeep{ByStream, ByRead, ByNone}
			if n.OnDemand {
				upkeeps = []Upkeep{ByRead, ByNone}
			}
			for _, u := range upkeeps {
				if p.Upkeep = u; !yield(p) {
					return
				}
			}
		}
	}
}

// next returns the progress after a step. A read that begins is not stored yet.
func (p Progress) next(step Step) Progress {
	switch step {
	case ReadAgain, ReadForOwner:
		return Progress{Nature: p.Nature, Upkeep: p.NextRead(), Covered: p.Covered, MayRead: p.MayRead}
	case EndStream, EndStreamUntilRead:
		p.Upkeep = ByNone
		p.Read, p.Behind, p.Failed = false, false, false
	}
	return p
}

// Whatever has happened, an object that needs a stream gets one, and one that needs none has
// none after the reads for its owners.
func TestPlanSettles(t *testing.T) {
	for p := range allProgress() {
		if !p.Known {
			continue // after the next read it is one of the others
		}
		begin := p
		var steps []Step
		for range 6 {
			step := p.Plan()
			steps = append(steps, step)
			p = p.next(step)
			rests := step == KeepWatch && p.Upkeep == ByNone && !p.Covered // newOwnerLocked has set the timer
			if step == EndStreamUntilRead || rests {
				p = p.next(ReadForOwner) // the timer fires
			}
			if p.Upkeep != ByNone { // its read is done
				p.Read, p.Covered, p.Behind = true, true, false
			}
		}
		reason := p.WithoutStream()
		if needed := reason == NeedsStream; needed && p.Upkeep != ByStream || !needed && p.Upkeep != ByNone {
			t.Errorf("%+v: after the steps %v got %+v, want reason %v", begin, steps, p, reason)
		}
	}
}

// No failure, and no event, ends a read before it is stored.
func TestPlanEndsNoRead(t *testing.T) {
	for p := range allProgress() {
		for _, step := range []Step{ReadAgain, ReadForOwner} {
			next := p.next(step)
			for _, next.Failed = range []bool{false, true} {
				if got := next.Plan(); got == ReadAgain || got == ReadForOwner {
					t.Errorf("%+v: a new read is replaced (step %v)", next, got)
				}
			}
		}
		if p.WithoutStream() == NeedsStream && (p.Plan() == EndStream || p.Plan() == EndStreamUntilRead) {
			t.Errorf("%+v: the stream ends, and the object needs one", p)
		}
	}
}
