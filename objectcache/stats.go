// SPDX-License-Identifier: Apache-2.0

package objectcache

import (
	"context"
	"errors"
	"sync/atomic"
	"unsafe"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/refwatch/refwatch/internal/reflector"
	"github.com/refwatch/refwatch/internal/reflector/histogram"
)

// Stats is what a store holds and has done so far. Its numbers are of all objects, also
// of those that are no longer referenced: what counts calls or events never decreases. The
// maps belong to the caller, and have all keys. It holds no object data and no names.
type Stats struct {
	// StreamStats is what the streams of the store do (OpenStreams, ParkedStreams, Opens by reason, Events by type),
	// and its reads without streams (Reads by result): those of a TTLStore or a DirectStore, those of immutable
	// objects, and the GETs beside first reads (see WatchStore.Get).
	reflector.StreamStats

	// Resource is the kind of the objects.
	Resource schema.GroupVersionResource
	// Objects is how many objects are referenced. References is how many pairs there are
	// of such an object and an owner that references it; how often it does, is not
	// counted. A DirectStore counts neither.
	Objects, References int
	// Absent is how many of the objects the server does not have, as last known: they do not
	// exist yet, were deleted, or cannot exist ([ErrInvalidName]). An object whose state was
	// never read does not count. A DirectStore counts none.
	Absent int
	// Gets is how the calls of Get, GetWithOptions and TryGet have ended.
	Gets map[GetResult]uint64
	// FirstSync is how long objects took from their first reference, or from Run if that
	// came later, until their state was known for the first time; in a TTLStore from the
	// first Get. A DirectStore observes none. An object that cannot exist has none. It is a histogram:
	// Count, Sum, and Cumulative, which counts those that took no longer than each bound of the metric.
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
		Resource: s.resource.Path, Objects: objects, References: references, Absent: s.absent(),
		StreamStats: s.counters.Stats(), Gets: s.gets.snapshot(), FirstSync: s.firstSync.Snapshot(), Gate: s.options.Gate,
	}
}

// absent counts the objects that are absent. It takes no lock: states are read as Get does.
func (s *WatchStore[T]) absent() (count int) {
	for e := range s.entries.all() {
		if state := e.state(); state.Synced && !state.Exists {
			count++
		}
	}
	return count
}

// Stats returns what the store has done so far.
func (s *DirectStore[T]) Stats() Stats {
	return Stats{Resource: s.resource.Path, StreamStats: s.counters.Stats(), Gets: s.gets.snapshot()}
}

// SumStats returns the sum of the stats of several stores, as if they were one, for a program that shows
// one series for stores that come and go. Its maps
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

// GetResult is how a Get, GetWithOptions or TryGet has ended.
type GetResult string

const (
	// GetHit: the object was in memory, and Get returned it at once.
	GetHit GetResult = "hit"
	// GetWaited: Get waited, and returned the object. Each Get of a DirectStore waits.
	GetWaited GetResult = "waited"
	// GetNotFound: the server has no such object, or cannot have it. Get may have waited.
	GetNotFound GetResult = "not_found"
	// GetNotRegistered: [ErrNotRegistered].
	GetNotRegistered GetResult = "not_registered"
	// GetCanceled: the context of Get ended before the state was known.
	GetCanceled GetResult = "canceled"
	// GetFailed: the server refused, or could not be reached, or the state was older than
	// demanded: [ErrNotSynced] before the context ended.
	GetFailed GetResult = "failed"
	// GetNotHeld: memory does not hold what TryGet was called for: its [ErrNotSynced].
	GetNotHeld GetResult = "not_held"
	// GetInvalid: the context or an option is invalid, the key has no name or the wrong scope, or the
	// store has been stopped.
	GetInvalid GetResult = "invalid"
)

// getResults are what getCounters count, each at its index.
var getResults = [...]GetResult{
	GetHit, GetNotFound, GetWaited, GetNotRegistered, GetCanceled, GetFailed, GetNotHeld, GetInvalid,
}

// getCounters count Gets by their results. Gets that memory answers take nanoseconds, on
// all cores. They have counters in stripes of a cache line each, and different goroutines
// mostly use different ones. The zero value is ready for use.
type getCounters struct {
	stripes [stripes]stripe
	others  [len(getResults)]atomic.Uint64
}

const (
	stripeBits = 6
	stripes    = 1 << stripeBits
	cacheLine  = 64
)

// stripe counts the Gets that memory answers. Its counters are on no cache line with
// those of other stripes, or with what stands before it.
type stripe struct {
	_ [cacheLine - 16]byte

	hits, notFound atomic.Uint64
}

// countAnswer counts a Get that memory has answered.
func (c *getCounters) countAnswer(exists bool) {
	if s := &c.stripes[stripeOfCaller()]; exists {
		s.hits.Add(1)
	} else {
		s.notFound.Add(1)
	}
}

// stripeOfCaller returns a number below stripes, which is mostly the same one for a
// goroutine, and another one for other goroutines: its stack has an address of its own.
// The number does not matter to the counts.
func stripeOfCaller() uint64 {
	const golden = 0x9E3779B97F4A7C15 // 2^64 divided by the golden ratio: Fibonacci hashing
	var onStack byte
	page := uint64(uintptr(unsafe.Pointer(&onStack))) >> 12
	return page * golden >> (64 - stripeBits)
}

// count counts a Get that memory has not answered at once, and returns its error. ctx is
// that of the call; waited says that Get has slept.
func (c *getCounters) count(ctx context.Context, err error, waited, try bool) error {
	result := resultOf(ctx, err, waited, try)
	for i := range getResults {
		if getResults[i] == result {
			c.others[i].Add(1)
		}
	}
	return err
}

// resultOf returns the result of a Get that has returned err.
func resultOf(ctx context.Context, err error, waited, try bool) GetResult {
	switch {
	case err == nil && waited:
		return GetWaited
	case err == nil:
		return GetHit
	case errors.Is(err, ErrNotRegistered):
		return GetNotRegistered
	case errors.Is(err, ErrNotSynced) && try:
		return GetNotHeld
	case errors.Is(err, ErrNotSynced) && ctx.Err() != nil:
		return GetCanceled
	case errors.Is(err, ErrNotSynced):
		return GetFailed
	case apierrors.IsNotFound(err):
		return GetNotFound
	}
	return GetInvalid
}

// snapshot returns the number of Gets for each result.
func (c *getCounters) snapshot() map[GetResult]uint64 {
	gets := make(map[GetResult]uint64, len(getResults))
	for i, result := range getResults {
		gets[result] = c.others[i].Load()
	}
	for i := range c.stripes {
		gets[GetHit] += c.stripes[i].hits.Load()
		gets[GetNotFound] += c.stripes[i].notFound.Load()
	}
	return gets
}
