// SPDX-License-Identifier: Apache-2.0

package objectcache

import "github.com/refwatch/refwatch/internal/reflector"

// GateOptions configures a [Gate]. The zero value is valid.
type GateOptions struct {
	// Name is what package metrics calls the Gate, such as the name of the cluster. Gates of
	// one Collector need different names. Default: "", the names of the stores.
	Name string
	// Opens is the highest number of streams of healthy reflectors that may be opening
	// at once, of all resources together: asked for, but not yet synced. Below it the Gate
	// finds the number that suits the server: it begins with 16, and goes above 32 only while
	// the latency stays near its minimum, as that of a server far away does. So there is hardly
	// a reason to set it. An opening that takes much longer than usual is not counted any more.
	// One resource leaves up to 8 places to others that have reflectors. Failing reflectors have
	// 20 more, whatever Opens is. The GETs beside first reads (see [WatchStore.Get]) are not
	// counted: a store has 4 at most. Default, also for a negative number: 4,096.
	Opens int
}

// Gate decides which objects, and which other selections, may have a stream opened now. Each is followed by
// a reflector, and the Gate shares among all of them what one has learned about the server. All that reach
// one server as one user share one Gate, so that neither a start with ten thousand references nor the return
// of the server causes a storm of requests.
//
// Healthy reflectors wait for healthy ones only. A Gate opens a bounded number of streams at a time, which follows the
// answers: fewer after a 429, more while the latency stays near its minimum. It prefers reflectors that a caller waits
// for: they get half of the openings. A few healthy reflectors that come one by one open at once, whatever others fail
// with. Failing reflectors queue apart. Together they make at most 20 attempts a second, and 160 more while callers
// wait for them. Each pauses between its attempts: 0.1 s at first, 15 s later, 1.1 to 1.6 s while a caller waits, and
// never less than the server's Retry-After, up to a minute.
//
// An outage of the server, or of one resource (5xx, 429, 401), holds up its reflectors, and costs the server one
// request at a time, 0.25 to 5 s apart. When one is answered, all others follow. The Gate logs when an outage begins
// and ends: at level 0, unless there are many. docs/design/0004-admission.md has the reasons for these rules.
//
// What one reflector proves about the server, all know:
//
//   - When one reflector proves that etcd was restored from a backup, all others with a
//     stream read again, once in 5 minutes at most.
//   - A consistent read by a WatchList serves all reflectors of the same resource that
//     needed one before it began: they ask for a state that is not older than its version,
//     which the server has in memory. So 5,000 of them wait for a few progress
//     notifications of a busy etcd, and not for one each.
//   - When the server refuses a WatchList of one reflector as such, or when WatchLists
//     break or fail, all reflectors of the same resource list and watch for a time.
//   - A Gate verifies streams that have been silent for too long.
//
// A Gate has a few goroutines for the events of parked streams that take long to decode. They end some seconds
// after the last event. Otherwise it has no goroutine. Make one with [NewGate]. Stores ([WatchOptions].Gate) and
// reflectors (Gate of reflector.Options) share it.
//
// Its methods are Name, Connections, which counts what became of the connections of watches, and Status. That has
// Opening, Queued, Paused and Window (how many streams are being opened, wait for others, pause, and may be opening at
// once), Waits (how long attempts were queued), Cause, CauseTime and OutageSince of an outage, and NotParked, why the
// last stream that could not be parked has a goroutine.
type Gate = reflector.Gate

// NewGate returns a gate that nothing uses yet.
func NewGate(options GateOptions) *Gate { return reflector.NewGate(reflector.GateOptions(options)) }
