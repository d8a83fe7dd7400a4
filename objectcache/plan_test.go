// SPDX-License-Identifier: Apache-2.0

package objectcache

import (
	"fmt"
	"iter"
	"testing"
)

func TestPlan(t *testing.T) {
	var (
		followed    = nature{known: true, exists: true}
		unknown     = nature{}
		immutable   = nature{known: true, exists: true, immutable: true}
		readOnce    = nature{known: true, exists: true, readOnce: true}
		absentOnce  = nature{known: true, readOnce: true}
		unknownOnce = nature{readOnce: true}
		onDemand    = nature{onDemand: true, known: true, exists: true}
		both        = nature{known: true, exists: true, immutable: true, readOnce: true}
	)
	for name, test := range map[string]struct {
		progress progress
		want     step
	}{
		"first read under way":                          {progress{nature: unknown}, keepStream},
		"stream open":                                   {progress{nature: followed, read: true, covered: true}, keepStream},
		"stream open, new owner":                        {progress{nature: followed, read: true}, keepStream},
		"stream failing":                                {progress{nature: followed, failed: true}, keepStream},
		"read is behind a GET":                          {progress{nature: followed, read: true, behind: true}, readAgain},
		"became immutable":                              {progress{nature: immutable, read: true, covered: true}, endStream},
		"became immutable, new owner":                   {progress{nature: immutable, read: true, mayRead: true}, readForOwner},
		"became immutable, one of many new owners":      {progress{nature: immutable, read: true}, endStreamUntilRead},
		"immutable while shared":                        {progress{nature: immutable, upkeep: bySharedStream, read: true, covered: true}, readAgain},
		"recheck under way":                             {progress{nature: immutable, upkeep: byRead, covered: true}, keepWatch},
		"read under way ended, an owner came meanwhile": {progress{nature: immutable, upkeep: byRead, read: true, mayRead: true}, readForOwner},
		"the same, and many have come":                  {progress{nature: immutable, upkeep: byRead, read: true}, endStreamUntilRead},
		"recheck failed":                                {progress{nature: immutable, upkeep: byRead, covered: true, failed: true}, endStream},
		"read for an owner failed":                      {progress{nature: immutable, upkeep: byRead, failed: true}, keepWatch},
		"read for an owner done":                        {progress{nature: immutable, upkeep: byRead, read: true, covered: true}, endStream},
		"immutable at rest":                             {progress{nature: immutable, upkeep: byNone, phase: Immutable, covered: true}, keepWatch},
		"immutable at rest, all references read-once":   {progress{nature: readOnce, upkeep: byNone, phase: Immutable, covered: true}, endStream},
		"read-once at rest":                             {progress{nature: readOnce, upkeep: byNone, phase: ReadOnce, covered: true}, keepWatch},
		"immutable at rest, phase and owners change":    {progress{nature: readOnce, upkeep: byNone, phase: Immutable}, endStreamUntilRead},
		"read-once at rest, reference added":            {progress{nature: followed, upkeep: byNone, phase: ReadOnce, covered: true}, readAgain},
		"read-once, first read under way":               {progress{nature: unknownOnce, upkeep: byRead}, keepStream},
		"read-once, read and absent":                    {progress{nature: absentOnce, upkeep: byRead, read: true, covered: true}, readAgain},
		"read-once, absent":                             {progress{nature: absentOnce, read: true, covered: true}, keepStream},
		"read-once wins over immutable":                 {progress{nature: both, upkeep: byNone, phase: ReadOnce, covered: true}, keepWatch},
		"immutable at rest, now read-once as well":      {progress{nature: both, upkeep: byNone, phase: Immutable, covered: true}, endStream},
		"read-once at rest, now immutable":              {progress{nature: immutable, upkeep: byNone, phase: ReadOnce, covered: true}, endStream},
		"at rest, the last read is stored":              {progress{nature: immutable, upkeep: byNone, phase: Immutable, read: true, covered: true}, keepWatch},
		"at rest, a timer reads for an owner":           {progress{nature: immutable, upkeep: byNone, phase: Immutable, read: true, mayRead: true}, keepWatch},
		"shared, first read under way":                  {progress{nature: unknown, upkeep: bySharedStream}, keepStream},
		"shared":                                        {progress{nature: followed, upkeep: bySharedStream, read: true, covered: true}, keepStream},
		"shared and failing":                            {progress{nature: followed, upkeep: bySharedStream, read: true, failed: true}, keepStream},
		"read-once while shared":                        {progress{nature: readOnce, upkeep: bySharedStream, read: true}, readAgain},
		"immutable and behind a GET":                    {progress{nature: immutable, read: true, covered: true, behind: true}, readAgain},
		"immutable, first read under way":               {progress{nature: immutable, covered: true}, keepWatch},
		"immutable, first read failed":                  {progress{nature: immutable, covered: true, failed: true}, endStream},
		"immutable, first read for an owner failed":     {progress{nature: immutable, failed: true}, keepWatch},
		"read done, a failure before it":                {progress{nature: immutable, upkeep: byRead, read: true, covered: true, failed: true}, endStream},
		"on demand, first read under way":               {progress{nature: nature{onDemand: true}, upkeep: byRead}, keepWatch},
		"on demand, first read failed":                  {progress{nature: nature{onDemand: true}, upkeep: byRead, covered: true, failed: true}, keepWatch},
		"on demand, read for an older owner":            {progress{nature: onDemand, upkeep: byRead, read: true, mayRead: true}, endStream},
		"on demand, read again and failed":              {progress{nature: onDemand, upkeep: byRead, covered: true, failed: true}, keepWatch},
		"on demand at rest, new owner":                  {progress{nature: onDemand, upkeep: byNone, phase: Cached, mayRead: true}, keepWatch},
		"read-once and read, a reference came meantime": {progress{nature: followed, upkeep: byRead, read: true, covered: true}, readAgain},
	} {
		t.Run(name, func(t *testing.T) {
			if got := test.progress.plan(); got != test.want {
				t.Errorf("got step %v, want %v", got, test.want)
			}
		})
	}
}

