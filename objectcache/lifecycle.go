// SPDX-License-Identifier: Apache-2.0

package objectcache

import (
	"errors"
	"math"
	"math/rand/v2"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/refwatch/refwatch/internal/reflector"
	"github.com/refwatch/refwatch/objectcache/internal/engine"
)

// When an object's watch starts and ends, and what its reflector does meanwhile.

// Why a stream ends, for the log.
var (
	errUnreferenced = errors.New("no owner references the object any more")
	errImmutable    = errors.New("the object is immutable")
	errIdle         = errors.New("no Get has asked for the object")
	errRead         = errors.New("the object was read")
	errStopping     = errors.New("the store is stopped")
)

// endReasons are those for an object to have no stream, for the log.
var endReasons = [...]error{engine.Immutable: errImmutable, engine.OnDemand: errRead}

// startLocked begins a read of an object, and the watch of its entry if that has none.
func (s *WatchStore[T]) startLocked(e *entry[T]) {
	if s.ctx == nil || s.stopped || e.isAbsent() {
		return
	}
	defer s.publishLocked(e)
	if w := e.watch.Load(); w != nil {
		s.stopTimerLocked(e.timersLocked().read)
		s.subscribers.notify(e.key) // ReflectorChanged may not have seen the last change
		w.readLocked()
		return
	}
	if s.options.IdleTimeout > 0 {
		s.startIdleTimerLocked(e)
	}
	if s.options.AcquireOnGet > 0 {
		s.startLeaseTimerLocked(e)
	}
	age := time.Duration(0)
	if s.options.FirstReadMaxAge > 0 {
		age = s.acceptedAgeLocked(e)
	}
	w := s.newWatchLocked(e)
	e.watch.Store(w)
	if w.readLocked(); age > 0 {
		w.old = w.reflector.AcceptAge(age)
	}
	s.runLocked(w)
}

// startUnaskedLocked is startLocked, unless the store is a TTLStore and no Get waits: that reads
// for Gets alone.
func (s *WatchStore[T]) startUnaskedLocked(e *entry[T]) {
	if s.ttl == nil || e.waiters.Load() > 0 {
		s.startLocked(e)
	}
}

// newWatchLocked returns the watch of an entry that has none.
func (s *WatchStore[T]) newWatchLocked(e *entry[T]) *objectWatch[T] {
	e.startedAt = s.now() - 1
	w := &objectWatch[T]{store: s, entry: e}
	backoff := s.takeBackoffLocked(e.key)
	if backoff.IsPause() {
		w.hedge.Pause(s.now())
	}
	resource := s.resource.resource.String()
	w.reflector = reflector.New(s.resource.Source(e.key), w, reflector.Options{
		Resource: resource,
		Gate:     s.options.Gate,
		Prompt:   s.prompt,
		Counters: &s.counters,
		Backoff:  backoff,
		Gets:     s.readsByGet(),
		Explain:  s.explain,
	})
	return w
}

// readsByGet says which reads may be GETs.
func (s *WatchStore[T]) readsByGet() reflector.Gets {
	switch {
	case s.ttl != nil:
		return reflector.OnlyGets
	case !s.resource.HasREST, s.resource.CheckGet() != nil:
		return reflector.NoGets
	}
	return reflector.AlsoGets
}

// readLocked begins a read. It opens a stream if the object needs one.
func (w *objectWatch[T]) readLocked() {
	s, e := w.store, w.entry
	w.recordLocked(w.status())
	s.hedges.Leave(&w.hedge)
	w.hedge.Brought, w.synced, w.old = w.isHedgedLocked(), false, false
	w.reflector.ReadFor(e.owners.Reads)
	if w.upkeep = s.natureLocked(e).NextRead(); w.upkeep == engine.ByRead {
		w.reflector.Read()
		s.logLocked(e, "Starting to read", nil)
	} else {
		w.reflector.Follow()
		s.logLocked(e, "Starting to watch", nil)
	}
}

// runLocked starts the reflector of a watch. stopAll stops it, if nothing stops it before.
func (s *WatchStore[T]) runLocked(w *objectWatch[T]) {
	s.background.Add(1)
	w.reflector.Start(s.ctx, s.watchEnded)
}

// stopLocked ends the watch of an entry, if it has one, and drops the object.
func (s *WatchStore[T]) stopLocked(e *entry[T], reason error) {
	w := e.watch.Load()
	e.watch.Store(nil)
	if w != nil {
		w.logEndLocked(reason)
		w.reflector.Stop()
	}
	e.forgetLocked() // after the last bookmark
	if w == nil {
		return
	}
	s.hedges.Leave(&w.hedge)
	if w.hedge.UnderWay {
		s.cancelHedge[w]()
	}
	s.stopTimerLocked(e.timersLocked().idle)
	s.stopTimerLocked(e.timersLocked().read)
}

// ReflectorChanged implements [reflector.Observer]: it is called after a read, an event or a
// failure.
func (w *objectWatch[T]) ReflectorChanged() {
	s, e := w.store, w.entry
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.watch.Load() != w {
		return // it was stopped, and the waiters were woken then
	}
	// With mu held, so that concurrent calls act on the states in order.
	s.settleLocked(e, w, w.status())
	e.wakeLocked()
	s.subscribers.notify(e.key)
}

// settleLocked carries out the plan for an object with a watch.
func (s *WatchStore[T]) settleLocked(e *entry[T], w *objectWatch[T], status reflector.Status) {
	defer s.publishLocked(e)
	p := s.progressLocked(e, w, status)
	switch reason := p.WithoutStream(); p.Plan() {
	case engine.KeepStream:
		if p.Read {
			e.live = true
		}
	case engine.ReadAgain:
		s.startLocked(e)
	case engine.ReadForOwner:
		s.readForOwnerLocked(e)
	case engine.EndStream:
		s.unwatchLocked(e, w, reason)
	case engine.EndStreamUntilRead:
		s.unwatchLocked(e, w, reason)
		s.readLaterLocked(e)
	}
}

