// SPDX-License-Identifier: Apache-2.0

package objectcache

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/refwatch/refwatch/cache"
	"github.com/refwatch/refwatch/objectcache/internal/engine"
	"github.com/refwatch/refwatch/objectcache/resource"
	"github.com/refwatch/refwatch/reflector"
)

const (
	// sharedReadGrace is how long references wait for the first read of a shared
	// stream before they get streams of their own.
	sharedReadGrace = 5 * time.Second
	// sharedFailureGrace is how long a shared stream may fail while the server answers
	// others.
	sharedFailureGrace = 30 * time.Second
	// sharedTransformGrace is how long the function of WithTransform may take for one object
	// before those that share the stream get streams of their own.
	sharedTransformGrace = 500 * time.Millisecond
)

// sharedStream is one list-and-watch of a namespace, from the time when enough entries
// need a stream until few do, or it fails. It writes the states of its members: see
// shared_store.go.
//
// A member either has an objectWatch without a stream of its own (objectWatch.shared), or
// is about to join: see shareLocked.
type sharedStream[T cache.Object] struct {
	store     *WatchStore[T]
	namespace *sharedNamespace[T]
	reflector *reflector.Reflector
	contact   atomic.Int64 // when the server last sent something: see entry.contact

	members sync.Map // string, the name, to *sharedEntry[T]; written with WatchStore.mu held

	// Guarded by WatchStore.mu.
	asked        bool      // the first read has begun
	version      string    // up to which all events have been seen; empty before the first read
	failingSince time.Time // zero if the last attempt did not fail
	slow         *timer    // fires if the first read takes long
	grace        *timer    // fires if the stream has failed for sharedFailureGrace; may be nil
	reason       error     // why it ends
	gone         bool      // the reflector has ended

	log sync.Once // of the end
}

// sharedEntry is an entry whose events are not dropped.
type sharedEntry[T cache.Object] struct {
	entry *entry[T]
	// known is a version that includes all events of the object that came before now:
	// those that were dropped before it became a member as well. Empty if there is none.
	// It is of no meaning once the entry has joined. WatchStore.mu guards it.
	known string
}

// newSharedStream returns the stream of a namespace. Its reflector is of a resource of
// its own in the gate: what it learns about reads of the whole namespace is not true of
// reads of one object.
func (s *WatchStore[T]) newSharedStream(n *sharedNamespace[T]) *sharedStream[T] {
	st := &sharedStream[T]{store: s, namespace: n}
	resource := s.resource.resource.String()
	source := &sharedSource[T]{Source: s.resource.NamespaceSource(n.name, st.isMember), stream: st}
	options := reflector.Options{
		Name:            resource + " of namespace " + n.name,
		Resource:        resource + " of namespaces",
		OnChange:        st.changed,
		Gate:            s.options.Gate,
		BlockingStreams: s.options.BlockingStreams,
		Counters:        &s.counters,
		Backoff:         s.takeBackoffLocked(types.NamespacedName{Namespace: n.name}),
		Explain:         s.explain,
	}
	if s.resource.Transforms() {
		options.Transform = st.transform
	}
	st.reflector = reflector.New(source, st, options)
	return st
}

// transform transforms an object, and ends the stream if that takes so long that the members
// must not wait for it.
func (st *sharedStream[T]) transform(object any) (any, error) {
	name, ended := "", make(chan struct{})
	if header, err := meta.Accessor(object); err == nil {
		name = header.GetName()
	}
	timer := time.AfterFunc(sharedTransformGrace, func() {
		defer close(ended)
		st.end(fmt.Errorf("the transform has not returned for %v for the object %q", sharedTransformGrace, name))
	})
	defer func() {
		if !timer.Stop() {
			<-ended // Run waits for it
		}
	}()
	m := st.member(name)
	if m == nil {
		m = &sharedEntry[T]{entry: &entry[T]{}} // it has left meanwhile
	}
	return st.store.transformAny(m.entry, object)
}

// startLocked starts the reflector. stopSharedLocked stops it, if nothing stops it before.
func (st *sharedStream[T]) startLocked() {
	s := st.store
	s.background.Add(1)
	st.reflector.Start(s.ctx, st.ended)
}

func (st *sharedStream[T]) logger() klog.Logger {
	s := st.store
	return klog.LoggerWithValues(klog.FromContext(s.ctx), "resource", s.resource.resource, "namespace", st.namespace.name)
}

