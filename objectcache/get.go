// SPDX-License-Identifier: Apache-2.0

package objectcache

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/refwatch/refwatch/internal/reflector"
	"github.com/refwatch/refwatch/internal/states"
	"github.com/refwatch/refwatch/objectcache/internal/engine"
)

// Get returns a referenced object from memory. All callers share it, and it must
// not be changed. Until the object has synced, Get waits for as long as ctx allows.
// Meanwhile attempts that fail follow each other after 1.1 to 1.6 s, or after the
// server's Retry-After. An attempt without an answer is given up after 5 s, and after 10,
// 20, 40 and 60 s the next times. The first time is four round trips, or twice the usual time of
// an answer, if that is longer, and 30 s before the server's first answer. After the sync Get
// returns the last known state, however long ago the server sent it, unless
// WatchOptions.MaxStaleness is set.
//
// While a few Gets wait, the store also reads an object with a GET if the answer takes longer
// than 3 ms: on a busy etcd, a list or watch waits up to 0.1 s for etcd's next progress
// notification, and a GET does not. If the server is 0.3 s away or more, such a GET is sent only
// if requests hang. Then they follow each other after 3 to 5 s, or four round trips, at most 4 at
// once. They need the right to get the object, and a client from
// manager.ClientFor or without a rate limit. Without that right one GET an hour is refused in
// each namespace, and Gets wait for the list or watch. What a GET has brought is the last known
// state from then on, also if the stream is then refused.
//
// An object that needs no stream, such as an immutable one, is read again for each new
// owner. A Get that is called after the owner was added waits for that read. Get returns
// the previous state, because an owner that had it may be asking, if
//   - the read fails,
//   - no reflector reaches the server within 1.5 s, or a Retry-After of the server lasts for
//     longer than that,
//   - the read has no answer for 1.5 s, and for much longer than usual, or
//   - the server has refused reads for longer than WatchOptions.RefusalGrace, and five round trips.
//
// All owners then have that state until the next one is added. A Get whose ctx ends first
// returns the previous state, too, but other Gets go on waiting.
// [Status].LastContact is the time of that state. Owners that are added while Get waits
// do not make it wait longer. The reads for new owners of an object begin 0.25 s after each
// other, after the first four: owners that come together share one.
//
// These are the errors. All but [ErrNilContext] name the resource and the key.
//   - [ErrNotRegistered]: no owner references the object.
//   - [ErrNotSynced]: ctx ended, the server kept refusing for longer than
//     WatchOptions.RefusalGrace, or an outage lasts for longer than WatchOptions.OutageGrace and the
//     object was never read. Joined to it are the error of ctx, if it ended,
//     and why the state is not known: the last failure, or, if there was none, what Get waits
//     for. So errors.Is(err, context.DeadlineExceeded) and apierrors.IsForbidden(err) can both
//     hold. The text does not change while the cause stays: [Status] has what changes with time.
//     [ErrStale] is joined if the state is too old, [ErrNotStarted] if Run has not
//     been called, and [resource.ErrClientLimited] if ctx ended and the client has a rate
//     limiter of its own.
//   - apierrors.IsNotFound: the server has no such object, according to a complete
//     read or an event, or cannot have it (ErrInvalidName). It holds for no other error: if the server does not serve
//     the path, the error is a [resource.NotServedError].
//   - [ErrInvalidName]: no object can have that namespace or name. apierrors.IsNotFound holds, too:
//     that the object is absent is known at once, without a request, also without a reference. It
//     does not hold if the key has no name, or the wrong scope: see AddReference.
//   - [ErrStopped]: the context of Run has ended. Joined to it are the error and the cause of that
//     context, and why the state was not known then: the last failure, or what the next attempt
//     waited for. If ctx has ended as well, [ErrNotSynced] and the error of ctx are joined, too: a
//     program may have one context for both.
//   - [ErrNilContext]: ctx is nil.
func (s *WatchStore[T]) Get(ctx context.Context, namespace, name string) (T, error) {
	key := types.NamespacedName{Namespace: namespace, Name: name}
	if ctx == nil {
		var none T
		return none, s.gets.count(ctx, s.resource.Error(key, ErrNilContext), false, false)
	}
	if v := s.ready(key); v != nil {
		return s.answerOf(key, v)
	}
	return s.wait(&waiter[T]{ctx: ctx, key: key})
}

