// SPDX-License-Identifier: Apache-2.0

package model

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/refwatch/refwatch/objectcache"
	"github.com/refwatch/refwatch/test/history"
)

// stateOf returns what a Get has returned, for the history.
func (w *World) stateOf(object metav1.Object, err error) (history.State, error) {
	if err != nil {
		w.output.add(fmt.Sprintf("%+v", err))
		return history.State{}, err
	}
	w.lent.add(object)
	return history.StateOf(object), nil
}

// beginGet begins a Get. A DirectStore reads for each one, so it returns the newest state, or fails.
func (w *World) beginGet(ctx context.Context, o *Object) history.Get {
	w.gets.Add(1)
	if w.settings.direct {
		return o.BeginDemandingGet(ctx, true)
	}
	return o.BeginGet(ctx)
}

// get calls Get in a goroutine.
func (w *World) get(o *Object, timeout time.Duration) {
	ctx, cancel := context.WithTimeout(w.ctx, w.timeoutOfGet(timeout))
	get := w.beginGet(ctx, o)
	w.calls.Go(func() {
		defer cancel()
		get.Return(w.stateOf(w.subjects[o.Kind].Get(ctx, o.Key.Namespace, o.Key.Name)))
	})
}

// timeoutOfGet returns for how long a Get waits at most. Where answers take time, a Get of a TTLStore waits for them:
// if its context ended before, it would return the previous object, however old that is.
func (w *World) timeoutOfGet(timeout time.Duration) time.Duration {
	if w.settings.ttl > 0 && w.settings.latency > 0 {
		return max(timeout, probeBound)
	}
	return timeout
}

// getNow calls Get, and waits for it.
func (w *World) getNow(o *Object, timeout time.Duration) (state history.State, err error) {
	ctx, cancel := context.WithTimeout(w.ctx, timeout)
	defer cancel()
	get := w.beginGet(ctx, o)
	state, err = w.stateOf(w.subjects[o.Kind].Get(ctx, o.Key.Namespace, o.Key.Name))
	get.Return(state, err)
	return state, err
}

func (w *World) tryGet(o *Object) {
	s, ok := w.subjects[o.Kind].(Demander)
	if !ok || w.settings.ttl > 0 { // a TTLStore returns the previous object, and reads meanwhile
		return
	}
	var status objectcache.Status
	subject, hasStatus := w.subjects[o.Kind].(StatusReader)
	if hasStatus = hasStatus && w.rested; hasStatus { // nothing changes between the two
		status, hasStatus = subject.Status(o.Key.Namespace, o.Key.Name)
	}
	get := o.BeginTryGet()
	object, err := s.TryGet(o.Key.Namespace, o.Key.Name)
	if hasStatus && !agree(&status, object, err) {
		w.violate("S11", o, "TryGet has returned %v, and the status was %+v", err, status)
	}
	get.Return(w.stateOf(object, err))
}

// agree reports whether the phase of an object is what a TryGet has returned at the same moment.
func agree(status *objectcache.Status, object metav1.Object, err error) bool {
	switch status.Phase {
	case objectcache.PhaseServing, objectcache.PhaseNotUpdated:
		isUpdated := status.NotUpdatedSince.IsZero()
		return err == nil && object.GetUID() == status.UID && object.GetResourceVersion() == status.ResourceVersion &&
			isUpdated == (status.Phase == objectcache.PhaseServing)
	case objectcache.PhaseAbsent:
		return apierrors.IsNotFound(err)
	case objectcache.PhaseFailing, objectcache.PhaseSyncing, objectcache.PhasePending, objectcache.PhaseIdle, objectcache.PhaseStopped:
	}
	return !status.Synced && (errors.Is(err, objectcache.ErrNotSynced) || errors.Is(err, objectcache.ErrStopped))
}

// loop calls Get again and again, for a time.
func (w *World) loop(o *Object, period time.Duration) {
	w.calls.Go(func() {
		end := time.Now().Add(min(period, 20*time.Second))
		for time.Now().Before(end) && w.ctx.Err() == nil {
			ctx, cancel := context.WithTimeout(w.ctx, w.timeoutOfGet(time.Until(end)))
			get := w.beginGet(ctx, o)
			get.Return(w.stateOf(w.subjects[o.Kind].Get(ctx, o.Key.Namespace, o.Key.Name)))
			cancel()
			sleep(100 * time.Millisecond)
		}
	})
}

// getWithOptions calls GetWithOptions in a goroutine. NotOlderThan is the version of the object, or empty. Without a
// fault only the end of its context ends the Get without a state.
func (w *World) getWithOptions(o *Object, timeout time.Duration, options objectcache.GetOptions) {
	s, ok := w.subjects[o.Kind].(Demander)
	if !ok {
		return
	}
	quiet, faults := w.isQuiet(), w.begun.Load()
	if !options.Live { // that fails if its context ends before
		timeout = w.timeoutOfGet(timeout)
	}
	ctx, cancel := context.WithTimeout(w.ctx, timeout)
	w.gets.Add(1)
	get := o.BeginDemandingGet(ctx, options.Live || w.settings.direct || options.NotOlderThan != "" && !w.misleads(o))
	w.calls.Go(func() {
		defer cancel()
		state, err := w.stateOf(s.GetWithOptions(ctx, o.Key.Namespace, o.Key.Name, options))
		get.Return(state, err)
		if errors.Is(err, objectcache.ErrNotSynced) && ctx.Err() == nil && quiet && faults == w.begun.Load() {
			w.violate("L1", o, "Get with %+v returned %v before its context ended, and there was no fault", options, err)
		}
	})
}

// follower is a range over the changes of all subjects.
type follower struct {
	recorded history.Call
	cancel   context.CancelFunc
	done     sync.WaitGroup

	mu   sync.Mutex
	last map[*Object]seen
}

// seen is what a follower has last seen of an object.
type seen struct {
	state history.State
	err   error
}

func (s seen) String() string {
	if s.err != nil {
		return fmt.Sprintf("%v", s.err)
	}
	return s.state.String()
}

// follow starts a follower.
func (w *World) follow() {
	if !slices.ContainsFunc(w.subjects, func(s Subject) bool { _, ok := s.(Follower); return ok }) {
		return
	}
	ctx, cancel := context.WithCancel(w.ctx)
	f := &follower{cancel: cancel, last: map[*Object]seen{}}
	w.followers = append(w.followers, f)
	recorded := w.recorder.Follow()
	for kind, s := range w.subjects {
		s, ok := s.(Follower)
		if !ok {
			continue
		}
		f.done.Go(func() {
			s.Follow(ctx, func(key types.NamespacedName, object metav1.Object, err error) {
				o := w.named(nameOf(w.kinds[kind].resource.String(), key))
				state, err := w.stateOf(object, err)
				recorded.Yield(o.Object, state, err)
				f.mu.Lock()
				defer f.mu.Unlock()
				f.last[o] = seen{state, err}
			})
		})
	}
	f.recorded = recorded.Call
}

// unfollow ends a follower.
func (w *World) unfollow(i int) {
	if i < len(w.followers) {
		f := w.followers[i]
		w.followers = append(w.followers[:i:i], w.followers[i+1:]...)
		f.stop()
	}
}

func (f *follower) stop() {
	f.cancel()
	f.done.Wait()
	f.recorded.End()
}

// isCurrent reports whether a state or an error of a Get is what the server has.
func (o *Object) isCurrent(state history.State, err error) bool {
	current, exists := o.current()
	if err != nil {
		return !exists && apierrors.IsNotFound(err)
	}
	return exists && state == current
}
