// SPDX-License-Identifier: Apache-2.0

package reflector

import (
	"cmp"
	"context"
	"time"

	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/klog/v2"

	"github.com/refwatch/refwatch/internal/h2"
	"github.com/refwatch/refwatch/internal/reflector/histogram"
	"github.com/refwatch/refwatch/internal/reflector/internal/admission"
	"github.com/refwatch/refwatch/internal/reflector/internal/failure"
)

const (
	// defaultOpens is how many streams of one client may be opening at once at most. So many are used where the way to
	// the server is long: they take a client with 1.4 s of latency through 5,000 objects in ten seconds.
	defaultOpens = 4096
	// maxVerifications is how many silent streams of one resource are verified at a time.
	maxVerifications = 32
	// loggedAtOnce and loggedPerSecond bound the lines at level 0 of all reflectors of a gate: of each kind, 10 and one
	// more each minute. Each begin has an end, which is not bounded.
	loggedAtOnce    = 10
	loggedPerSecond = 1. / 60
)

// GateOptions are those of package objectcache.
type GateOptions struct {
	Name  string
	Opens int
}

// Gate decides which reflectors may open a stream now: see Gate of package objectcache. Make one with [NewGate].
type Gate struct {
	name      string
	admission *admission.Controller
	resources resources
	reads     consistentReads
	streams   openStreams
	workers   workers                        // of parked streams
	unparked  unparked                       // why others are not
	counters  h2.Counters                    // of connections
	failures  flowcontrol.PassiveRateLimiter // bounds the lines that are logged
	outages   outages

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
	g := &Gate{
		name:      options.Name,
		admission: admission.New(opens),
		streams:   newOpenStreams(min(opens, maxVerifications)),
		failures:  newLineLimiter(),
		outages:   outages{server: newLineLimiter(), resources: newLineLimiter(), levels: map[scope]int{}},

		shortStreams: shortStreams{lines: newLineLimiter()},
	}
	g.outages.ended.L = &g.outages.mu
	return g
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

// Connections returns what has become of the connections that watches of the gate have caused, and of their
// streams. Only connections whose streams can be parked count, for other clients tell nobody.
func (g *Gate) Connections() h2.Counts { return g.counters.Counts() }

// logFailure logs a failure: at level 0 a notable one, unless there were many; at level 2 the others. It reports
// whether it was at level 0. explain may be nil.
func (g *Gate) logFailure(ctx context.Context, name string, f failure.Failure, notable bool, explain func(error) error) bool {
	level, err := 2, f.Err
	if notable && g.failures.TryAccept() {
		level = 0
	}
	logger := klog.FromContext(ctx).V(level)
	if explain != nil && logger.Enabled() {
		err = explain(err)
	}
	logger.Info("Cannot read the object, will try again", "reflector", name, "class", f.Class, "err", err)
	return level == 0
}

// logPanic logs the panic of a notification, unless there were many failures; at level 2 all.
func (g *Gate) logPanic(ctx context.Context, name string, err error) {
	if logger := klog.FromContext(ctx); g.failures.TryAccept() || logger.V(2).Enabled() {
		logger.Error(err, "A notification of a change failed", "reflector", name)
	}
}