func TestNature(t *testing.T) {
	for name, test := range map[string]struct {
		nature nature
		phase  Phase // without a stream
		next   upkeep
	}{
		"unknown":                   {nature{}, "", byStream},
		"unknown, read-once":        {nature{readOnce: true}, "", byRead},
		"exists":                    {nature{known: true, exists: true}, "", byStream},
		"read-once":                 {nature{known: true, exists: true, readOnce: true}, ReadOnce, byRead},
		"immutable":                 {nature{known: true, exists: true, immutable: true}, Immutable, byRead},
		"immutable, read-once":      {nature{known: true, exists: true, immutable: true, readOnce: true}, ReadOnce, byRead},
		"absent":                    {nature{known: true}, "", byStream},
		"absent, read-once":         {nature{known: true, readOnce: true}, "", byStream},
		"on demand":                 {nature{onDemand: true, known: true, exists: true}, Cached, byRead},
		"on demand, unknown":        {nature{onDemand: true}, Cached, byRead},
		"on demand, absent":         {nature{onDemand: true, known: true}, Cached, byRead},
		"state without a full read": {nature{exists: true, immutable: true}, "", byRead},
	} {
		if got := test.nature.withoutStream(); got != test.phase {
			t.Errorf("%s: without a stream: got phase %q, want %q", name, got, test.phase)
		}
		if got := test.nature.nextRead(); got != test.next {
			t.Errorf("%s: next read: got %v, want %v", name, got, test.next)
		}
	}
	for u, own := range map[upkeep]bool{byStream: true, bySharedStream: false, byRead: true, byNone: false} {
		if u.isOwn() != own {
			t.Errorf("upkeep %v: got own %v, want %v", u, !own, own)
		}
	}
}