// ended is called when the reflector has ended.
func (st *sharedStream[T]) ended() {
	defer st.store.background.Done()
	st.store.mu.Lock()
	st.gone = true
	st.store.mu.Unlock()
	st.end(errGoexit) // nothing else ends a reflector that is not stopped
}

// end ends the stream for a reason, unless it has one, and logs that.
func (st *sharedStream[T]) end(reason error) {
	s := st.store
	s.mu.Lock()
	if st.namespace.stream == st && s.ctx.Err() == nil {
		s.endSharedLocked(st.namespace, reason)
	}
	reason = st.reason
	s.mu.Unlock()
	st.log.Do(func() {
		logger := st.logger()
		if reason == nil || errors.Is(reason, errStopping) || errors.Is(reason, errFew) {
			logger.V(2).Info("Stopped watching the namespace", "reason", reason)
			return
		}
		if !st.tells() {
			logger = logger.V(2)
		}
		logger.Info("Cannot watch the namespace, each object gets a stream of its own", "err", st.store.explain(reason))
	})
}

// tells reports whether the log is to say at level 0 that the namespace cannot be watched: once until it can, and not
// of many namespaces.
func (st *sharedStream[T]) tells() bool {
	s := st.store
	s.mu.Lock()
	defer s.mu.Unlock()
	told := st.namespace.told
	st.namespace.told = told || s.sharedLines.TryAccept()
	return !told && st.namespace.told
}

// member returns the member of that name, nil if there is none.
func (st *sharedStream[T]) member(name string) *sharedEntry[T] {
	if m, ok := st.members.Load(name); ok {
		return m.(*sharedEntry[T])
	}
	return nil
}

func (st *sharedStream[T]) isMember(name string) bool { return st.member(name) != nil }

// watch returns the watch of a member, and whether it has joined.
func (st *sharedStream[T]) watch(m *sharedEntry[T]) (w *objectWatch[T], joined bool) {
	w = m.entry.watch.Load()
	return w, w != nil && w.shared == st
}

// changed is called by the reflector after a read, an event, a bookmark or a failure.
func (st *sharedStream[T]) changed() {
	if st.learn() {
		st.logger().Info("The namespace can be watched again")
	}
}

// learn learns from a change. It reports whether the log is to say that the namespace can be watched again.
func (st *sharedStream[T]) learn() (recovered bool) {
	s := st.store
	s.mu.Lock()
	defer s.mu.Unlock()
	if st.namespace.stream != st {
		return false
	}
	status := st.reflector.Status()
	if !status.LastContact.IsZero() {
		raise(&st.contact, s.sinceBase(status.LastContact))
	}
	if reason := st.failureLocked(status); reason != nil {
		s.endSharedLocked(st.namespace, reason)
		return false
	}
	if status.Streaming {
		recovered, st.namespace.told = st.namespace.told, false
	}
	if s.waiters == 0 {
		return recovered // the members are many
	}
	for _, m := range st.members.Range {
		if e := m.(*sharedEntry[T]).entry; e.waiters.Load() > 0 {
			e.wakeLocked() // the state may be young enough now
		}
	}
	return recovered
}

// failureLocked returns why the stream must end, nil if it need not: streams of single
// objects would not help while the server is away.
func (st *sharedStream[T]) failureLocked(status reflector.Status) error {
	answered := !status.RefusedSince.IsZero() || status.Malformed > 0 || errors.Is(status.LastError, resource.ErrTransform)
	switch {
	case status.Failures == 0, !answered && isAway(st.store.options.Gate):
		st.failingSince = time.Time{}
		return nil
	case answered:
		return status.LastError
	case st.failingSince.IsZero():
		st.failingSince = time.Now()
	}
	if left := time.Until(st.failingSince.Add(sharedFailureGrace)); status.Synced && left > 0 {
		st.checkLaterLocked(left)
		return nil
	}
	return status.LastError
}

// checkLaterLocked ends the stream after a duration if it still fails then. Its next
// attempt may be later: the server may have asked for that.
func (st *sharedStream[T]) checkLaterLocked(after time.Duration) {
	if st.grace != nil && !st.grace.stopped {
		return
	}
	st.grace = st.store.startTimerLocked(after, func() time.Duration {
		if reason := st.failureLocked(st.reflector.Status()); reason != nil {
			st.store.endSharedLocked(st.namespace, reason)
		}
		return 0
	})
}

// isAway reports whether no reflector of a gate reaches the server. One that answers is
// not away, whatever it answers.
func isAway(gate *Gate) bool {
	var answer apierrors.APIStatus
	cause := gate.Status().Cause
	return cause != nil && !errors.As(cause, &answer)
}