// TryGet returns a referenced object from memory, as Get does, and never waits. Where Get
// would wait for the read for a new owner, TryGet returns the previous state. So new owners
// never take an object without a stream from those that have it. Where Get would wait for a
// first state, or for one that is not too old, TryGet asks for a read of the object, and
// returns [ErrNotSynced] joined with why the state is not known. The other errors are those
// of Get.
func (s *WatchStore[T]) TryGet(namespace, name string) (T, error) {
	key := types.NamespacedName{Namespace: namespace, Name: name}
	if v := s.ready(key); v != nil {
		return s.answerOf(key, v)
	}
	return s.wait(&waiter[T]{ctx: context.Background(), key: key, try: true})
}

// GetWithOptions is Get with demands on the state that it returns: see [GetOptions].
// Its errors are those of Get. An option with an invalid value is an error, too.
func (s *WatchStore[T]) GetWithOptions(ctx context.Context, namespace, name string, options GetOptions) (T, error) {
	var none T
	key := types.NamespacedName{Namespace: namespace, Name: name}
	if ctx == nil {
		return none, s.gets.count(ctx, s.resource.Error(key, ErrNilContext), false, false)
	}
	if err := options.validate(); err != nil {
		return none, s.gets.count(ctx, s.resource.Error(key, err), false, false)
	}
	return s.wait(&waiter[T]{ctx: ctx, key: key, live: options.Live, notOlderThan: options.NotOlderThan, maxStaleness: options.MaxStaleness, noAcquire: options.NoAcquire, uncounted: options.uncounted})
}

// answerOf returns what Get returns for a view, and counts it. It copies no State.
func (s *WatchStore[T]) answerOf(key types.NamespacedName, v *view[T]) (T, error) {
	s.gets.countAnswer(v.state.Exists)
	if v.state.Exists {
		return v.state.Object, nil
	}
	if v.fixed {
		return v.state.Object, s.resource.absence(key)
	}
	return s.resource.result(key, v.state)
}

// markUsed records that a Get has used an entry. It writes once for each time that a
// timer has cleared the mark, so that readers on several cores do not contend for the
// cache line.
func (s *WatchStore[T]) markUsed(e *entry[T]) {
	if s.uses != 0 && e.used.Load() != s.uses {
		e.used.Store(s.uses)
	}
}

// result returns what Get returns for a synced state.
func (k *kind[T]) result(key types.NamespacedName, state states.State[T]) (T, error) {
	if state.Exists {
		return state.Object, nil
	}
	return state.Object, k.notFound(key)
}

// absence returns what Get returns for an object that is absent for good. It calls a function of the program.
func (k *kind[T]) absence(key types.NamespacedName) error {
	if err := k.CheckKey(key); err != nil {
		return err
	}
	return k.notFound(key)
}

func (k *kind[T]) notFound(key types.NamespacedName) error {
	err := apierrors.NewNotFound(k.resource, key.Name)
	// The usual message has no namespace.
	err.ErrStatus.Message = k.resource.String() + ` "` + keyText(key) + `" not found`
	return err
}

// GetOptions are the demands of one Get on the state that it returns. The zero value
// demands nothing: the last known state will do. A Get waits until all demands are
// met. It fails if its context ends, if the server refuses for WatchOptions.RefusalGrace, as
// [WatchOptions].OutageGrace says, or if a read that it has asked for is older than NotOlderThan.
// [TTLStore.GetWithOptions] and [DirectStore.GetWithOptions] describe what is different there.
type GetOptions struct {
	// MaxStaleness bounds the age of the state at the call, as WatchOptions.MaxStaleness does;
	// the smaller one counts. Default, also for a negative value: no other bound than that of
	// the store.
	MaxStaleness time.Duration
	// NotOlderThan is a resource version that the state must include: that of an
	// earlier write, for a program that has to read its own writes. If no event
	// brings the version within 100 ms, the object is read again. If that read is
	// older still, the server has never had the version, or was rolled back, and the
	// error has [ErrStale] joined to it. A bookmark of that version or a later one counts
	// as well: the server sends it after all events up to it. Default: any version.
	NotOlderThan string
	// Live demands a consistent read that begins after the call. The stream of the object
	// is opened again for it. Gets that wait for the same object share a read, and
	// further reads of it begin 1.1 to 1.6 s after each other, or 0.25 s if the object has
	// no stream, within the limits of the [Gate]. Default: memory will do.
	Live bool
	// NoAcquire makes [WatchOptions].AcquireOnGet not apply: a Get of an object that has no
	// reference then returns [ErrNotRegistered], as that of one owner must (GetFor of a manager).
	// Default: it applies.
	NoAcquire bool

	uncounted bool // Stats does not count the Get: it is that of a WaitForSync
}

