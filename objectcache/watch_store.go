// SPDX-License-Identifier: Apache-2.0

package objectcache

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/refwatch/refwatch/cache"
	"github.com/refwatch/refwatch/internal/reflector"
	"github.com/refwatch/refwatch/internal/reflector/histogram"
	"github.com/refwatch/refwatch/internal/slept"
	"github.com/refwatch/refwatch/objectcache/internal/engine"
	"github.com/refwatch/refwatch/objectcache/resource"
)

// WatchStore is a [Store] that keeps a list-and-watch for each referenced object.
// Make one with [NewWatchStore].
type WatchStore[T cache.Object] struct {
	resource         kind[T]
	options          WatchOptions
	ttl              *TTLOptions       // nil unless it is that of a TTLStore
	readSpacing      time.Duration     // engine.DemandSpacing; less in a TTLStore
	explain          func(error) error // explainFailure
	unwatchImmutable bool              // end the streams of immutable objects
	mayHedge         bool              // has a REST client without a rate limit: see hedge.go
	prompt           bool              // see reflector.Options
	base             time.Time         // just before it was made
	sinceOrigin      time.Duration     // base since slept.Origin
	uses             uint32            // what entry.used is set to by a use; 0 if nothing reads it

	entries          *table[T]      // written with mu held
	background       sync.WaitGroup // object watches and timers, which Run waits for
	watchEnded       func()         // is called when the reflector of a watch has ended
	loggedNotStarted atomic.Bool
	loggedAbsent     sync.Once
	loggedForbidden  sync.Once
	counters         reflector.Counters // of all its reflectors
	firstSync        histogram.Histogram
	gets             getCounters

	mu          sync.Mutex
	run         context.Context    // of Run; nil before
	ranAt       time.Duration      // since base, when Run was called
	ctx         context.Context    // of every object watch: see startAll; nil before Run
	cancel      context.CancelFunc // of ctx
	stopped     bool
	lastCauses  map[types.NamespacedName][]error // why objects were not known when the store was stopped
	created     uint64                           // entries so far
	objects     int                              // entries
	references  int                              // owners of all entries
	waiters     int                              // Gets that wait
	hedges      engine.Hedges[*objectWatch[T]]
	cancelHedge map[*objectWatch[T]]context.CancelFunc // of those that are under way
	backoffs    backoffs
	subscribers subscribers
	notices     map[types.NamespacedName]notice // of subscribers that wait for a time
	logLines    []logLine
	logging     bool // writeLog is under way
}

// NewWatchStore returns a store that sends no request until Run. It returns an
// error if the resource has no client or an invalid name.
func NewWatchStore[T cache.Object](resource resource.Resource[T], options WatchOptions) (*WatchStore[T], error) {
	kind, err := newKind(resource)
	if err != nil {
		return nil, fmt.Errorf("new watch store: %w", err)
	}
	options.setDefaults()
	return newWatchStore(kind, options), nil
}

// newWatchStore returns a store with valid options.
func newWatchStore[T cache.Object](kind kind[T], options WatchOptions) *WatchStore[T] {
	s := &WatchStore[T]{
		readSpacing:      engine.DemandSpacing,
		base:             time.Now().Add(-time.Microsecond), // times are rounded
		uses:             options.uses(),
		resource:         kind,
		options:          options,
		unwatchImmutable: kind.Immutable != nil && !options.WatchImmutable,
		prompt:           kind.Prompt,
		mayHedge:         kind.HasREST && kind.RateLimit() == nil && kind.CheckGet() == nil,
		entries:          newTable[T](),
		subscribers:      subscribers{},
		notices:          map[types.NamespacedName]notice{},
		cancelHedge:      map[*objectWatch[T]]context.CancelFunc{},
	}
	s.sinceOrigin = s.base.Sub(slept.Origin)
	s.watchEnded, s.explain = s.background.Done, s.explainFailure
	return s
}

// logger returns the logger of Run's context, or klog's before Run.
func (s *WatchStore[T]) logger() klog.Logger {
	s.mu.Lock()
	ctx := s.ctx
	s.mu.Unlock()
	if ctx == nil {
		return klog.Background()
	}
	return klog.FromContext(ctx)
}

