// SPDX-License-Identifier: Apache-2.0

package objectcache

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/refwatch/refwatch/reflector"
	"github.com/refwatch/refwatch/reflector/histogram"
)

// Stats is what a store holds and has done so far. Its numbers are of all objects, also
// of those that are no longer referenced: what counts calls or events never decreases. The
// maps belong to the caller, and have all keys. It holds no object data and no names.
type Stats struct {
	// StreamStats is what the streams of the store do, shared ones included, and what its
	// reads without streams do: those of a TTLStore or a DirectStore, those of
	// immutable and read-once objects, and the GETs beside first reads (see WatchStore.Get).
	reflector.StreamStats

	// Resource is the kind of the objects.
	Resource schema.GroupVersionResource
	// Objects is how many objects are referenced. References is how many pairs there are
	// of such an object and an owner that references it; how often it does, is not
	// counted. A DirectStore counts neither.
	Objects, References int
	// Absent is how many of the objects the server does not have, as last known: they do not
	// exist yet, or were deleted. An object whose state was never read does not count. A
	// DirectStore counts none.
	Absent int
	// Gets is how the calls of Get, GetWithOptions and TryGet have ended.
	Gets map[GetResult]uint64
	// FirstSync is how long objects took from their first reference, or from Run if that
	// came later, until their state was known for the first time; in a TTLStore from the
	// first Get. A DirectStore observes none.
	FirstSync histogram.Snapshot
	// Gate is that of the store, which may be shared with others. Nil for a DirectStore.
	Gate *Gate
}

// Stats returns what the store holds and has done so far.
func (s *WatchStore[T]) Stats() Stats {
	s.mu.Lock()
	objects, references := s.objects, s.references
	s.mu.Unlock()
	return Stats{
		Resource: s.resource.pathResource(), Objects: objects, References: references, Absent: s.absent(),
		StreamStats: s.counters.Stats(), Gets: s.gets.snapshot(), FirstSync: s.firstSync.Snapshot(), Gate: s.options.Gate,
	}
}

// absent counts the objects that are absent. It takes no lock: states are read as Get does.
func (s *WatchStore[T]) absent() (count int) {
	for _, e := range s.entries.Range {
		if state := e.(*entry[T]).state(); state.Synced && !state.Exists {
			count++
		}
	}
	return count
}

// Stats returns what the store has done so far.
func (s *DirectStore[T]) Stats() Stats {
	return Stats{Resource: s.resource.pathResource(), StreamStats: s.counters.Stats(), Gets: s.gets.snapshot()}
}

// SumStats returns the sum of the stats of several stores, as if they were one. Its maps
// have all keys, also without stats. Its Resource and Gate are those of the first stats.
func SumStats(stats ...Stats) Stats {
	var streams reflector.Counters
	var gets getCounters
	sum := Stats{StreamStats: streams.Stats(), Gets: gets.snapshot()} // all keys, with the value 0
	for i, s := range stats {
		if i == 0 {
			sum.Resource, sum.Gate = s.Resource, s.Gate
		}
		sum.Objects += s.Objects
		sum.References += s.References
		sum.Absent += s.Absent
		sum.OpenStreams += s.OpenStreams
		sum.ParkedStreams += s.ParkedStreams
		addCounts(sum.Opens, s.Opens)
		addCounts(sum.Events, s.Events)
		addCounts(sum.Reads, s.Reads)
		addCounts(sum.Gets, s.Gets)
		sum.FirstSync = sum.FirstSync.Add(s.FirstSync)
	}
	return sum
}

func addCounts[K comparable](to, counts map[K]uint64) {
	for key, count := range counts {
		to[key] += count
	}
}
