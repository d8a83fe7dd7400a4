// SPDX-License-Identifier: Apache-2.0

package objectcache

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/refwatch/refwatch/cache"
)

// Get returns a referenced object from memory. It is shared by all callers and
// must not be changed. Until the object has synced, Get waits for as long as
// ctx allows, and pauses between attempts to reach the server start over from
// short ones. A state once known is served however long the server has been
// silent, unless WatchOptions.MaxStaleness is set.
//
// The errors, all of which name the resource and the key:
//   - [ErrNotRegistered]: nobody references the object.
//   - [ErrNotSynced]: ctx ended, or the server kept refusing for longer than
//     WatchOptions.RefusalGrace. Joined to it are ctx's error, if it ended, and
//     the cause of the last failure, so that errors.Is(err,
//     context.DeadlineExceeded) and apierrors.IsForbidden(err) can both hold.
//     [ErrStale] is joined if a state is known but too old, [ErrClientLimited]
//     if ctx ended and the client has a rate limiter of its own.
//   - apierrors.IsNotFound: the server said that there is no such object.
//   - [ErrInvalidName]: no object can have that namespace or name.
//   - [ErrStopped]: Run has returned, or is about to.
//   - [ErrNilContext]: ctx is nil.
func (w *Watch[T]) Get(ctx context.Context, namespace, name string) (T, error) {
	key := types.NamespacedName{Namespace: namespace, Name: name}
	if ctx == nil {
		var none T
		return none, w.resource.fail(key, ErrNilContext)
	}
	if e := w.entry(key); e != nil {
		if r := e.run.Load(); r != nil {
			if state, ok := w.servable(r); ok {
				w.touch(e)
				return w.answer(key, state)
			}
		}
	}
	return w.wait(ctx, key)
}

// touch keeps an entry from being idle. It writes only once per idle period, so
// that readers on many cores do not fight for the line.
func (w *Watch[T]) touch(e *entry[T]) {
	if w.options.IdleTimeout > 0 && !e.used.Load() {
		e.used.Store(true)
	}
}

// servable returns the state of a run if it answers a Get. The age is asked for
// first: a state that comes in between is the younger.
func (w *Watch[T]) servable(r *run[T]) (cache.State[T], bool) {
	fresh := w.fresh(r)
	state := r.slot.Load()
	return state, fresh && w.known(r, state)
}

// known tells whether a state is one that any owner may be told of.
func (w *Watch[T]) known(r *run[T], state cache.State[T]) bool {
	return state.Synced && (r.latecomer.Load() == 0 || !w.immutable(state) || !w.outdated(r))
}

// fresh tells whether the state of a run is young enough to be served.
func (w *Watch[T]) fresh(r *run[T]) bool {
	if w.options.MaxStaleness <= 0 {
		return true
	}
	status := r.reflector.Status()
	if time.Since(status.LastContact) <= w.options.MaxStaleness {
		return true
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return r.settled
}

// answer is what Get makes of a state that is synced.
func (w *Watch[T]) answer(key types.NamespacedName, state cache.State[T]) (T, error) {
	if state.Exists {
		return state.Object, nil
	}
	err := apierrors.NewNotFound(w.resource.resource, key.Name)
	// The usual text has no namespace.
	err.ErrStatus.Message = w.resource.resource.String() + ` "` + key.String() + `" not found`
	return state.Object, err
}

// wait is Get when there is no answer in memory.
func (w *Watch[T]) wait(ctx context.Context, key types.NamespacedName) (T, error) {
	var none T
	var asked *run[T] // the run that was told that somebody waits
	began := time.Now()
	for {
		e, r, wake, err := w.join(key)
		if err != nil {
			return none, err
		}
		state, err := w.look(ctx, key, r, began)
		if err != nil || state.Synced {
			w.leave(e)
			if err != nil {
				return none, err
			}
			return w.answer(key, state)
		}
		if r != nil && r != asked {
			asked = r
			w.demand(r)
		}
		w.sleep(ctx, wake, w.graceLeft(r, began))
		w.leave(e)
	}
}

// join counts a Get that waits and returns what it waits on. It starts an entry
// that has gone idle, and never brings back one that is not referenced any more.
func (w *Watch[T]) join(key types.NamespacedName) (*entry[T], *run[T], <-chan struct{}, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	e := w.entry(key)
	switch {
	case w.stopped:
		return nil, nil, nil, w.resource.fail(key, ErrStopped)
	case e == nil:
		if err := w.resource.validate(key); err != nil {
			return nil, nil, nil, err
		}
		return nil, nil, nil, w.resource.fail(key, ErrNotRegistered)
	}
	if e.run.Load() == nil {
		w.startLocked(e)
	}
	e.used.Store(true)
	e.waiting++
	return e, e.run.Load(), e.waitLocked(), nil
}

func (w *Watch[T]) leave(e *entry[T]) {
	w.mu.Lock()
	defer w.mu.Unlock()
	e.waiting--
}

// look returns a state that may be served, or the error that ends the wait, or
// neither. r is nil before Run.
func (w *Watch[T]) look(ctx context.Context, key types.NamespacedName, r *run[T], began time.Time) (cache.State[T], error) {
	var cause error
	if r != nil {
		state, ok := w.servable(r)
		if ok {
			return state, nil
		}
		if state.Synced && !w.fresh(r) {
			cause = ErrStale
		}
	}
	if ctx.Err() == nil && w.graceLeft(r, began) != 0 {
		return cache.State[T]{}, nil
	}
	causes := []error{cause}
	if r != nil {
		if status := r.reflector.Status(); status.Failures > 0 {
			causes = append(causes, status.LastError)
		}
		if ctx.Err() != nil {
			causes = append(causes, w.resource.limited())
		}
	}
	return cache.State[T]{}, notSynced(ctx, w.resource.resource.String(), key, causes...)
}

// graceLeft is how long a Get that began then may still wait for a server that
// refuses: at least until it has been refused since, and for the grace from then
// on. Negative means that there is no refusal to bound.
func (w *Watch[T]) graceLeft(r *run[T], began time.Time) time.Duration {
	const unbounded = -1
	if r == nil || w.options.RefusalGrace < 0 {
		return unbounded
	}
	status := r.reflector.Status()
	if status.RefusedSince.IsZero() || status.LastErrorTime.Before(began) {
		return unbounded
	}
	from := status.RefusedSince
	if from.Before(began) {
		from = began
	}
	return max(0, time.Until(from.Add(w.options.RefusalGrace)))
}

// demand tells a run that somebody waits.
func (w *Watch[T]) demand(r *run[T]) {
	if r.slot.Load().Synced && !w.fresh(r) {
		r.reflector.Refresh()
		return
	}
	r.reflector.Retry()
}

// sleep waits to be woken, for ctx, and, where a refusal bounds the wait, for
// grace. No timer is involved otherwise.
func (w *Watch[T]) sleep(ctx context.Context, wake <-chan struct{}, grace time.Duration) {
	var over <-chan time.Time
	if grace >= 0 {
		timer := time.NewTimer(grace)
		defer timer.Stop()
		over = timer.C
	}
	select {
	case <-wake:
	case <-ctx.Done():
	case <-over:
	}
}