func (s *WatchStore[T]) natureLocked(e *entry[T]) engine.Nature {
	state := e.state()
	return engine.Nature{OnDemand: s.ttl != nil, Known: state.Synced, Exists: state.Exists, Immutable: e.immutable}
}

// recheckAttempts is how many attempts of a recheck may fail. Then it ends without a state: each verb has been tried,
// however the others fail (see package course).
const recheckAttempts = 6

// progressLocked records how far a watch has come, and returns it.
func (s *WatchStore[T]) progressLocked(e *entry[T], w *objectWatch[T], status reflector.Status) engine.Progress {
	w.recordLocked(status)
	p := engine.Progress{Nature: s.natureLocked(e), Upkeep: w.upkeep, Read: w.synced, Behind: w.synced && w.behind}
	if p.Read {
		s.syncedLocked(e)
	}
	p.Covered = e.readFor >= e.newestOwnerLocked()
	p.MayRead = s.ownerReadPauseLocked(e) <= 0
	p.Failed = status.Failures >= recheckAttempts && e.waiters.Load() == 0
	return p
}

// syncedLocked observes how long the first state of an entry took.
func (s *WatchStore[T]) syncedLocked(e *entry[T]) {
	if !e.synced {
		e.synced = true
		if s.options.IdleTimeout > 0 {
			s.restartIdleTimerLocked(e)
		}
		s.firstSync.Observe(s.now() - e.startedAt)
	}
}

// unwatchLocked ends the stream, or the single read, of an object that needs no stream: each
// successful read of one ends so. If an immutable object is deleted and created again, nothing
// reports it, so a timer reads it again.
func (s *WatchStore[T]) unwatchLocked(e *entry[T], w *objectWatch[T], reason engine.Reason) {
	w.logEndLocked(endReasons[reason])
	w.reflector.Pause()
	w.upkeep, w.reason = engine.ByNone, reason
	if s.ttl != nil {
		s.lapseLocked(w)
	}
	e.live = false
	s.stopTimerLocked(e.timersLocked().read)
	after := s.options.ImmutableRecheck
	if w.old {
		after = s.options.FirstReadMaxAge // the object may have been created again before the reference
	}
	if after < 0 || reason != engine.Immutable {
		return
	}
	e.startableLocked().read = s.startTimerLocked(jittered(after), func() time.Duration {
		s.startLocked(e)
		return 0
	})
}

// jittered returns a duration with a random part of up to as much added.
func jittered(d time.Duration) time.Duration {
	return d + min(time.Duration(rand.Float64()*float64(d)), math.MaxInt64-d)
}

// readForOwnerLocked starts a read of an object without a stream for a new owner, unless the
// last such reads began too shortly ago: then it returns false. Owners that come meanwhile
// share the next one.
func (s *WatchStore[T]) readForOwnerLocked(e *entry[T]) bool {
	if s.ownerReadPauseLocked(e) > 0 {
		return false
	}
	e.readsUntil = max(e.readsUntil, s.now()) + engine.DemandSpacing
	s.startLocked(e)
	return true
}

// ownerReadPauseLocked returns after how long the next read for a new owner may begin.
func (s *WatchStore[T]) ownerReadPauseLocked(e *entry[T]) time.Duration {
	return e.readsUntil - (ownerReads-1)*engine.DemandSpacing - s.now()
}

// readLaterLocked reads an object without a stream for a new owner as soon as that is allowed.
func (s *WatchStore[T]) readLaterLocked(e *entry[T]) {
	s.stopTimerLocked(e.timersLocked().read)
	e.startableLocked().read = s.startTimerLocked(s.ownerReadPauseLocked(e), func() time.Duration {
		s.readForOwnerLocked(e)
		return 0
	})
}

// later returns the later of two times.
func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// What a store logs about single objects, at level 4.

// logLine is a line that is not written yet.
type logLine struct {
	key     types.NamespacedName
	message string
	reason  error // nil for a beginning
}

// logLocked logs what happens to an object, in the order of the calls. It does so on a
// goroutine without mu: a logger may call the store. Enabled of its LogSink must not.
func (s *WatchStore[T]) logLocked(e *entry[T], message string, reason error) {
	if !klog.FromContext(s.ctx).V(4).Enabled() {
		return
	}
	s.logLines = append(s.logLines, logLine{e.key, message, reason})
	if !s.logging {
		s.logging = true
		s.background.Go(s.writeLog)
	}
}

// writeLog writes the lines until there are none.
func (s *WatchStore[T]) writeLog() {
	logger := klog.FromContext(s.ctx).V(4)
	for {
		s.mu.Lock()
		lines := s.logLines
		s.logLines, s.logging = nil, len(lines) > 0
		s.mu.Unlock()
		if len(lines) == 0 {
			return
		}
		for _, line := range lines {
			details := []any{"resource", s.resource.resource, "object", klog.KRef(line.key.Namespace, line.key.Name)}
			if line.reason != nil {
				details = append(details, "reason", line.reason)
			}
			logger.Info(line.message, details...)
		}
	}
}

// logEndLocked logs why the stream or the read of a watch ends, if there is one.
func (w *objectWatch[T]) logEndLocked(reason error) {
	switch w.upkeep {
	case engine.ByStream:
		w.store.logLocked(w.entry, "Stopped watching", reason)
	case engine.ByRead:
		w.store.logLocked(w.entry, "Stopped reading", reason)
	case engine.ByNone:
	}
}
