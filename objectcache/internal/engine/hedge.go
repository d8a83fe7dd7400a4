// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"maps"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// A hedged read is a GET of an object beside the request that opens its stream. It begins
// while a Get waits for the first state, and whichever of the two is answered first answers
// the Get. The opening of a stream is a consistent read of a collection: if anything was
// written since etcd's last progress notification, kube-apiserver waits for the next one, up
// to 0.1 s. A GET reads one key of etcd and waits for nothing. A request may also hang.
//
// testdata/hedge.txt shows the rules.

const (
	// hedgeDelay is how long a Get waits before a hedged read begins. An opening takes less
	// on a quiet server nearby.
	hedgeDelay = 3 * time.Millisecond
	// hedgeAlone is how many Gets may wait in a store for that: the openings for many
	// overlap, and share one consistent read. While openings hang, there is no such limit.
	hedgeAlone = 4
	// hedgeCheck is how often a Get looks whether openings hang.
	hedgeCheck = time.Second
	// hedgesAtOnce is how many hedged reads of a store may be under way, and 1 before the server's
	// first answer. Others are queued.
	hedgesAtOnce = 4
	// hedgeSpacing is the shortest time between two hedged reads of one object, unless the first one
	// brings the object. Then that is DemandSpacing. It is also how long one may take, or four round
	// trips if that is longer, or firstHedge before the server's first answer.
	hedgeSpacing, firstHedge = 3 * time.Second, 6 * time.Second
	// hedgeFar is the round trip from which on a hedged read begins only if the opening hangs: it
	// could not gain as much.
	hedgeFar = 300 * time.Millisecond
	// hedgePause is how long a store begins no hedged read after one that failed. A
	// Retry-After is honored up to hedgePauseMost.
	hedgePause, hedgePauseMost = time.Second, time.Minute
	// hedgeRefused is how long there are none in a namespace in which one was refused.
	hedgeRefused = time.Hour
)

// Hedges decides on the hedged reads of a store, whose watches are of the type W. It has no lock,
// and sends nothing. Its times are those since the store was made.
type Hedges[W any] struct {
	underWay int
	canceled int                      // in a row: their last reference has gone
	queue    []queuedHedge[W]         // the oldest first
	hung     time.Duration            // when a Get last saw that an opening hangs
	paused   time.Duration            // until when none begins
	refused  map[string]time.Duration // until when none begins in a namespace

	roundTrip time.Duration // the last known one, 0 for none
}

type queuedHedge[W any] struct {
	watch W
	hedge *Hedge
}

// Hedge is what is known of the hedged reads of one watch.
type Hedge struct {
	queued   bool          // one waits until it may begin
	UnderWay bool          // up to the end of the function of WithTransform
	Brought  bool          // one has brought the state since the stream last did
	refused  bool          // the server has refused one, and has not answered the stream
	next     time.Duration // when the next one may begin
}

// HedgeWait is a Get that waits, and what it knows.
type HedgeWait struct {
	Began     time.Duration
	Namespace string
	Waiting   int  // Gets in the store
	Known     bool // a stream has brought the state
	Getting   bool // the opening is a GET
	Barred    bool // the server is away, has refused the object, or has asked for a pause
	Answered  bool // a part of the answer to the opening has arrived
	Failed    bool // the last opening has failed
	Hung      bool // the opening has no answer
	RoundTrip time.Duration
}

// Ask queues a hedged read if one is due for a Get of the object of a watch. It returns after how
// long the Get has to ask again, negative for never.
func (s *Hedges[W]) Ask(watch W, h *Hedge, g HedgeWait, now time.Duration) (again time.Duration) {
	s.roundTrip = g.RoundTrip
	switch {
	case g.Barred, h.refused, g.Known:
		return -1
	case g.Answered:
		return hedgeCheck // a GET would take as long, and would wait for the function of WithTransform
	}
	if g.Hung {
		s.hung = now
	}
	// It hangs, or is queued behind those that do.
	hung := g.Hung || s.hung > 0 && now-s.hung < hedgeCheck && now-g.Began >= hedgeCheck
	if h.queued || h.UnderWay || g.Getting && !g.Hung || !hung && (g.Failed || g.Waiting > hedgeAlone || g.RoundTrip >= hedgeFar) {
		return hedgeCheck
	}
	if due := max(g.Began+hedgeDelay, h.next, s.paused, s.refused[g.Namespace]); due > now {
		return due - now
	}
	h.queued = true
	s.queue = append(s.queue, queuedHedge[W]{watch, h})
	return hedgeCheck // nothing wakes the Get if it is dropped from the queue
}

