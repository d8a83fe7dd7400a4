// SPDX-License-Identifier: Apache-2.0

package objectcache

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/refwatch/refwatch/cache"
)

// Get returns a referenced object from memory. All callers share it, and it must
// not be changed. Until the object has synced, Get waits for as long as ctx allows.
// Meanwhile attempts that fail follow each other after 1.1 to 1.6 s, or after the
// server's Retry-After. An attempt without an answer is given up after 5 s, and after 10,
// 20, 40 and 60 s the next times. After the sync Get returns the last known state, however long
// ago the server sent it, unless WatchOptions.MaxStaleness is set.
//
// While a few Gets wait, the store also reads an object with a GET if the answer takes longer
// than 3 ms: on a busy etcd, a list or watch waits up to 0.1 s for etcd's next progress
// notification, and a GET does not. If requests hang, such GETs follow each other after 3 to
// 5 s, at most 4 at once. They need the right to get the object, and a client from
// manager.ClientFor or without a rate limit. Without that right one GET an hour is refused in
// each namespace, and Gets wait for the list or watch. What a GET has brought is the last known
// state from then on, also if the stream is then refused.
//
// An object without a stream, such as an immutable one, is read again for each new
// owner. A Get that is called after the owner was added waits for that read. Get returns
// the previous state, because an owner that had it may be asking, if
//   - the read fails,
//   - no reflector reaches the server within 1.5 s, or a Retry-After of the server lasts for
//     longer than that,
//   - the read has no answer for 1.5 s, and for much longer than usual, or
//   - the server has refused reads for longer than WatchOptions.RefusalGrace.
//
// All owners then have that state until the next one is added. A Get whose ctx ends first
// returns the previous state, too, but other Gets go on waiting.
// [Status].LastContact is the time of that state. Owners that are added while Get waits
// do not make it wait longer. The reads for new owners of an object begin 0.25 s after each
// other, after the first four: owners that come together share one.
//
// These are the errors. All but [ErrNilContext] name the resource and the key.
//   - [ErrNotRegistered]: no owner references the object.
//   - [ErrNotSynced]: ctx ended, or the server kept refusing for longer than
//     WatchOptions.RefusalGrace. Joined to it are the error of ctx, if it ended,
//     and why the state is not known: the last failure, what the next attempt
//     waits for, or how long the server has not answered. So errors.Is(err,
//     context.DeadlineExceeded) and apierrors.IsForbidden(err) can both hold.
//     [ErrStale] is joined if the state is too old, [ErrNotStarted] if Run has not
//     been called, and [resource.ErrClientLimited] if ctx ended and the client has a rate
//     limiter of its own.
//   - apierrors.IsNotFound: the server has no such object, according to a complete
//     read or an event. It holds for no other error: if the server does not serve
//     the path, the error is a [resource.NotServedError].
//   - [ErrInvalidName]: no object can have that namespace or name.
//   - [ErrStopped]: the context of Run has ended.
//   - [ErrNilContext]: ctx is nil.
func (s *WatchStore[T]) Get(ctx context.Context, namespace, name string) (T, error) {
	key := types.NamespacedName{Namespace: namespace, Name: name}
	if ctx == nil {
		var none T
		return none, s.gets.count(ctx, s.resource.newError(key, ErrNilContext), false, false)
	}
	if e := s.entry(key); e != nil {
		if state, ok := s.ready(e); ok {
			s.markUsed(e)
			s.gets.countAnswer(state.Exists)
			return s.resource.result(key, state)
		}
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
	if e := s.entry(key); e != nil {
		if state, ok := s.ready(e); ok {
			s.markUsed(e)
			s.gets.countAnswer(state.Exists)
			return s.resource.result(key, state)
		}
	}
	return s.wait(&waiter[T]{ctx: context.Background(), key: key, try: true})
}

// GetWithOptions is Get with demands on the state that it returns: see [GetOptions].
// Its errors are those of Get. An option with an invalid value is an error, too.
func (s *WatchStore[T]) GetWithOptions(ctx context.Context, namespace, name string, options GetOptions) (T, error) {
	var none T
	key := types.NamespacedName{Namespace: namespace, Name: name}
	if ctx == nil {
		return none, s.gets.count(ctx, s.resource.newError(key, ErrNilContext), false, false)
	}
	if err := options.validate(); err != nil {
		return none, s.gets.count(ctx, s.resource.newError(key, err), false, false)
	}
	return s.wait(&waiter[T]{ctx: ctx, key: key, live: options.Live, notOlderThan: options.NotOlderThan, maxStaleness: max(0, options.MaxStaleness), uncounted: options.uncounted})
}

// markUsed records that a Get has used an entry. It writes once for each time that a
// timer has cleared the mark, so that readers on several cores do not contend for the
// cache line.
func (s *WatchStore[T]) markUsed(e *entry[T]) {
	if s.uses != 0 && e.used.Load() != s.uses {
		e.used.Store(s.uses)
	}
}

// maxStalenessLocked returns the bound of the options on the age of an object, 0 if there is
// none. Owners of read-once references want none.
func (s *WatchStore[T]) maxStalenessLocked(e *entry[T]) time.Duration {
	if s.options.MaxStaleness > 0 && e.readOnce() {
		return 0
	}
	return s.options.MaxStaleness
}

// result returns what Get returns for a synced state.
func (k *kind[T]) result(key types.NamespacedName, state cache.State[T]) (T, error) {
	if state.Exists {
		return state.Object, nil
	}
	err := apierrors.NewNotFound(k.resource, key.Name)
	// The usual message has no namespace.
	err.ErrStatus.Message = k.resource.String() + ` "` + keyText(key) + `" not found`
	return state.Object, err
}
