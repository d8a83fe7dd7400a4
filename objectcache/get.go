// SPDX-License-Identifier: Apache-2.0

package objectcache

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/refwatch/refwatch/cache"
	"github.com/refwatch/refwatch/reflector"
)

// Get returns a referenced object from memory. It is shared by all callers and
// must not be changed. Until the object has synced, Get waits for as long as
// ctx allows, and pauses between attempts to reach the server start over from
// short ones. A state once known is served however long the server has been
// silent, unless WatchOptions.MaxStaleness is set.
//
// An immutable object is read again for a new owner, and a Get that is called
// after that owner came waits for that read. If the read fails, or ctx ends
// first, Get returns the last known state, for it may be asked by an owner who
// had it before. [Status].LastContact says of when that state is. Owners who
// come while Get waits do not lengthen the wait.
//
// The errors, all of which name the resource and the key, except
// [ErrNilContext], which need not:
//   - [ErrNotRegistered]: nobody references the object.
//   - [ErrNotSynced]: ctx ended, or the server kept refusing for longer than
//     WatchOptions.RefusalGrace. Joined to it are ctx's error, if it ended, and
//     why the state is not known: the cause of the last failure, what is waited
//     for, or for how long the server has not answered. So errors.Is(err,
//     context.DeadlineExceeded) and apierrors.IsForbidden(err) can both hold.
//     [ErrStale] is joined if a state is known but too old, [ErrNotStarted] if
//     Run has not been called, [ErrClientLimited] if ctx ended and the client has
//     a rate limiter of its own.
//   - apierrors.IsNotFound: the server said that there is no such object, in a
//     complete read or an event. It never holds for another error: a path that
//     the server does not serve (404) is a [reflector.NotServedError].
//   - [ErrInvalidName]: no object can have that namespace or name.
//   - [ErrStopped]: Run has returned, or is about to.
//   - [ErrNilContext]: ctx is nil.
func (w *WatchStore[T]) Get(ctx context.Context, namespace, name string) (T, error) {
	key := types.NamespacedName{Namespace: namespace, Name: name}
	if ctx == nil {
		var none T
		return none, w.resource.fail(key, ErrNilContext)
	}
	if e := w.entry(key); e != nil {
		if r := e.run.Load(); r != nil {
			if state, ok := w.servable(r, e.newest.Load()); ok {
				w.touch(e)
				return w.answer(key, state)
			}
		}
	}
	return w.wait(ctx, key)
}

// touch keeps an entry from being idle. It writes only once per idle period, so
// that readers on many cores do not fight for the line.
func (w *WatchStore[T]) touch(e *entry[T]) {
	if w.options.IdleTimeout > 0 && !e.used.Load() {
		e.used.Store(true)
	}
}

// servable returns the state of a run, and whether it answers a Get that has to
// honour all owners up to one. An immutable object is never stale.
func (w *WatchStore[T]) servable(r *run[T], newest uint64) (state cache.State[T], ok bool) {
	covers, fresh := r.covers.Load(), w.fresh(r)
	state = r.slot.Load()
	if w.immutable(state) {
		return state, covers >= newest
	}
	return state, state.Synced && fresh
}

// fresh reports whether the state of a run that is loaded after this is young
// enough to be served.
func (w *WatchStore[T]) fresh(r *run[T]) bool {
	if w.options.MaxStaleness <= 0 {
		return true
	}
	contact := r.contact.Load()
	return contact > 0 && time.Since(r.base)-time.Duration(contact) <= w.options.MaxStaleness
}

// answer is what Get makes of a state that is synced.
func (w *WatchStore[T]) answer(key types.NamespacedName, state cache.State[T]) (T, error) {
	if state.Exists {
		return state.Object, nil
	}
	err := apierrors.NewNotFound(w.resource.resource, key.Name)
	// The usual text has no namespace.
	err.ErrStatus.Message = w.resource.resource.String() + ` "` + key.String() + `" not found`
	return state.Object, err
}

// asker is a Get that waits.
type asker[T cache.Object] struct {
	ctx   context.Context
	key   types.NamespacedName
	began time.Time
	// entry is the one that was there when Get began, or that took its place.
	// newest is the number of its newest owner then, and arrived when that came:
	// owners who come later do not lengthen the wait.
	entry   *entry[T]
	newest  uint64
	arrived time.Time
}

// wait is Get when there is no answer in memory.
func (w *WatchStore[T]) wait(ctx context.Context, key types.NamespacedName) (T, error) {
	var none T
	a := &asker[T]{ctx: ctx, key: key, began: time.Now()}
	for {
		r, wake, err := w.join(a)
		if err != nil {
			return none, err
		}
		state, ok, err := w.look(a, r)
		if r != nil && !ok {
			w.demand(r) // again after each attempt, which uses it up
		}
		if ok || err != nil {
			w.leave(a.entry)
			if err != nil {
				return none, err
			}
			return w.answer(key, state)
		}
		limit := w.lookAgain(a, r, state)
		if r == nil {
			limit = w.awaitRun(a)
		}
		w.sleep(ctx, wake, limit)
		w.leave(a.entry)
	}
}