// validate returns an error if an option has an invalid value.
func (o *GetOptions) validate() error {
	if o.NotOlderThan == "" {
		return nil
	}
	if err := states.CheckVersion(o.NotOlderThan); err != nil {
		return fmt.Errorf("GetOptions.NotOlderThan: %w", err)
	}
	return nil
}

// Gets with demands on the state.

// requestReadLocked asks for the read that g needs, once. It starts another read of an
// object without a stream if the read that was under way is not the one.
func (s *WatchStore[T]) requestReadLocked(g *waiter[T]) {
	w := g.entry.watch.Load()
	switch {
	case s.ttl != nil:
		s.requestGetLocked(g)
	case g.read == 0:
		if g.needsRead() || w != nil && w.upkeep == engine.ByNone && s.isTooOldLocked(g) {
			s.readForLocked(g)
		}
	case w != nil:
		s.readAgainLocked(g, w)
	}
}

// readAgainLocked starts another read if none is under way, and the last one was not that of g.
func (s *WatchStore[T]) readAgainLocked(g *waiter[T], w *objectWatch[T]) {
	if w.upkeep == engine.ByNone && g.entry.readFor < g.read {
		s.startReadLocked(g.entry)
	}
}

// startReadLocked starts a read of an object that has no stream, unless such
// a read began less than readSpacing ago: Gets that are called again and again must not
// cause a request each. A Get that still waits then asks again: see readPause.
func (s *WatchStore[T]) startReadLocked(e *entry[T]) {
	if pause := s.readPauseLocked(e); pause > 0 {
		if s.ttl != nil {
			s.readAfterLocked(e, pause) // nobody may wait
		}
		return
	}
	e.readBegan = s.now()
	s.startLocked(e)
}

// readPauseLocked returns how long startReadLocked waits before the next read.
func (s *WatchStore[T]) readPauseLocked(e *entry[T]) time.Duration {
	if e.readBegan == 0 {
		return 0
	}
	return e.readBegan + s.readSpacing - s.now()
}

// readPause returns after how long g must ask again for a read that was not started,
// negative if it need not.
func (s *WatchStore[T]) readPause(g *waiter[T], w *objectWatch[T]) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if g.read == 0 || w.upkeep != engine.ByNone || g.entry.readFor >= g.read {
		return -1
	}
	return max(0, s.readPauseLocked(g.entry))
}

// isTooOldLocked reports whether the state is older than g demands.
func (s *WatchStore[T]) isTooOldLocked(g *waiter[T]) bool {
	return !g.entry.immutable && s.contact(g.entry).Before(s.demandLocked(g).NotBefore)
}

// needsRead reports whether g demands a read of its own.
func (g *waiter[T]) needsRead() bool {
	return g.live || g.notOlderThan != "" && time.Since(g.began) >= eventGrace
}

// versionLocked returns the highest resource version that the object was seen at. The state has
// all changes up to it. status is that of its watch.
func (w *objectWatch[T]) versionLocked(status reflector.Status) string {
	version := w.entry.order.Version()
	if order, _ := states.CompareVersions(status.ResourceVersion, version); order > 0 {
		return status.ResourceVersion // of a bookmark
	}
	return version
}

// readForLocked asks for a consistent read that begins after the call. Gets that ask
// while a read is under way share the next one.
func (s *WatchStore[T]) readForLocked(g *waiter[T]) {
	e := g.entry
	e.owners.Reads++
	g.read = e.owners.Reads
	switch w := e.watch.Load(); {
	case w == nil: // before Run: the first read is for all
	case w.upkeep == engine.ByNone:
		s.startReadLocked(e)
	default:
		w.reflector.ReadFor(g.read)
	}
}
