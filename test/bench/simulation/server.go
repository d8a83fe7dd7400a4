// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"context"
	"io"
	"math"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/util/flowcontrol"
	"k8s.io/apiserver/pkg/util/flowcontrol/fairqueuing"
	"k8s.io/apiserver/pkg/util/flowcontrol/fairqueuing/eventclock"
	"k8s.io/apiserver/pkg/util/flowcontrol/fairqueuing/queueset"
	"k8s.io/apiserver/pkg/util/flowcontrol/metrics"
	"k8s.io/apiserver/pkg/util/flowcontrol/request"
)

// ServerOptions is the capacity of a server. [Server2Cores] is a measured one.
type ServerOptions struct {
	// OpensPerSecond is how many streams the server can open.
	OpensPerSecond int
	// Seats is how many opens it executes at a time. Queues, HandSize and QueueLength are those of a priority level
	// (kubernetes.io/docs/concepts/cluster-administration/flow-control).
	Seats, Queues, HandSize, QueueLength int
	// CacheDelay is the time from a start until the watch cache is ready.
	CacheDelay time.Duration
}

// Server2Cores is kube-apiserver on two cores. Seats are those of the level "system": 30 of 245 shares of 600 requests
// in flight. Queues and hands are those of Kubernetes' suggested configuration.
var Server2Cores = ServerOptions{
	OpensPerSecond: 2400, Seats: 74, Queues: 64, HandSize: 6, QueueLength: 50, CacheDelay: 3 * time.Second,
}

// times returns a server with n times the capacity.
func (o ServerOptions) times(n float64) ServerOptions {
	scale := func(value int) int { return max(1, int(n*float64(value)+0.5)) }
	waiting := scale(o.Queues * o.QueueLength)
	o.OpensPerSecond, o.Seats = scale(o.OpensPerSecond), scale(o.Seats)
	if n < 1 {
		o.Queues = max(o.HandSize, o.Queues/4) // queues of a few places each would be unfair
	}
	o.QueueLength = max(1, waiting/o.Queues)
	return o
}

// queues returns empty queues of kube-apiserver's priority and fairness.
func (o ServerOptions) queues() fairqueuing.QueueSet {
	unread := metrics.PriorityLevelExecutionSeatsGaugeVec.NewForLabelValuesSafe(0, 1, []string{""})
	set, err := queueset.NewQueueSetFactory(eventclock.Real{}).BeginConstruction(
		fairqueuing.QueuingConfig{DesiredNumQueues: o.Queues, HandSize: o.HandSize, QueueLengthLimit: o.QueueLength},
		metrics.RatioedGaugePair{RequestsWaiting: unread, RequestsExecuting: unread}, unread, unread)
	if err != nil {
		panic(err) // a hand larger than the deck, say
	}
	return set.Complete(fairqueuing.DispatchingConfig{ConcurrencyLimit: o.Seats, ConcurrencyDenominator: o.Seats})
}

// queueWait is how long an open may wait for a seat: a quarter of the server's request timeout of a minute.
const queueWait = 15 * time.Second

// server is a model of kube-apiserver, from a start until it stops.
type server struct {
	cluster *cluster
	life    context.Context // ends when the server stops
	stop    context.CancelFunc
	started time.Time
	ready   time.Time // when the watch cache is
	queues  fairqueuing.QueueSet
	dropped flowcontrol.DroppedRequestsTracker
	busy    time.Time // until then; guarded by cluster.mu
}

func newServer(c *cluster, cacheDelay time.Duration) *server {
	s := &server{
		cluster: c, started: time.Now(), ready: time.Now().Add(cacheDelay),
		queues: c.options.queues(), dropped: flowcontrol.NewDroppedRequestsTracker(),
	}
	s.life, s.stop = context.WithCancel(context.Background())
	return s
}

// bind returns a context that ends with ctx, and with io.ErrUnexpectedEOF when the server stops.
func (s *server) bind(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	unbind := context.AfterFunc(s.life, func() { cancel(io.ErrUnexpectedEOF) })
	return ctx, func() {
		unbind()
		cancel(nil)
	}
}

// open opens a stream for a client. ctx is bound to the server.
func (s *server) open(ctx context.Context, client uint64) error {
	waiting, cancel := context.WithTimeout(ctx, queueWait)
	defer cancel()
	oneSeat := &request.WorkEstimate{InitialSeats: 1}
	open, _ := s.queues.StartRequest(waiting, oneSeat, client, "", "", nil, nil, nil)
	if open == nil {
		return s.throttle()
	}
	executed, err := false, error(nil)
	open.Finish(func() { executed, err = true, s.execute(ctx) })
	switch {
	case executed:
		return err
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	return s.throttle()
}

func (s *server) throttle() error {
	s.cluster.count(func(o *Outcome) { o.Throttled++ })
	s.dropped.RecordDroppedRequest("")
	return apierrors.NewTooManyRequests("too many requests", int(s.dropped.GetRetryAfter("")))
}

// execute returns when the server has opened the stream. It opens one after another.
func (s *server) execute(ctx context.Context) error {
	now := time.Now()
	if now.Before(s.ready) {
		s.cluster.count(func(o *Outcome) { o.Throttled++ })
		return apierrors.NewTooManyRequests("storage is (re)initializing", unreadyRetryAfter(now.Sub(s.started)))
	}
	var work time.Duration
	s.cluster.count(func(*Outcome) {
		work = max(0, s.busy.Sub(now)) + time.Second/time.Duration(s.cluster.options.OpensPerSecond)
		s.busy = now.Add(work)
	})
	return pause(ctx, work)
}

// unreadyRetryAfter returns kube-apiserver's Retry-After in seconds while its watch cache is not ready.
func unreadyRetryAfter(downtime time.Duration) int {
	return int(min(30, max(1, math.Exp(0.06*downtime.Seconds()))))
}

// pause waits for a time, or returns the cause of ctx's end.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