// join counts a Get that waits and returns what it waits on. It starts an entry
// that has gone idle, and never brings back one that is not referenced any more.
func (w *WatchStore[T]) join(a *asker[T]) (*run[T], <-chan struct{}, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	e := w.entry(a.key)
	switch {
	case w.stopped:
		return nil, nil, w.resource.fail(a.key, ErrStopped)
	case e == nil:
		if err := w.resource.validate(a.key); err != nil {
			return nil, nil, err
		}
		return nil, nil, w.resource.fail(a.key, ErrNotRegistered)
	}
	if e != a.entry {
		a.entry, a.newest, a.arrived = e, e.newest.Load(), e.arrivedAt
	}
	if e.run.Load() == nil {
		w.startLocked(e)
	}
	e.used.Store(true)
	e.waiting++
	return e.run.Load(), e.waitLocked(), nil
}

// awaitRun logs, once for each store, that a Get has waited for Run for a while:
// somebody forgot to call it. It returns how long the Get may sleep until then;
// negative means for ever.
func (w *WatchStore[T]) awaitRun(a *asker[T]) time.Duration {
	const patience = time.Second // Run may be about to begin in its goroutine
	if left := time.Until(a.began.Add(patience)); left > 0 {
		return left
	}
	w.waited.Do(func() {
		w.logger().Info("Get waits, but Run has not been called", "resource", w.resource.resource, "object", klog.KRef(a.key.Namespace, a.key.Name))
	})
	return -1
}

func (w *WatchStore[T]) leave(e *entry[T]) {
	w.mu.Lock()
	defer w.mu.Unlock()
	e.waiting--
}

// look returns the state of a run, and whether it is the answer, or the error
// that ends the wait. r is nil before Run.
func (w *WatchStore[T]) look(a *asker[T], r *run[T]) (state cache.State[T], ok bool, err error) {
	over := a.ctx.Err() != nil
	if r == nil {
		if over {
			err = notSynced(a.ctx, w.resource.resource.String(), a.key, ErrNotStarted)
		}
		return state, false, err
	}
	state, ok = w.servable(r, min(a.newest, a.entry.newest.Load()))
	switch {
	case ok:
		return state, true, nil
	case w.immutable(state) && (over || failedSince(r.reflector.Status(), a.arrived)):
		return state, true, nil // for those who had it; Get does not know who asks
	case !over && w.graceLeft(r, a.began) != 0:
		return state, false, nil
	}
	causes := causesOf(r.reflector.Status())
	if state.Synced && !w.fresh(r) {
		causes = append([]error{ErrStale}, causes...)
	}
	if over {
		causes = append(causes, w.resource.limited())
	}
	return state, false, notSynced(a.ctx, w.resource.resource.String(), a.key, causes...)
}

// failedSince reports whether the reads that were made for an owner fail: one
// has since the owner came, or none is made because the server is away.
func failedSince(stream reflector.Status, arrived time.Time) bool {
	return stream.FailedAt.After(arrived) && stream.Failures > 0 || stream.Away && time.Since(arrived) >= awayGrace
}

// freshRefusal is how old a refusal may be for a Get to be answered with it at
// once. While Gets come, the server is asked again every 1.1 to 1.6 s.
const freshRefusal = 2 * time.Second

// graceLeft is how long a Get that began then may still wait for a server that
// refuses. The grace counts from the first refusal if the last one is fresh, and
// from the beginning of the Get otherwise, once it has been refused since.
// Negative means that there is no refusal to bound.
func (w *WatchStore[T]) graceLeft(r *run[T], began time.Time) time.Duration {
	const unbounded = -1
	if r == nil || w.options.RefusalGrace < 0 {
		return unbounded
	}
	status := r.reflector.Status()
	from := status.RefusedSince
	switch {
	case from.IsZero():
		return unbounded
	case status.Away && status.FailedAt.IsZero() && from.Before(began): // it has not been asked for yet
		from = began
	case status.Away:
	case status.LastErrorTime.Before(began) && began.Sub(status.LastErrorTime) > freshRefusal:
		return unbounded
	case !status.LastErrorTime.Before(began) && from.Before(began):
		from = began
	}
	return max(0, time.Until(from.Add(w.options.RefusalGrace)))
}

// demand notifies a run that a caller waits. A stream is given up only if the
// reflector itself has heard nothing for too long: the run learns of a contact a
// moment later, and wakes the Get then.
func (w *WatchStore[T]) demand(r *run[T]) {
	state, stream := r.slot.Load(), r.reflector.Status()
	tooOld := w.options.MaxStaleness > 0 && time.Since(stream.LastContact) > w.options.MaxStaleness
	if tooOld && state.Synced && !w.immutable(state) {
		r.reflector.Refresh()
		return
	}
	r.reflector.Retry()
}

// awayGrace is how long the owner of an immutable object waits for a read while no
// reflector reaches the server: by then the gate has tried.
const awayGrace = 1500 * time.Millisecond

// lookAgain is after what time a Get should look again though nothing has woken it;
// negative for never.
func (w *WatchStore[T]) lookAgain(a *asker[T], r *run[T], state cache.State[T]) time.Duration {
	grace := w.graceLeft(r, a.began)
	if r == nil || !w.immutable(state) {
		return grace
	}
	away := time.Until(a.arrived.Add(awayGrace))
	if away <= 0 {
		away = awayGrace // for an outage that comes later
	}
	if grace < 0 {
		return away
	}
	return min(grace, away)
}

// sleep waits to be woken, for ctx, and, unless it is negative, for a time.
func (w *WatchStore[T]) sleep(ctx context.Context, wake <-chan struct{}, limit time.Duration) {
	var over <-chan time.Time
	if limit >= 0 {
		timer := time.NewTimer(limit)
		defer timer.Stop()
		over = timer.C
	}
	select {
	case <-wake:
	case <-ctx.Done():
	case <-over:
	}
}
