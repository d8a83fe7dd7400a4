// SPDX-License-Identifier: Apache-2.0

package reflector

import (
	"cmp"
	"context"
	"time"

	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/klog/v2"

	"github.com/refwatch/refwatch/internal/h2"
	"github.com/refwatch/refwatch/reflector/histogram"
	"github.com/refwatch/refwatch/reflector/internal/admission"
	"github.com/refwatch/refwatch/reflector/internal/failure"
	"github.com/refwatch/refwatch/reflector/internal/watchlist"
)

const (
	// defaultOpens is how many streams of one client may be opening at once at most. So many take a client with 1.4 s
	// of latency through 5,000 objects in half a minute. They need a few HTTP/2 connections.
	defaultOpens = 256
	// maxVerifications is how many silent streams of one resource are verified at a time.
	maxVerifications = 32
	// loggedAtOnce and loggedPerSecond bound the lines at level 0 of all reflectors of a gate: of each kind, 10 and one
	// more each minute. Each begin has an end, which is not bounded.
	loggedAtOnce    = 10
	loggedPerSecond = 1. / 60
)

// GateOptions configures a [Gate]. The zero value is valid.
type GateOptions struct {
	// Name is what package metrics calls the Gate, such as the name of the cluster. Gates of
	// one Collector need different names. Default: "", the names of the stores.
	Name string
	// Opens is the highest number of streams of healthy reflectors that may be opening
	// at once, of all resources together: asked for, but not yet synced. Below it the Gate
	// finds the number that suits the server. It goes above 32 only while the latency stays
	// near its minimum. So there is hardly a reason to set it. An opening that takes much
	// longer than usual (0.25 to 5 s) is not counted any more. One resource leaves up to 8
	// places to others that have reflectors. Failing reflectors have 8 more. The GETs beside
	// first reads (see WatchStore.Get of package objectcache) are not counted: a store has 4
	// at most. Default, also for a negative number: 256.
	Opens int
}

// Gate decides which reflectors may open a stream now, and shares among them what
// one of them has learned about the server. All reflectors that reach one server as one
// user share one Gate, so that neither a start with ten thousand references nor
// the return of the server causes a storm of requests.
//
// Healthy reflectors wait for healthy ones only:
//
//   - A Gate opens a bounded number of streams at a time. For each resource the number
//     begins with four, grows by one with each success, and returns to one after a 429.
//     Above 32 it grows only while the latency is near its minimum, and shrinks when
//     the latency has doubled.
//     An opening that takes much longer than usual (0.25 to 5 s) is not counted any
//     more, and the next one may begin.
//   - Up to 20 healthy reflectors a second that come one by one, for each resource, make
//     their attempt at once, whatever others fail with. This ends when 128 such attempts
//     in a row have failed and no other reflector has succeeded.
//   - A Gate prefers, by weight, reflectors that a caller waits for
//     ([Reflector.Expedite]): they get half of the openings. The preference holds for one
//     attempt each.
//   - Failing reflectors queue apart from healthy ones. Together they make at most 20
//     attempts a second, and 160 more while callers wait for them. Each pauses between its
//     attempts: 0.1 s at first, 15 s later, 1.1 to 1.6 s while a caller waits, and
//     never less than the server's Retry-After, up to a minute.
//
// An outage of the server holds up all reflectors, and costs the server little:
//
//   - The server is away when several reflectors that have synced before get no answer any
//     more. Before the server has answered anybody, those that never synced count, too.
//     Several are four, one more for each 64 reflectors, 16 at most; of fewer than four, all.
//     The Gate then sends one probe at a time, 0.25 to 5 s apart. When a probe is answered,
//     all others follow.
//   - The same holds for one resource whose requests fail (5xx, 429, 401). If two resources
//     get a 401, or there is only one, the token is not valid, and all wait.
//   - If the Gate has one reflector only, two failures of it in a row are an outage, if they
//     are a 5xx or no answer.
//   - When one reflector finds that the server was rolled back (an etcd restore), all
//     others begin with a consistent read.
//   - A consistent read by a WatchList serves all reflectors of the same resource that
//     needed one before it began: they ask for a state that is not older than its version,
//     which the server has in memory. So 5,000 of them wait for a few progress
//     notifications of a busy etcd, and not for one each.
//   - When the server refuses a WatchList of one reflector as such, or when WatchLists
//     break or fail, all reflectors of the same resource list and watch for a time.
//   - The Gate logs when an outage begins and ends: at level 0, unless there are many.
//   - A Gate verifies streams that have been silent for too long; see [Reflector].
//
// A Gate handles the events of parked streams that are not handled where they arrive
// (Options.Prompt), on a few goroutines that exist while there are events and some seconds
// after. Otherwise it has no goroutine. Make one with [NewGate].
type Gate struct {
	name       string
	admission  *admission.Controller
	watchLists watchlist.Server
	reads      consistentReads
	streams    openStreams
	workers    workers                        // of parked streams
	unparked   unparked                       // why others are not
	counters   h2.Counters                    // of connections
	failures   flowcontrol.PassiveRateLimiter // bounds the lines that are logged
	outages    outages

	shortStreams shortStreams
}

