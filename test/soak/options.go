// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"flag"
	"time"
)

// Options say how much happens, and for how long. All fields but HeapGrowth must be set.
type Options struct {
	// Period is the time of churn. A run takes longer: it waits until all objects are fresh before, three times
	// meanwhile, and at the end.
	Period time.Duration
	// Objects is how many objects there are, rounded up to a multiple of 20. Half are Secrets, half are ConfigMaps.
	// Five pods reference each.
	Objects int
	// Updates is how many writes there are a second.
	Updates float64
	// Churn is how often a second pods are registered, updated or unregistered: one or five of them.
	Churn float64
	// Faults is the mean time between two faults of the network. Of four, three cut a connection, and one makes it
	// half open.
	Faults time.Duration
	// Fresh is how soon a Get must return what was written, and Changes must yield it, while there is no fault. After a
	// quarter all objects must be fresh within twice that time.
	Fresh time.Duration
	// HeapGrowth is by how much the heap may grow from the second quarter of the period to the last, as a part of it.
	// The first quarter is for warming up. With zero the heap is not checked, neither its growth nor what is left of
	// it at the end: for a short period, or a server in the same process.
	HeapGrowth float64
	// History is the file to which the history is written, for go run ./test/history/check. Default: none.
	History string
}

// Flags defines a flag for each option, with these defaults. Use the result after the flags have been parsed.
func Flags(defaults Options) *Options {
	o := &Options{}
	flag.DurationVar(&o.Period, "soak.period", defaults.Period, "the time of churn")
	flag.IntVar(&o.Objects, "soak.objects", defaults.Objects, "the number of objects; references are five times as many")
	flag.Float64Var(&o.Updates, "soak.updates", defaults.Updates, "writes a second")
	flag.Float64Var(&o.Churn, "soak.churn", defaults.Churn, "changes of pods a second")
	flag.DurationVar(&o.Faults, "soak.faults", defaults.Faults, "the mean time between two faults of the network")
	flag.DurationVar(&o.Fresh, "soak.fresh", defaults.Fresh, "how soon a Get must return a write; 15s for a run of minutes")
	flag.Float64Var(&o.HeapGrowth, "soak.heap-growth", defaults.HeapGrowth,
		"by how much the heap may grow from the second quarter of the period to the last, as a part of it; 0: not checked")
	flag.StringVar(&o.History, "soak.history", "", "a file for the history, in JSON lines")
	return o
}

// freshWithin is how soon all objects must be fresh when all pods were registered, and after a quarter.
func (o Options) freshWithin() time.Duration { return 2 * o.Fresh }
