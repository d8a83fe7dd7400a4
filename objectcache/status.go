// SPDX-License-Identifier: Apache-2.0

package objectcache

import (
	"iter"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/refwatch/refwatch/cache"
	"github.com/refwatch/refwatch/reflector"
)

// Phase says where an object is in its life in the store.
type Phase string

const (
	// Pending: the store is not running, nothing has been requested.
	Pending Phase = "Pending"
	// Syncing: the first read is under way.
	Syncing Phase = "Syncing"
	// Watching: the state is known, and a stream is open that brings its changes.
	Watching Phase = "Watching"
	// Reopening: the state is known and served, and no stream is open: it ended
	// as streams do, and is being opened again. So is an immutable object that is
	// being read again.
	Reopening Phase = "Reopening"
	// Failing: the last attempts to reach the object failed. The state known
	// before, if any, is served.
	Failing Phase = "Failing"
	// Immutable: the object is immutable and served from memory, unwatched. It is
	// read again for a new owner, and after WatchOptions.ImmutableRecheck.
	Immutable Phase = "Immutable"
	// Idle: nobody has asked for the object in a while; the next Get starts over.
	Idle Phase = "Idle"
	// Stopped: the store has been stopped.
	Stopped Phase = "Stopped"
)

// Status tells how things are with one object. It holds no object data.
type Status struct {
	// Key is the object's namespace and name.
	Key types.NamespacedName
	// Phase says where it is in its life.
	Phase Phase
	// Exists tells whether the object was there, by the last known state.
	Exists bool
	// UID and ResourceVersion are the object's, empty unless it exists.
	UID             types.UID
	ResourceVersion string
	// LastContact is when the server last sent anything about it: its age is
	// the time since. Zero if it never did.
	LastContact time.Time
	// Waiting is why no request is under way, nil while one is or the stream is
	// open.
	Waiting error
	// Failures counts the attempts that failed since the last completed read.
	Failures int
	// LastError is the cause of the last failure; it is kept when all is well
	// again. LastErrorTime is when that was. apierrors.IsNotFound never holds for
	// it: see [reflector.NotServedError].
	LastError     error
	LastErrorTime time.Time
	// Owners are the UIDs that reference the object, in order.
	Owners []types.UID
}

// Status tells how things are with an object; false if nobody references it.
func (w *WatchStore[T]) Status(namespace, name string) (Status, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	e := w.entry(types.NamespacedName{Namespace: namespace, Name: name})
	if e == nil {
		return Status{}, false
	}
	return w.statusLocked(e), true
}

// Statuses yields the status of every referenced object, in no order. Each is taken
// at its own moment; no lock is held while the loop's body runs, and references
// that come or go meanwhile may or may not be seen.
func (w *WatchStore[T]) Statuses() iter.Seq[Status] {
	return func(yield func(Status) bool) {
		for _, e := range w.entries.Range {
			key := e.(*entry[T]).key
			if status, ok := w.Status(key.Namespace, key.Name); ok && !yield(status) {
				return
			}
		}
	}
}

func (w *WatchStore[T]) statusLocked(e *entry[T]) Status {
	status := Status{Key: e.key, Owners: e.owners.list()}
	r := e.run.Load()
	if r == nil {
		status.Phase = w.restingLocked()
		return status
	}
	stream, state := r.reflector.Status(), r.slot.Load()
	status.LastContact, status.Failures = r.lastContactLocked(stream), stream.Failures
	status.Waiting = notAbsent(stream.Waiting)
	status.LastError, status.LastErrorTime = stream.LastError, stream.LastErrorTime
	if status.Exists = state.Exists; state.Exists {
		status.UID, status.ResourceVersion = state.Object.GetUID(), state.Object.GetResourceVersion()
	}
	status.Phase = phaseLocked(r, state, stream)
	return status
}

// restingLocked is the phase of an entry without a run.
func (w *WatchStore[T]) restingLocked() Phase {
	switch {
	case w.stopped:
		return Stopped
	case w.ctx == nil:
		return Pending
	}
	return Idle
}

func phaseLocked[T cache.Object](r *run[T], state cache.State[T], stream reflector.Status) Phase {
	switch {
	case r.settled:
		return Immutable
	case stream.Failures > 0:
		return Failing
	case stream.Streaming:
		return Watching
	case state.Synced:
		return Reopening
	}
	return Syncing
}