// WatchOptions changes how a [WatchStore] works. The zero value is valid.
type WatchOptions struct {
	// IdleTimeout ends the stream of an object that no Get asks for, and drops the
	// object from memory. The next Get opens a new stream and waits. This happens
	// between one and two IdleTimeouts after the last use: a new owner, the first
	// sync, or a Get. No object is idle while a caller ranges over Changes.
	// Default, also for a negative value: never.
	IdleTimeout time.Duration
	// RefusalGrace is how long a Get waits while the server answers every
	// attempt with 401, 403 or another refusal. The Node authorizer needs a
	// moment to see a pod that was just bound. A watch that is refused while lists or GETs work
	// does not count. The time begins with the first refusal. It is five round trips if that is
	// longer, as for a server more than 0.2 s away: another verb may work.
	// Default: 1 s. A negative value waits for as long as the context allows.
	RefusalGrace time.Duration
	// OutageGrace is how long Gets of objects that were never read wait while it is known that the server, or
	// all objects of the resource, cannot be read: refused connections, 429 without Retry-After, or 5xx for
	// objects that had been read, or for the only one of the Gate. Then they return the cause. It begins with the
	// outage, and all Gets share it: 50 Gets in turn wait for a second in all. If only the resource fails, a Get
	// of an object that was not asked for yet waits for its own second. Gets wait on if requests have no answer,
	// and so does [WaitForSync]. Known objects are served. Default: 1 s.
	// A negative value waits for as long as the context allows.
	OutageGrace time.Duration
	// MaxStaleness bounds the age of a state at the call of Get: the time since the server
	// last sent a read, an event or a bookmark of the object (Status.LastContact). If the state is
	// older, Get asks for a new read and waits: see [ErrStale]. What Get reads may be older on return.
	// kube-apiserver sends a bookmark about once a minute, so with less than two minutes
	// Get takes quiet streams for stale and reopens them. Immutable objects are never stale.
	// The time for which the machine was suspended counts (Linux). With a bound Get takes a lock.
	// Default, also for a negative value: no bound.
	MaxStaleness time.Duration
	// ImmutableRecheck is the time after which an immutable object is read again
	// although it has no new owner: it may have been deleted and created again,
	// and no stream reports that. Each time a random duration of up to as much is
	// added. During the read, and if it fails, Get returns the previous state.
	// Default: 10 minutes. A negative value never reads the object again.
	ImmutableRecheck time.Duration
	// AcquireOnGet makes Get and TryGet of an object that no owner references take a
	// reference of their own, [LeaseOwner], instead of returning [ErrNotRegistered]. A
	// Get may then come before the registration of its owner. The reference is
	// deleted between one and two AcquireOnGets after the last Get or TryGet. A range over
	// Changes does not keep it, and then yields nothing more of the object: a program that
	// gets an object again only when it changes needs a reference of an owner. Default, also
	// for a negative value: never.
	AcquireOnGet time.Duration
	// FirstReadMaxAge lets the first state of an object be older than the first reference to it, or than the Get of
	// an idle object. The Gate remembers the newest consistent list or watch of each resource. If that began at most
	// FirstReadMaxAge ago, a first read asks for a state that is not older than it, which the server answers from
	// memory. A consistent read takes up to 100 ms while other clients write, and a caller that gets one object after
	// the other waits for one each time. GETs are always consistent, and the Gate does not remember them.
	// Demands of a Get ([GetOptions]) and reads for new owners of an immutable object are as without the option. No
	// state is older than one that a Get has returned. An immutable object, which has no stream that would bring a
	// newer state, is read once more after one to two FirstReadMaxAges. Where WatchLists do not work, first reads are
	// consistent. Default, also for a negative value: the state is not older than the reference.
	FirstReadMaxAge time.Duration
	// Gate bounds how many streams are being opened at a time. Stores that reach
	// one server as one user should share one. Default: a Gate of its own.
	Gate *Gate
	// WatchImmutable keeps the stream of an object whose field "immutable" is
	// true. Its owners then learn at once when it is deleted and created again.
	// Default: the stream of such an object ends once it has synced, because its
	// data cannot change.
	WatchImmutable bool
}

const (
	defaultRefusalGrace     = time.Second
	defaultOutageGrace      = time.Second
	defaultImmutableRecheck = 10 * time.Minute
)

// The bits of entry.used. Each timer clears its own.
const (
	usedIdle  uint32 = 1 << iota // for IdleTimeout
	usedLease                    // for AcquireOnGet
)