// allProgress yields every progress that a watch can have.
func allProgress() iter.Seq[progress] {
	return func(yield func(progress) bool) {
		for bits := range 1 << 10 {
			bit := func(i int) bool { return bits>>i&1 == 1 }
			n := nature{known: bit(0), exists: bit(1), immutable: bit(2), readOnce: bit(3), onDemand: bit(9)}
			if n.exists && !n.known || n.immutable && !n.exists {
				continue
			}
			p := progress{nature: n, read: bit(4), covered: bit(5), behind: bit(4) && bit(6), mayRead: bit(7), failed: bit(8)}
			if p.read && !p.known {
				continue
			}
			upkeeps, phases := []upkeep{byStream, bySharedStream, byRead}, []Phase{Immutable, ReadOnce}
			if n.onDemand {
				upkeeps, phases = []upkeep{byRead}, []Phase{Cached}
			}
			for _, u := range upkeeps {
				if p.upkeep = u; !yield(p) {
					return
				}
			}
			for _, phase := range phases {
				if p.upkeep, p.phase = byNone, phase; !yield(p) {
					return
				}
			}
			p.phase = ""
		}
	}
}

// next returns the progress after a step. A read that begins is not stored yet.
func (p progress) next(step step) progress {
	switch step {
	case readAgain, readForOwner:
		return progress{nature: p.nature, upkeep: p.nextRead(), covered: p.covered, mayRead: p.mayRead}
	case endStream, endStreamUntilRead:
		p.upkeep, p.phase = byNone, p.withoutStream()
		p.read, p.behind, p.failed = false, false, false
	}
	return p
}

// Whatever has happened, an object that needs a stream gets one, and one that needs none has
// none after the reads for its owners.
func TestPlanSettles(t *testing.T) {
	for p := range allProgress() {
		if !p.known {
			continue // after the next read it is one of the others
		}
		begin := p
		var steps []step
		for range 6 {
			step := p.plan()
			steps = append(steps, step)
			p = p.next(step)
			rests := step == keepWatch && p.upkeep == byNone && !p.covered // newOwnerLocked has set the timer
			if step == endStreamUntilRead || rests {
				p = p.next(readForOwner) // the timer fires
			}
			if p.upkeep != byNone { // its read is done
				p.read, p.covered, p.behind = true, true, false
			}
		}
		phase := p.withoutStream()
		streams := p.upkeep == byStream || p.upkeep == bySharedStream
		if phase == "" && !streams || phase != "" && (p.upkeep != byNone || p.phase != phase) {
			t.Errorf("%+v: after the steps %v got %+v, want phase %q", begin, steps, p, phase)
		}
	}
}

// No failure, and no event, ends a read before it is stored.
func TestPlanEndsNoRead(t *testing.T) {
	for p := range allProgress() {
		for _, step := range []step{readAgain, readForOwner} {
			next := p.next(step)
			for _, next.failed = range []bool{false, true} {
				if got := next.plan(); got == readAgain || got == readForOwner {
					t.Errorf("%+v: a new read is replaced (step %v)", next, got)
				}
			}
		}
		if p.withoutStream() == "" && (p.plan() == endStream || p.plan() == endStreamUntilRead) {
			t.Errorf("%+v: the stream ends, and the object needs one", p)
		}
	}
}

// Whether a namespace shares a stream depends on the number of its objects, and between half
// the threshold and the threshold on what it was before.
func TestPlanOfNamespace(t *testing.T) {
	for threshold, wants := range map[int]string{
		1: "-++",
		2: "-.+",
		3: "-~.+",
		8: "-~~~....+++",
	} {
		t.Run(fmt.Sprint("threshold ", threshold), func(t *testing.T) {
			options := SharedOptions{Threshold: threshold}
			steps := map[rune]sharing{'-': unshare, '~': shareNoLonger, '.': keepSharing, '+': share}
			for counted, want := range wants {
				if got := options.plan(counted); got != steps[want] {
					t.Errorf("%d objects: got step %v, want %v", counted, got, steps[want])
				}
			}
		})
	}
}
