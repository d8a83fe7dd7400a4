// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"context"
	"io"
	"math"
	"math/rand/v2"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// ServerOptions says what a server can bear. [Server2Cores] is a measured one.
type ServerOptions struct {
	// OpensPerSecond is how many streams it can open.
	OpensPerSecond int
	// Seats is how many opens it works on at once. Queues, HandSize and
	// QueueLength are those of a priority level
	// (kubernetes.io/docs/concepts/cluster-administration/flow-control).
	Seats, Queues, HandSize, QueueLength int
	// CacheDelay is how long after its start the watch cache is not ready.
	CacheDelay time.Duration
}

// Server2Cores is kube-apiserver on two cores, as a node's requests see it.
var Server2Cores = ServerOptions{
	OpensPerSecond: 2400,
	// The level "system": 30 of 245 shares of 600 requests in flight. Queues
	// and hands are those of Kubernetes' suggested configuration.
	Seats: 74, Queues: 64, HandSize: 6, QueueLength: 50,
	CacheDelay: 3 * time.Second,
}

// times is a server with so many times as much of everything.
func (o ServerOptions) times(n float64) ServerOptions {
	scale := func(value int) int { return max(1, int(n*float64(value)+0.5)) }
	waiting := scale(o.Queues * o.QueueLength)
	o.OpensPerSecond, o.Seats = scale(o.OpensPerSecond), scale(o.Seats)
	if n < 1 {
		// Queues of a few places each would be unfair to a hand.
		o.Queues = max(o.HandSize, o.Queues/4)
	}
	o.QueueLength = max(1, waiting/o.Queues)
	return o
}

// queueWait is how long an open may wait for a seat: a quarter of the server's
// request timeout of a minute.
const queueWait = 15 * time.Second

// server is a model of one kube-apiserver.
type server struct {
	options ServerOptions

	mu        sync.Mutex
	up        bool
	down      chan struct{} // closed when this life of it ends
	ready     time.Time     // when its watch cache is
	started   time.Time
	busyUntil time.Time
	executing int
	waiting   int
	queues    [][]*waiter
	next      int // queue to be served
	streams   int
	dropped   retryAfter
	meter     serverMeter
}

// serverMeter is what a server has seen.
type serverMeter struct {
	arrived   map[int64]int // by second
	throttled int
	most      int // executing and waiting
}

// waiter is an open in a queue.
type waiter struct {
	seat  chan struct{} // closed when it has one
	queue int
	gone  bool
}

func newServer(options ServerOptions) *server {
	s := &server{options: options}
	s.start(0)
	return s
}

// start brings the server up. Its watch cache is ready after a delay.
func (s *server) start(cacheDelay time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.up, s.down = true, make(chan struct{})
	s.started = time.Now()
	s.ready = s.started.Add(cacheDelay)
	s.busyUntil, s.executing, s.waiting, s.streams = s.started, 0, 0, 0
	s.queues = make([][]*waiter, s.options.Queues)
	s.dropped = retryAfter{seconds: 1}
}

// stop takes the server away, with all streams and waiting opens. It returns how
// many streams there were.
func (s *server) stop() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.up = false
	close(s.down)
	return s.streams
}

// hold counts a stream in, or out.
func (s *server) hold(down chan struct{}, streams int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down == down {
		s.streams += streams
	}
}

// life returns the channel that is closed when the server goes, nil when it has.
func (s *server) life() chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.up {
		return nil
	}
	return s.down
}

// open admits a stream of the life that ends with down. hand are the queues of
// the one who asks.
func (s *server) open(ctx context.Context, down chan struct{}, hand []int) error {
	w, err := s.enter(down, hand)
	if err != nil {
		return err
	}
	limit := time.NewTimer(queueWait)
	defer limit.Stop()
	select {
	case <-w.seat:
	case <-down:
		return io.ErrUnexpectedEOF
	case <-ctx.Done():
		return s.leave(w, down, ctx.Err())
	case <-limit.C:
		return s.leave(w, down, nil)
	}
	defer s.release(down)
	done, err := s.work()
	if err != nil {
		return err
	}
	return pause(ctx, down, time.Until(done))
}

// enter gives an open a seat or a place in a queue.
func (s *server) enter(down chan struct{}, hand []int) (*waiter, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.up || s.down != down {
		return nil, io.ErrUnexpectedEOF
	}
	s.meter.arrive()
	w := &waiter{seat: make(chan struct{})}
	if s.executing < s.options.Seats {
		s.executing++
		close(w.seat)
		s.meter.most = max(s.meter.most, s.executing+s.waiting)
		return w, nil
	}
	w.queue = hand[0]
	for _, q := range hand {
		if len(s.queues[q]) < len(s.queues[w.queue]) {
			w.queue = q
		}
	}
	if len(s.queues[w.queue]) >= s.options.QueueLength {
		return nil, s.throttleLocked()
	}
	s.queues[w.queue] = append(s.queues[w.queue], w)
	s.waiting++
	s.meter.most = max(s.meter.most, s.executing+s.waiting)
	return w, nil
}

func (s *server) throttleLocked() error {
	s.meter.throttled++
	return apierrors.NewTooManyRequests("too many requests", s.dropped.drop(time.Now()))
}

// leave gives up a place in a queue, or the seat that came meanwhile. A nil err
// is the server's own decision.
func (s *server) leave(w *waiter, down chan struct{}, err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down == down && s.up {
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

// work returns when the open under way will be done.
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

// release gives a seat to the next that waits.
func (s *server) release(down chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down != down || !s.up {
		return
	}
	s.executing--
	s.dispatchLocked()
}

// dispatchLocked serves the queues in turn.
func (s *server) dispatchLocked() {
	for range len(s.queues) {
		queue := &s.queues[s.next]
		s.next = (s.next + 1) % len(s.queues)
		for len(*queue) > 0 {
			w := (*queue)[0]
			*queue = (*queue)[1:]
			if w.gone {
				continue
			}
			s.waiting--
			s.executing++
			close(w.seat)
			return
		}
	}
}

// unreadyRetryAfter is what kube-apiserver says while its watch cache is not
// ready, in seconds.
func unreadyRetryAfter(downtime time.Duration) int {
	return int(min(30, max(1, math.Exp(0.06*downtime.Seconds()))))
}

// deal returns a hand of queues.
func deal(options ServerOptions) []int {
	return rand.Perm(options.Queues)[:options.HandSize]
}

func (m *serverMeter) arrive() {
	if m.arrived == nil {
		m.arrived = map[int64]int{}
	}
	m.arrived[time.Now().Unix()]++
}

// take returns what was seen since the last take.
func (s *server) take() serverMeter {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.meter
	s.meter = serverMeter{}
	return m
}