// uses returns the bits that the timers of a store with these options read.
func (o *WatchOptions) uses() (bits uint32) {
	if o.IdleTimeout > 0 {
		bits |= usedIdle
	}
	if o.AcquireOnGet > 0 {
		bits |= usedLease
	}
	return bits
}

// setDefaults replaces each value that stands for another one.
func (o *WatchOptions) setDefaults() {
	if o.RefusalGrace == 0 {
		o.RefusalGrace = defaultRefusalGrace
	}
	if o.OutageGrace == 0 {
		o.OutageGrace = defaultOutageGrace
	}
	if o.ImmutableRecheck == 0 {
		o.ImmutableRecheck = defaultImmutableRecheck
	}
	if o.IdleTimeout > 0 {
		o.FirstReadMaxAge = min(o.FirstReadMaxAge, o.IdleTimeout) // no Get has seen a state since
	}
	if o.Gate == nil {
		o.Gate = NewGate(GateOptions{})
	}
}

// Run starts the streams of all objects that are referenced, now or later. It
// blocks until ctx ends and every goroutine of the store has ended, and returns
// nil. A second call returns [ErrAlreadyStarted], a nil context [ErrNilContext].
//
// The store logs to the logger of ctx, and to klog's before Run. If the client has
// a rate limiter of its own, Run logs that once, at level 0: see [resource.ErrClientLimited].
func (s *WatchStore[T]) Run(ctx context.Context) error {
	if ctx == nil {
		return ErrNilContext
	}
	if !s.startAll(ctx) {
		return ErrAlreadyStarted
	}
	s.resource.logRateLimit(ctx)
	if s.loggedNotStarted.Load() {
		klog.FromContext(ctx).Info("Run has been called, Gets wait for the server", "resource", s.resource.resource)
	}
	<-ctx.Done()
	s.stop()
	logged := make(chan struct{})
	slow := time.AfterFunc(slowStop, func() {
		defer close(logged)
		klog.FromContext(ctx).Info("The store stops, and waits for a function of the program", "resource", s.resource.resource)
	})
	s.background.Wait()
	if !slow.Stop() {
		<-logged
		klog.FromContext(ctx).Info("The function of the program has returned, the store has stopped", "resource", s.resource.resource)
	}
	return nil
}

// slowStop is when Run logs that it waits. Kubernetes kills a pod 30 s after it has asked it to end.
const slowStop = 5 * time.Second

// startAll reports whether this is the first call. The object watches have a context of their own, which ends when the
// store is stopped: else their requests could fail before, and what they have waited for would not be known.
func (s *WatchStore[T]) startAll(ctx context.Context) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.run != nil {
		return false
	}
	s.run, s.ranAt = ctx, s.now()
	s.ctx, s.cancel = context.WithCancel(context.WithoutCancel(ctx))
	if !s.hasStoppedLocked() {
		s.startEntriesLocked()
	}
	return true
}

func (s *WatchStore[T]) startEntriesLocked() {
	for e := range s.entries.all() {
		s.startUnaskedLocked(e)
		e.wakeLocked()
		s.subscribers.notify(e.key)
	}
}

// timer calls a function with WatchStore.mu held, once or repeatedly. Run waits
// for every timer.
//
// The runtime may keep a stopped timer, and all that its function reaches, for
// long. The function may therefore reach an entry, which drops its objectWatch and its
// object (forgetLocked), and never an object.
type timer struct {
	timer   *time.Timer
	stopped bool      // guarded by WatchStore.mu
	at      time.Time // when it fires for the first time
}

// startTimerLocked calls fire after a duration, and again after each duration that
// fire returns, until that is 0.
func (s *WatchStore[T]) startTimerLocked(after time.Duration, fire func() (again time.Duration)) *timer {
	t := &timer{at: time.Now().Add(after)}
	s.background.Add(1)
	t.timer = time.AfterFunc(after, func() { s.fire(t, fire) })
	return t
}

func (s *WatchStore[T]) fire(t *timer, fire func() (again time.Duration)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !t.stopped {
		if again := fire(); again > 0 && !t.stopped {
			t.timer.Reset(again)
			return
		}
		t.stopped = true
	}
	s.background.Done()
}

// stopTimerLocked stops a timer. It does nothing if t is nil or has stopped.
func (s *WatchStore[T]) stopTimerLocked(t *timer) {
	if t == nil || t.stopped {
		return
	}
	t.stopped = true
	if t.timer.Stop() {
		s.background.Done()
	}
}
