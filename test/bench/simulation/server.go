// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"context"
	"io"
	"math"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/util/flowcontrol"
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

// Server2Cores is kube-apiserver on two cores. Seats are those of the level "system": 30 of 245 shares of 600 requests in
// flight. Queues and hands are those of Kubernetes' suggested configuration.
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

// queueWait is how long an open may wait for a seat: a quarter of the server's request timeout of a minute.
const queueWait = 15 * time.Second

// server is a model of one kube-apiserver.
type server struct {
	options ServerOptions

	mu        sync.Mutex
	down      chan struct{} // closed by stop; nil while the server is down
	started   time.Time
	ready     time.Time // when the watch cache is
	busyUntil time.Time
	executing int
	waiting   int
	queues    [][]*waiter
	next      int // queue to dispatch from
	streams   int
	dropped   flowcontrol.DroppedRequestsTracker
	meter     serverMeter
}

// serverMeter counts since the last reset.
type serverMeter struct {
	arrived   perSecond
	throttled int
	most      int // executing and waiting
}

// perSecond counts events.
type perSecond struct {
	second int64
	count  int
	most   int // in a second
}

func (p *perSecond) add() {
	if second := time.Now().Unix(); second != p.second {
		p.second, p.count = second, 0
	}
	p.count++
	p.most = max(p.most, p.count)
}

// waiter is an open in a queue.
type waiter struct {
	seat chan struct{} // closed when it has one
	gone bool
}

func newServer(options ServerOptions) *server {
	s := &server{options: options}
	s.start(0)
	return s
}

// start starts the server. Its watch cache is ready after a delay.
func (s *server) start(cacheDelay time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down, s.started = make(chan struct{}), time.Now()
	s.ready, s.busyUntil = s.started.Add(cacheDelay), s.started
	s.executing, s.waiting, s.streams = 0, 0, 0
	s.queues = make([][]*waiter, s.options.Queues)
	s.dropped = flowcontrol.NewDroppedRequestsTracker()
}

// stop ends all streams and waiting opens. It returns how many streams there were.
func (s *server) stop() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.down)
	s.down = nil
	return s.streams
}

// life returns the channel that stop closes, or nil while the server is down.
func (s *server) life() chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.down
}

// hold adds to the streams of a life.
func (s *server) hold(life chan struct{}, streams int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down == life {
		s.streams += streams
	}
}

// open opens a stream in a life of the server. hand are the queues of the client.
func (s *server) open(ctx context.Context, life chan struct{}, hand []int) error {
	w, err := s.enter(life, hand)
	if err != nil {
		return err
	}
	limit := time.NewTimer(queueWait)
	defer limit.Stop()
	select {
	case <-w.seat:
	case <-life:
		return io.ErrUnexpectedEOF
	case <-ctx.Done():
		return s.leave(w, life, ctx.Err())
	case <-limit.C:
		return s.leave(w, life, nil)
	}
	defer s.release(life)
	done, err := s.work()
	if err != nil {
		return err
	}
	return pause(ctx, life, time.Until(done))
}

// enter gives an open a seat or a place in the shortest queue of its hand.
func (s *server) enter(life chan struct{}, hand []int) (*waiter, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down != life {
		return nil, io.ErrUnexpectedEOF
	}
	s.meter.arrived.add()
	w := &waiter{seat: make(chan struct{})}
	if s.executing < s.options.Seats {
		s.executing++
		close(w.seat)
	} else {
		shortest := hand[0]
		for _, q := range hand {
			if len(s.queues[q]) < len(s.queues[shortest]) {
				shortest = q
			}
		}
		if len(s.queues[shortest]) >= s.options.QueueLength {
			return nil, s.throttleLocked()
		}
		s.queues[shortest] = append(s.queues[shortest], w)
		s.waiting++
	}
	s.meter.most = max(s.meter.most, s.executing+s.waiting)
	return w, nil
}

func (s *server) throttleLocked() error {
	s.meter.throttled++
	s.dropped.RecordDroppedRequest("")
	return apierrors.NewTooManyRequests("too many requests", int(s.dropped.GetRetryAfter("")))
}

// leave gives up a place in a queue, or the seat that came meanwhile. With a nil err the server has decided so.
func (s *server) leave(w *waiter, life chan struct{}, err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down == life {
		select {
		case <-w.seat:
			s.executing--
			s.dispatchLocked()
		default:
			w.gone = true
			s.waiting--
		}
	}
	if err == nil {
		return s.throttleLocked()
	}
	return err
}

// work returns when the open that has just begun will be done.
func (s *server) work() (time.Time, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if now.Before(s.ready) {
		s.meter.throttled++
		return now, apierrors.NewTooManyRequests("storage is (re)initializing", unreadyRetryAfter(now.Sub(s.started)))
	}
	if s.busyUntil.Before(now) {
		s.busyUntil = now
	}
	s.busyUntil = s.busyUntil.Add(time.Second / time.Duration(s.options.OpensPerSecond))
	return s.busyUntil, nil
}

// release gives a seat to the next waiter.
func (s *server) release(life chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down == life {
		s.executing--
		s.dispatchLocked()
	}
}

// dispatchLocked takes a waiter from the queues, round robin.
func (s *server) dispatchLocked() {
	for range len(s.queues) {
		queue := &s.queues[s.next]
		s.next = (s.next + 1) % len(s.queues)
		for len(*queue) > 0 {
			w := (*queue)[0]
			*queue = (*queue)[1:]
			if !w.gone {
				s.waiting--
				s.executing++
				close(w.seat)
				return
			}
		}
	}
}

// unreadyRetryAfter returns kube-apiserver's Retry-After in seconds while its watch cache is not ready.
func unreadyRetryAfter(downtime time.Duration) int {
	return int(min(30, max(1, math.Exp(0.06*downtime.Seconds()))))
}

// reset returns the counts and begins new ones.
func (s *server) reset() serverMeter {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.meter
	s.meter = serverMeter{}
	return m
}