// Begin returns the next watch whose hedged read begins now. It drops those that are not needed.
func (s *Hedges[W]) Begin(needed func(W) bool, now time.Duration) (watch W, ok bool) {
	for len(s.queue) > 0 && s.underWay < s.atOnce() {
		next := s.queue[0]
		s.drop(1)
		if !needed(next.watch) {
			continue
		}
		next.hedge.next, next.hedge.UnderWay = now+hedgeSpacing, true
		s.underWay++
		return next.watch, true
	}
	return watch, false
}

func (s *Hedges[W]) atOnce() int {
	if s.roundTrip == 0 {
		return 1
	}
	return hedgesAtOnce
}

// Timeout returns how long a hedged read may take.
func (s *Hedges[W]) Timeout() time.Duration {
	if s.roundTrip == 0 {
		return firstHedge
	}
	return max(hedgeSpacing, 4*s.roundTrip)
}

// Answered takes the answer to the request of a hedged read: others may begin. known says that the
// stream has brought the state meanwhile.
func (s *Hedges[W]) Answered(h *Hedge, namespace string, known bool, err error, now time.Duration) {
	s.underWay--
	s.canceled = 0
	if err == nil {
		return
	}
	if h.refused = apierrors.IsForbidden(err); h.refused && known {
		s.refuse(namespace, now)
	}
	pause := hedgePause
	if seconds, ok := apierrors.SuggestsClientDelay(err); ok {
		pause = min(max(pause, time.Duration(seconds)*time.Second), hedgePauseMost)
	}
	s.pause(pause, now)
}

// Canceled takes that the request of a hedged read has ended with the last reference. That says nothing of the server.
// But references may come and go while requests hang.
func (s *Hedges[W]) Canceled(now time.Duration) {
	s.underWay--
	if s.canceled++; s.canceled >= hedgesAtOnce {
		s.pause(hedgePause, now)
	}
}

// pause begins a time without hedged reads.
func (s *Hedges[W]) pause(lasts, now time.Duration) {
	s.paused = max(s.paused, now+lasts)
	s.drop(len(s.queue)) // Gets that still wait come again
}

// Opened takes that the stream has brought the state. If a GET was refused, and the list or watch was
// not, there are no hedged reads in the namespace for a while.
func (s *Hedges[W]) Opened(h *Hedge, namespace string, now time.Duration) {
	if h.refused {
		s.refuse(namespace, now)
	}
	h.Brought, h.refused = false, false
}

// refuse begins the time without hedged reads in a namespace: the server has refused one of a
// watch, and has answered its stream.
func (s *Hedges[W]) refuse(namespace string, now time.Duration) {
	maps.DeleteFunc(s.refused, func(_ string, until time.Duration) bool { return now > until })
	if s.refused == nil {
		s.refused = map[string]time.Duration{}
	}
	s.refused[namespace] = now + hedgeRefused
}

// drop drops the oldest hedged reads in the queue. No reference to them is left.
func (s *Hedges[W]) drop(n int) {
	for i := range n {
		s.queue[i].hedge.queued = false
	}
	if s.queue = slices.Delete(s.queue, 0, n); len(s.queue) == 0 {
		s.queue = nil
	}
}

// Leave drops the hedged read of a watch from the queue.
func (s *Hedges[W]) Leave(h *Hedge) {
	if h.queued {
		h.queued = false
		s.queue = slices.DeleteFunc(s.queue, func(q queuedHedge[W]) bool { return q.hedge == h })
	}
}

// Pause makes the first hedged read of a watch wait as long as there would be between two.
func (h *Hedge) Pause(now time.Duration) { h.next = now + hedgeSpacing }

// End takes the end of a hedged read. stored says that the state is now from that.
func (h *Hedge) End(stored bool, now time.Duration) {
	if h.UnderWay = false; stored {
		h.Brought, h.next = true, now+DemandSpacing
	}
}