// isSlowLocked reports whether readIsSlowLocked was called. The timer is started after the
// members of the beginning were added.
func (st *sharedStream[T]) isSlowLocked() bool { return st.slow != nil && st.slow.stopped }

// readIsSlowLocked gives streams of their own to members that wait for the first read.
func (st *sharedStream[T]) readIsSlowLocked() time.Duration {
	for _, m := range st.members.Range {
		m := m.(*sharedEntry[T])
		if w, joined := st.watch(m); joined && !w.entry.state().Synced {
			st.store.startLocked(m.entry)
			m.entry.wakeLocked()
		}
	}
	return 0
}

// How an object passes from its own stream to the shared one, without a gap:
//
//  1. Its own stream has synced. It becomes a member: from now on the shared stream does
//     not drop its events. Earlier events were dropped; its own stream may not have them
//     yet.
//  2. The next bookmark or event of the shared stream has a version (sharedEntry.known). All
//     events that were dropped are older.
//  3. Its own stream reaches that version, so its state has what was dropped, and all that
//     the shared stream has brought since.
//  4. The shared stream reaches the version of its own stream. It is not behind the
//     state, to which its next read may be no older.
//  5. A successor of its watch begins that has no stream of its own. The shared stream
//     writes its state from the next event on.
//
// With bookmarks every minute this takes one to three minutes. Both streams are open
// meanwhile, and the own one is not disturbed.
//
// The way back is a watch with a stream of its own (startLocked): it begins with
// the state that the shared stream has brought, and its first read is a consistent one.
// The object remains a member, unless the shared stream ends.
//
// An object whose stream fails does not become a member. So an object that cannot be
// decoded fails the shared stream at most once.

// shareLocked is called for an entry that needs a stream, after each change: it makes the
// entry a member, and then lets it join.
func (s *WatchStore[T]) shareLocked(e *entry[T], w *objectWatch[T], status reflector.Status) {
	if w.upkeep == engine.BySharedStream {
		return
	}
	s.countStreamLocked(e, true)
	n := s.shared[e.key.Namespace]
	if n == nil {
		return
	}
	switch st := n.stream; {
	case st == nil:
	case st.isMember(e.key.Name):
		st.joinLocked(st.member(e.key.Name))
	case w.isWell(status):
		st.members.Store(e.key.Name, &sharedEntry[T]{entry: e})
	}
}

// isWell reports whether the stream of a watch is open and the state of the entry is synced.
func (w *objectWatch[T]) isWell(status reflector.Status) bool {
	return w.upkeep != engine.ByNone && status.Streaming && status.Failures == 0 && w.entry.state().Synced
}

// joinLocked lets a member join if both streams have come far enough. A stream that has ended may
// still have an event, which has waited in the function of WithTransform: nobody joins it.
func (st *sharedStream[T]) joinLocked(m *sharedEntry[T]) {
	s, e := st.store, m.entry
	w := e.watch.Load()
	if st.namespace.stream != st || m.known == "" || w == nil || w.upkeep == engine.BySharedStream {
		return
	}
	status := w.status()
	order, err := cache.CompareVersions(status.ResourceVersion, m.known)
	if err != nil || order < 0 || !w.isWell(status) || s.natureOf(e).WithoutStream() != engine.NeedsStream {
		return
	}
	if order, err = cache.CompareVersions(w.versionLocked(status), st.version); err != nil || order > 0 {
		return
	}
	next := s.nextWatchLocked(e)
	next.share(st)
	next.synced = true
	e.live = true
	w.stopLocked(errShared)
	e.watch.Store(next)
	s.publishLocked(e)
	e.wakeLocked()
	s.subscribers.notify(e.key) // changed() may not have seen the last change
}

// startBySharedLocked gives an entry a first watch that waits for the first read of the shared
// stream, and needs none of its own. It returns false if that read has begun, or is slow to
// begin, or if there is no shared stream.
func (s *WatchStore[T]) startBySharedLocked(e *entry[T]) bool {
	n := s.shared[e.key.Namespace]
	if n == nil || n.stream == nil || n.stream.asked || n.stream.isSlowLocked() || e.watch.Load() != nil {
		return false
	}
	w := s.nextWatchLocked(e)
	w.share(n.stream)
	n.stream.members.Store(e.key.Name, &sharedEntry[T]{entry: e})
	e.watch.Store(w)
	return true
}
