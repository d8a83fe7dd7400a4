// SPDX-License-Identifier: Apache-2.0

package model

import (
	"slices"

	"pgregory.net/rapid"
)

// DrawMatrix draws a schedule in which so many objects are referenced, and then all of the faults are injected and
// healed, each at another moment, while objects and references change. Most of the changes are those of a few objects
// that the last fault affects.
func DrawMatrix(objects int, faults ...Fault) *rapid.Generator[Schedule] {
	var names []string
	for _, name := range weightedNames() {
		if operations[name].activity {
			names = append(names, name)
		}
	}
	return rapid.Custom(func(t *rapid.T) Schedule {
		s := append(drawSettings(t), Step{"with objects", []int{objects}}, Step{Op: "populate"}, Step{"sleep", []int{5000}}, Step{Op: "follow"})
		delayed := mostDelayed
		if slices.ContainsFunc(s, func(step Step) bool {
			return step.Op == "with direct" || step.Op == "with ttl" || step.Op == "with max-staleness"
		}) {
			delayed = mostChecked // some reads at a time, of states that are too old, and a Get waits for 5 s at most
		}
		s = slices.DeleteFunc(s, func(step Step) bool {
			return step.Op == "with latency" && objects > delayed
		})
		if objects > mostChecked { // client-go's dynamic client repeats throttled requests by itself: more than L5 allows
			s = append(s, Step{Op: "with rest-widgets"})
		}
		pick := oneOf(objects)
		activity := func(most int) {
			for range uniform(t, most+1) {
				s = append(s, drawStep(t, names[uniform(t, len(names))], pick))
			}
		}
		activity(fewSteps)
		for _, f := range faults {
			if f.Name == transformBlocks {
				s = append(s, Step{Op: "with transform"})
			}
			inject := drawInjection(t, f, objects)
			pick = mostlyAffected(t, f, inject, objects)
			s = append(s, Step{Op: "backup"})
			for range writesSinceBackup {
				s = append(s, drawStep(t, "put", pick))
			}
			s = append(s, Step{"sleep", []int{1000}})
			activity(fewSteps)
			s = append(s, inject)
			activity(manySteps)
		}
		for range faults {
			s = append(s, drawStep(t, "sleep", pick), drawStep(t, "heal", pick))
			activity(manySteps)
		}
		return s
	})
}

// mostDelayed is how many objects there may be on a server that answers slowly. The Gate opens about 50 streams at once
// there, so with more objects a schedule would have to last for minutes.
const mostDelayed = 1000

// writesSinceBackup is how many writes a restore undoes at least.
const writesSinceBackup = 3

// How many steps there are at most between the faults.
const fewSteps, manySteps = 5, 20

// drawInjection draws a step that injects a fault. One of objects affects a tenth of them.
func drawInjection(t *rapid.T, f Fault, objects int) Step {
	step := drawStep(t, "inject "+f.Name, oneOf(objects))
	if f.Scope == OfObjects {
		first := uniform(t, 10)
		for i := first; i < objects; i += 10 {
			step.Args = append(step.Args, i)
		}
	}
	return step
}

// mostlyAffected draws two or three of the objects that a fault affects, and returns a picker that draws mostly these:
// what happens to one object again and again finds more than what happens to many objects once.
func mostlyAffected(t *rapid.T, f Fault, inject Step, objects int) picker {
	affected := func() int {
		switch f.Scope {
		case OfObjects:
			return inject.Args[uniform(t, len(inject.Args))]
		case OfKind: // the kinds take turns: see World.newObject
			return uniform(t, objects)/kinds*kinds + inject.arg(0)
		}
		return uniform(t, objects)
	}
	few := []int{affected(), affected(), affected()}
	return func(t *rapid.T) int {
		if uniform(t, 4) == 0 {
			return uniform(t, objects)
		}
		return few[uniform(t, len(few))]
	}
}

// kinds is how many kinds the subjects of this library have.
const kinds = 3
