// SPDX-License-Identifier: Apache-2.0

package model

import (
	"maps"
	"math/bits"
	"slices"
	"strings"

	"pgregory.net/rapid"
)

// Draw draws a schedule.
func Draw() *rapid.Generator[Schedule] {
	names := weightedNames()
	step := rapid.Custom(func(t *rapid.T) Step { return drawStep(t, names[uniform(t, len(names))], oneOf(drawnObjects)) })
	some := rapid.SliceOfN(step, 2, 20)
	return rapid.Custom(func(t *rapid.T) Schedule {
		s := drawSettings(t)
		for range 3 { // a slice is mostly short
			s = append(s, some.Draw(t, "steps")...)
		}
		return s
	})
}

// drawnObjects is how many objects the steps of a schedule choose from. If there are fewer, some have several numbers.
const drawnObjects = 12

// uniform draws a number below n. Those of rapid's own generators are mostly small.
func uniform(t *rapid.T, n int) int {
	const precision = 3
	width := bits.Len(uint(n)) + precision
	drawn := 0
	for range width {
		drawn <<= 1
		if bit.Draw(t, "bit") {
			drawn++
		}
	}
	return drawn * n >> width
}

var bit = rapid.Bool()

// weightedNames returns the name of each operation as often as its weight.
func weightedNames() (names []string) {
	for _, name := range slices.Sorted(maps.Keys(operations)) {
		for range operations[name].weight {
			names = append(names, name)
		}
	}
	// rapid shrinks towards the first one.
	slices.SortStableFunc(names, func(a, b string) int { return strings.Count(a, " ") - strings.Count(b, " ") })
	return names
}

// picker draws the number of an object.
type picker func(t *rapid.T) int

// oneOf draws one of so many objects.
func oneOf(objects int) picker {
	return func(t *rapid.T) int { return uniform(t, objects) }
}

func drawStep(t *rapid.T, name string, pick picker) Step {
	op := operations[name]
	step := Step{Op: name}
	for _, b := range op.args {
		step.Args = append(step.Args, b.draw(t, pick))
	}
	if op.rest != nil {
		for range uniform(t, 5) {
			step.Args = append(step.Args, op.rest.draw(t, pick))
		}
	}
	return step
}

func (b bounds) draw(t *rapid.T, pick picker) int {
	switch {
	case len(b.list) > 0:
		return b.list[uniform(t, len(b.list))]
	case b.object:
		return pick(t)
	}
	return uniform(t, b.max+1)
}

// drawSettings draws the options of a run: mostly none.
func drawSettings(t *rapid.T) (s Schedule) {
	add := func(oneOf int, op string, values ...int) {
		if uniform(t, oneOf) != oneOf-1 {
			return
		}
		step := Step{Op: op}
		if len(values) > 0 {
			step.Args = []int{values[uniform(t, len(values))]}
		}
		s = append(s, step)
	}
	add(3, "with objects", 2, 3, 5, 12)
	add(8, "with idle-timeout", 1000, 60000)
	add(8, "with max-staleness", 5000, 150000)
	add(6, "with watch-immutable")
	add(3, "with rest-widgets")
	add(6, "with blocking")
	add(6, "with no-watchlist")
	add(6, "with streams", 3, 5)
	add(6, "with transform")
	add(8, "with ttl", 1000, 60000)
	add(16, "with direct")
	add(8, "with busy", 300, 1000)
	add(8, "with latency", 50, 500)
	add(12, "with size", 100)
	add(200, "with size", 1000) // rare: the race detector makes it slow
	return s
}