// GateStatus is the state of a [Gate] at one moment.
type GateStatus struct {
	// Opening is how many streams are being opened. Queued is how many reflectors
	// wait for others, Paused how many pause after a failure or the end of a stream.
	Opening, Queued, Paused int
	// Window is how many streams of healthy reflectors may be opening at once now, of
	// all resources that have reflectors: see [Gate]. In an outage it is 1, the probe.
	Window int
	// Waits is how long attempts were queued until they began.
	Waits histogram.Snapshot
	// Cause is why no reflector can reach the server, or a resource; nil if they can.
	Cause error
	// CauseTime is when that was last seen.
	CauseTime time.Time
	// OutageSince is when the Gate noticed the outage that has this Cause; zero if Cause is nil.
	// It begins again after an answer that is another failure.
	OutageSince time.Time
	// NotParked is why the last stream that could not be parked has a goroutine: its
	// client, or the server, is not one whose streams can be parked. Nil if there was no
	// such stream. That stream may have ended.
	NotParked error
}

// NewGate returns a gate that no reflector uses yet.
func NewGate(options GateOptions) *Gate {
	opens := cmp.Or(max(0, options.Opens), defaultOpens)
	return &Gate{
		name:      options.Name,
		admission: admission.New(opens),
		streams:   newOpenStreams(min(opens, maxVerifications)),
		failures:  newLineLimiter(),
		outages:   newOutages(),

		shortStreams: shortStreams{lines: newLineLimiter()},
	}
}

// Name returns the name from the options.
func (g *Gate) Name() string { return g.name }

// Status returns the state of the gate.
func (g *Gate) Status() GateStatus {
	s := g.admission.Status()
	return GateStatus{
		Opening: s.Opening, Queued: s.Queued, Paused: s.Paused, Window: s.Window, Waits: s.Waits,
		Cause: s.Cause, CauseTime: s.CauseTime, OutageSince: s.Since, NotParked: g.unparked.last(),
	}
}

// ConnectionCounts are what has become of connections, and of their streams. Each map has all its keys. The counts are
// of connections whose streams can be parked, for other clients tell nobody.
type ConnectionCounts struct {
	// Resets counts the RST_STREAM frames of servers that have ended a stream, by their code as RFC 9113 writes it,
	// such as "INTERNAL_ERROR", or "other".
	Resets map[string]uint64
	// GoAways counts the GOAWAY frames of servers, by code.
	GoAways map[string]uint64
	// Left counts the connections that take no new streams any more, by reason: docs/metrics.md says what each means.
	Left map[string]uint64
}

// Connections returns what has become of the connections that watches of the gate have caused.
func (g *Gate) Connections() ConnectionCounts { return ConnectionCounts(g.counters.Counts()) }

// logFailure logs a failure: at level 0 a notable one, unless there were many; at level 2 the others. It reports
// whether it was at level 0. explain may be nil.
func (g *Gate) logFailure(ctx context.Context, name string, class failure.Class, notable bool, err error, explain func(error) error) bool {
	level := 2
	if notable && g.failures.TryAccept() {
		level = 0
	}
	logger := klog.FromContext(ctx).V(level)
	if explain != nil && logger.Enabled() {
		err = explain(err)
	}
	logger.Info("Cannot read the object, will try again", "reflector", name, "class", class, "err", err)
	return level == 0
}

// logPanic logs the panic of a notification, unless there were many failures; at level 2 all.
func (g *Gate) logPanic(ctx context.Context, name string, err error) {
	if logger := klog.FromContext(ctx); g.failures.TryAccept() || logger.V(2).Enabled() {
		logger.Error(err, "A notification of a change failed", "reflector", name)
	}
}
