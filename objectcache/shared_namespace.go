// SPDX-License-Identifier: Apache-2.0

package objectcache

import (
	"errors"
	"math/rand/v2"
	"time"

	"github.com/refwatch/refwatch/cache"
	"github.com/refwatch/refwatch/objectcache/internal/engine"
)

// sharedRetry is the shortest pause before a shared stream is tried again; up to as
// much is added.
const sharedRetry = 5 * time.Minute

// sharedLinger is how long few objects of a namespace must need a stream before the shared one
// ends. A number that goes up and down costs no read of the namespace each time.
const sharedLinger = 5 * time.Minute

// Why a stream ends, for the log.
var (
	errShared = errors.New("a stream of the namespace brings the changes")
	errFew    = errors.New("few objects of the namespace need a stream")
)

// sharedNamespace is a namespace whose objects may share a stream. WatchStore.mu guards
// it.
type sharedNamespace[T cache.Object] struct {
	name    string
	counted int              // entries that need a stream
	stream  *sharedStream[T] // nil: each entry has its own
	retry   *timer           // nil, or no stream begins before it fires
	linger  *timer           // nil, or ends the stream when it fires
}

// countStreamLocked counts an entry that needs a stream, and begins or ends the shared
// stream of its namespace.
func (s *WatchStore[T]) countStreamLocked(e *entry[T], needed bool) {
	if e.counted == needed || !s.options.Shared.covers(e.key.Namespace) {
		return
	}
	n := s.shared[e.key.Namespace]
	if n == nil {
		n = &sharedNamespace[T]{name: e.key.Namespace}
		s.shared[n.name] = n
	}
	if e.counted = needed; needed {
		n.counted++
	} else {
		n.counted--
	}
	switch engine.Shares(n.counted, s.options.Shared.Threshold) {
	case engine.Share:
		s.stopLingeringLocked(n)
		s.startSharedLocked(n)
	case engine.KeepSharing:
		s.stopLingeringLocked(n)
	case engine.ShareNoLonger:
		s.lingerLocked(n)
	case engine.Unshare:
		s.endSharedLocked(n, errFew)
	}
	s.dropNamespaceLocked(n)
}

// countAllLocked counts all entries, before any of them is read.
func (s *WatchStore[T]) countAllLocked() {
	for _, e := range s.entries.Range {
		s.countStreamLocked(e.(*entry[T]), true)
	}
}

// lingerLocked ends the shared stream of a namespace in which few objects need one, unless
// there are more of them soon.
func (s *WatchStore[T]) lingerLocked(n *sharedNamespace[T]) {
	if n.stream == nil || n.linger != nil {
		return
	}
	n.linger = s.startTimerLocked(sharedLinger, func() time.Duration {
		s.endSharedLocked(n, errFew)
		return 0
	})
}

func (s *WatchStore[T]) stopLingeringLocked(n *sharedNamespace[T]) {
	s.stopTimerLocked(n.linger)
	n.linger = nil
}

// dropNamespaceLocked forgets a namespace without entries. One that has failed is kept
// until it may be tried again.
func (s *WatchStore[T]) dropNamespaceLocked(n *sharedNamespace[T]) {
	if n.counted == 0 && n.retry == nil {
		delete(s.shared, n.name)
	}
}

// leaveSharedLocked is called when an entry needs no stream any more.
func (s *WatchStore[T]) leaveSharedLocked(e *entry[T]) {
	if n := s.shared[e.key.Namespace]; n != nil && n.stream != nil {
		n.stream.members.Delete(e.key.Name)
	}
	s.countStreamLocked(e, false)
}

// startSharedLocked begins the shared stream of a namespace, unless it has one, or has
// to wait.
func (s *WatchStore[T]) startSharedLocked(n *sharedNamespace[T]) {
	if n.stream != nil || n.retry != nil || s.stopped {
		return
	}
	st := s.newSharedStream(n)
	n.stream = st
	for _, e := range s.entries.Range {
		e := e.(*entry[T])
		if w := e.watch.Load(); w != nil && e.counted && e.key.Namespace == n.name {
			s.shareLocked(e, w, w.status())
		}
	}
	st.slow = s.startTimerLocked(sharedReadGrace, st.readIsSlowLocked)
	st.startLocked()
}

// endSharedLocked ends the shared stream of a namespace, if it has one. Its members get
// streams of their own, and are served the state that they have until those have synced.
func (s *WatchStore[T]) endSharedLocked(n *sharedNamespace[T], reason error) {
	st := n.stream
	if st == nil {
		return
	}
	s.stopLingeringLocked(n)
	n.stream, st.reason = nil, reason
	s.stopTimerLocked(st.slow)
	s.stopTimerLocked(st.grace)
	st.reflector.Stop()
	if !errors.Is(reason, errFew) && !s.stopped {
		n.retry = s.startTimerLocked(sharedRetry+rand.N(sharedRetry), func() time.Duration {
			n.retry = nil
			if engine.Shares(n.counted, s.options.Shared.Threshold) == engine.Share {
				s.startSharedLocked(n)
			}
			s.dropNamespaceLocked(n)
			return 0
		})
	}
	for _, m := range st.members.Range {
		e := m.(*sharedEntry[T]).entry
		if w := e.watch.Load(); w != nil && w.shared == st {
			s.startLocked(e)
			e.wakeLocked()
		}
	}
}

// stopSharedLocked ends all shared streams.
func (s *WatchStore[T]) stopSharedLocked() {
	for _, n := range s.shared {
		s.stopTimerLocked(n.retry)
		s.endSharedLocked(n, errStopping)
	}
}
