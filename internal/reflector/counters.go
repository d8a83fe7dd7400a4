// SPDX-License-Identifier: Apache-2.0

package reflector

import (
	"sync/atomic"

	"k8s.io/apimachinery/pkg/watch"

	"github.com/refwatch/refwatch/internal/reflector/internal/course"
	"github.com/refwatch/refwatch/internal/reflector/internal/failure"
)

// OpenReason is why a reflector opens a stream.
type OpenReason string

const (
	// OpenFirst: the reflector has not asked for a stream before.
	OpenFirst OpenReason = "first"
	// OpenEnded: the last stream ended regularly, as each does after 30 to 60 minutes.
	OpenEnded OpenReason = "ended"
	// OpenFailed: the last attempt failed, or the last stream broke.
	OpenFailed OpenReason = "failed"
	// OpenExpired: the server no longer has, or does not have yet, the version that the
	// last attempt asked for (410, ResourceVersionTooLarge).
	OpenExpired OpenReason = "expired"
	// OpenRolledBack: the last stream was ended, because a reflector of the Gate has
	// proved that the server was rolled back.
	OpenRolledBack OpenReason = "rolled_back"
	// OpenDemanded: the last stream was ended, because a caller has demanded a newer
	// state ([Reflector.Refresh]).
	OpenDemanded OpenReason = "demanded"
)

// openReason is the index of an OpenReason in openReasons.
type openReason uint8

const (
	openFirst openReason = iota
	openEnded
	openFailed
	openExpired
	openRolledBack
	openDemanded
)

// ReadResult is how a read without a stream has ended.
type ReadResult string

const (
	// ReadSucceeded: the state is known, also that the object does not exist.
	ReadSucceeded ReadResult = "succeeded"
	// ReadFailed: the server has refused, failed or not answered.
	ReadFailed ReadResult = "failed"
)

// What Counters count, each at its index.
var (
	openReasons = [...]OpenReason{
		openFirst: OpenFirst, openEnded: OpenEnded, openFailed: OpenFailed,
		openExpired: OpenExpired, openRolledBack: OpenRolledBack, openDemanded: OpenDemanded,
	}
	eventTypes  = [...]watch.EventType{watch.Error, watch.Added, watch.Modified, watch.Deleted, watch.Bookmark}
	readResults = [...]ReadResult{ReadSucceeded, ReadFailed}
)

// Counters count what the reflectors and readers do that share them: see
// [Options].Counters. The zero value is ready for use. Counters must not be copied.
type Counters struct {
	openStreams   atomic.Int64
	parkedStreams atomic.Int64
	opens         [len(openReasons)]atomic.Uint64
	events        [len(eventTypes)]atomic.Uint64
	reads         [len(readResults)]atomic.Uint64
}

// StreamStats is what [Counters] have counted. The maps belong to the caller. They have
// all keys, and their values never decrease.
type StreamStats struct {
	// OpenStreams is how many streams are open. ParkedStreams is how many of them are
	// parked: no goroutine belongs to them.
	OpenStreams, ParkedStreams int
	// Opens is how often a stream was asked for, for each reason. Attempts that failed
	// are among them.
	Opens map[OpenReason]uint64
	// Events is how many events the streams have delivered, for each type, initial
	// events included. One that cannot be decoded counts as an ERROR.
	Events map[watch.EventType]uint64
	// Reads is how many reads without a stream have ended, for each result. Reads that
	// were canceled are not among them.
	Reads map[ReadResult]uint64
}

// Stats returns what was counted so far.
func (c *Counters) Stats() StreamStats {
	return StreamStats{
		OpenStreams:   int(c.openStreams.Load()),
		ParkedStreams: int(c.parkedStreams.Load()),
		Opens:         byKey(openReasons[:], c.opens[:]),
		Events:        byKey(eventTypes[:], c.events[:]),
		Reads:         byKey(readResults[:], c.reads[:]),
	}
}

func byKey[K comparable](keys []K, counters []atomic.Uint64) map[K]uint64 {
	values := make(map[K]uint64, len(keys))
	for i, key := range keys {
		values[key] = counters[i].Load()
	}
	return values
}

func (c *Counters) countOpen(reason openReason) { c.opens[reason].Add(1) }

// countEvent counts an event. Types that no server sends are errors.
func (c *Counters) countEvent(kind watch.EventType) {
	for i := range eventTypes {
		if eventTypes[i] == kind {
			c.events[i].Add(1)
			return
		}
	}
	c.events[0].Add(1)
}

// CountRead counts a read without a stream that has ended with err, nil if the state is
// known. Reflectors and readers count their own.
func (c *Counters) CountRead(err error) {
	if err == nil {
		c.reads[0].Add(1)
	} else {
		c.reads[1].Add(1)
	}
}

// openReasonAfter returns why another session must follow one that has ended.
func openReasonAfter(end course.End) openReason {
	switch class := end.Failure.Class; {
	case end.IsLast():
		return openFirst
	case end.Reason == course.Restored:
		return openRolledBack
	case end.Reason == course.Demanded:
		return openDemanded
	case class == failure.Expired, class == failure.TooLarge:
		return openExpired
	case class != failure.None:
		return openFailed
	}
	return openEnded
}
