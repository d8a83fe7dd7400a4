// SPDX-License-Identifier: Apache-2.0

package objectcache

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"

	"github.com/refwatch/refwatch/cache"
	"github.com/refwatch/refwatch/internal/reflector"
	"github.com/refwatch/refwatch/internal/states"
	"github.com/refwatch/refwatch/objectcache/internal/engine"
)

// Change is the newest state of an object: what Get would return. Either Object or
// Err is set.
type Change[T cache.Object] struct {
	// Key is the object's namespace and name.
	Key types.NamespacedName
	// Object is the object, shared and read-only; nil if Err is set.
	Object T
	// Err is nil if the object exists. apierrors.IsNotFound holds for it if the object
	// is absent: it was not created yet, or was deleted. Otherwise it is [ErrNotSynced]
	// joined with the reason why the server refuses to let the store read the object:
	// apierrors.IsForbidden and the like hold for it.
	Err error
	// Deleted is set if the object is absent, and this range over Changes yielded the
	// object before.
	Deleted bool
	// ResourceVersion is that of the object, or, if it is absent, that of the event or the
	// read which has said so. Empty if it is not known, and with a refusal.
	ResourceVersion string
}

// Changes yields the first state of every referenced object, and then each change of
// it, until ctx ends, the store is stopped, or the loop is left. The second value
// holds the UIDs that reference the object now, sorted.
//
//   - First states: an object that exists, and one that is absent, is yielded as soon
//     as the server has said so. An object that the server refuses to let the store
//     read is yielded with the refusal once that has lasted for
//     WatchOptions.RefusalGrace, and again when the server gives another reason. Once
//     it can be read, its state is yielded. Nothing is yielded while the server cannot
//     be reached, or answers with 429 or 5xx: Status has the cause.
//   - Later refusals and failures yield nothing: Get returns the last known state.
//   - Order: objects come in the order in which they first changed.
//   - Loss: a slow caller skips states, and never the newest one of an object. It
//     delays nothing, and costs memory for the keys only.
//   - Duplicates: a state that was read again is not yielded again. States are
//     compared by UID, resource version, and whether the server was rolled back in between.
//     So are two absences the same state,
//     and two refusals with the same reason (metav1.StatusReason), however often the
//     read was attempted.
//   - Owners: a state is yielded again for each new owner, as soon as Get would return
//     it to that owner. For a refusal this is the next attempt, unless one was refused
//     in the two seconds before. Several new owners may share one yield. Losing an
//     owner yields nothing. An object that has lost all owners is forgotten: with a new
//     owner it has a first state again.
//
// An object that cannot exist ([ErrInvalidName]) is absent, also before Run. With a
// negative RefusalGrace no refusal is yielded. A nil context is logged, and yields
// nothing.
func (s *WatchStore[T]) Changes(ctx context.Context) iter.Seq2[Change[T], []types.UID] {
	return func(yield func(Change[T], []types.UID) bool) {
		if ctx == nil {
			s.logger().Error(ErrNilContext, "No changes are delivered")
			return
		}
		// The queue keeps each key once, in order.
		queue := workqueue.NewTyped[types.NamespacedName]()
		stop := context.AfterFunc(ctx, queue.ShutDown)
		defer stop()
		if !s.addSubscriber(queue) {
			return
		}
		defer s.removeSubscriber(queue)
		yielded := map[types.NamespacedName]stateID{}
		for {
			key, shutdown := queue.Get()
			if shutdown || ctx.Err() != nil { // a queue that is shut down is drained first
				return
			}
			change, owners, ok := s.changeOf(key, yielded)
			queue.Done(key)
			if ok && !yield(change, owners) {
				return
			}
		}
	}
}

// stateID identifies a state of a key, and the owners for which it is yielded. The
// zero value stands for no state.
type stateID struct {
	entry  uint64 // entry.number
	owners uint64 // engine.Owners.Added

	// Empty unless the object exists.
	uid             types.UID
	resourceVersion string
	epoch           uint64

	refusal metav1.StatusReason // empty unless the server refuses the first read
}

// exists reports whether the object exists in the state.
func (id *stateID) exists() bool { return id.resourceVersion != "" }

// changeOf returns the state of a key and its owners, and whether they differ from
// what was yielded. It updates yielded.
func (s *WatchStore[T]) changeOf(key types.NamespacedName, yielded map[types.NamespacedName]stateID) (change Change[T], owners []types.UID, ok bool) {
	now, ok := s.snapshot(key)
	before := yielded[key]
	if before.entry != now.id.entry {
		delete(yielded, key)
		before = stateID{}
	}
	if !ok || now.id == before {
		return change, nil, false
	}
	yielded[key] = now.id
	if now.fixed {
		now.err = s.resource.absence(key) // without mu
	}
	deleted := before.exists() && !now.id.exists() && now.id.refusal == ""
	return Change[T]{Key: key, Object: now.object, Err: now.err, Deleted: deleted, ResourceVersion: now.version}, now.owners, true
}

// snapshot is what Get would return for a key, and the owners, at one moment.
type snapshot[T cache.Object] struct {
	object  T
	err     error
	version string // see Change
	fixed   bool   // see view
	id      stateID
	owners  []types.UID
}

// setState sets what Get returns for a synced state.
func (s *snapshot[T]) setState(resource *kind[T], key types.NamespacedName, state states.State[T]) {
	s.object, s.err = resource.result(key, state)
	s.version = state.ResourceVersion
	if state.Exists {
		s.id.uid, s.id.resourceVersion, s.id.epoch = state.Object.GetUID(), state.Object.GetResourceVersion(), state.Epoch
	}
}

// snapshot returns the state of a key now, and whether it may be yielded. id.entry is 0 if no
// owner references the key.
func (s *WatchStore[T]) snapshot(key types.NamespacedName) (now snapshot[T], ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entry(key)
	if e == nil {
		s.cancelNoticeLocked(key)
		return now, false
	}
	now.owners = e.owners.List()
	now.id = stateID{entry: e.number, owners: e.owners.Added}
	w := e.watch.Load()
	var state states.State[T]
	if v := e.view.Load(); v != nil && v.ready {
		state, now.fixed, ok = v.state, v.fixed, true
	} else if w == nil {
		return now, false
	} else {
		var refusal *refusal
		if state, refusal, ok = s.previousLocked(e, w); refusal != nil {
			now.id.refusal, now.err = refusal.reason, refusal.err
			return now, true
		}
	}
	if ok {
		s.cancelNoticeLocked(key)
		now.setState(&s.resource, key, state)
	}
	return now, ok
}

// refusal is the first state of an object that the server refuses to let the store read.
type refusal struct {
	reason metav1.StatusReason
	err    error
}

// previousLocked returns the state of an entry, if all owners have it though there was no
// read for the newest one, or a refusal. If neither, it makes the subscribers look again in
// time.
func (s *WatchStore[T]) previousLocked(e *entry[T], w *objectWatch[T]) (state states.State[T], refused *refusal, ok bool) {
	facts, state := s.factsLocked(e, w)
	d := s.demandOfAllLocked(e)
	verdict, after := d.Answer(&facts, s.options.RefusalGrace, time.Now())
	switch {
	case verdict.Serves():
		if verdict == engine.ServeAll {
			s.keepPreviousLocked(w, d.Owner)
		}
		return state, nil, true
	case verdict == engine.Fail && !state.Synced:
		return state, s.refusal(e.key, facts.Attempts), false
	case !state.Synced && after < 0 && s.options.RefusalGrace > 0:
		// Nothing notifies of an outage that was confirmed before the reflector began to wait.
		after = time.Until(d.Began.Add(s.options.RefusalGrace))
	}
	if after > 0 && (s.ttl == nil || w.upkeep == engine.ByRead) {
		s.notifyLaterLocked(e.key, after) // nothing else notifies the subscribers then
	}
	return state, nil, false
}

// demandOfAllLocked returns what the newest owner demands, which has waited since it was
// added, or since Run: a state that any owner may have, whatever its age.
func (s *WatchStore[T]) demandOfAllLocked(e *entry[T]) engine.Demand {
	return engine.Demand{
		Owner: e.newestOwnerLocked(), OwnerAddedAt: s.base.Add(e.ownerAddedAt), Began: s.base.Add(max(e.ownerAddedAt, e.startedAt)),
	}
}

// refusal returns the refusal of an object.
func (s *WatchStore[T]) refusal(key types.NamespacedName, status reflector.Status) *refusal {
	reason := cmp.Or(apierrors.ReasonForError(status.LastError), metav1.StatusReason("Refused"))
	return &refusal{reason, s.resource.Error(key, notSynced(context.Background(), causesOf(status)...)...)}
}

// addSubscriber adds a queue, and every key to it. It returns false if the store is stopped. It
// also starts the watches of idle entries, which could change unnoticed.
func (s *WatchStore[T]) addSubscriber(queue *keyQueue) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return false
	}
	s.subscribers[queue] = struct{}{}
	for e := range s.entries.all() {
		if e.watch.Load() == nil {
			s.startUnaskedLocked(e)
		}
		queue.Add(e.key)
	}
	return true
}

func (s *WatchStore[T]) removeSubscriber(queue *keyQueue) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.subscribers, queue)
}

// String describes the change by its key and its version or error, without object data.
func (c Change[T]) String() string {
	var none T
	switch {
	case c.Deleted:
		return fmt.Sprintf("%s was deleted", c.Key)
	case c.Err != nil:
		return fmt.Sprintf("%s: %v", c.Key, c.Err)
	case any(c.Object) == any(none):
		return fmt.Sprintf("%s: no object", c.Key) // not from Changes
	}
	return fmt.Sprintf("%s has resource version %q", c.Key, c.Object.GetResourceVersion())
}

// MarshalText is [Change.String]: an encoder and a logger write no object data. To encode
// the object, encode Change.Object.
func (c Change[T]) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// keyQueue holds the keys that a subscriber has to look at, each once.
type keyQueue = workqueue.Typed[types.NamespacedName]

// subscribers are the queues of all callers that range over Changes.
type subscribers map[*keyQueue]struct{}

// notify adds a key to every queue.
func (s subscribers) notify(key types.NamespacedName) {
	for queue := range s {
		queue.Add(key)
	}
}

// shutDown ends every queue.
func (s subscribers) shutDown() {
	for queue := range s {
		queue.ShutDown()
	}
}

// notice is a notification of the subscribers of a key that is due later.
type notice struct {
	at    time.Time
	timer *timer
}

// notifyLaterLocked notifies the subscribers of a key after a duration, or earlier.
// There is at most one notice for each key.
func (s *WatchStore[T]) notifyLaterLocked(key types.NamespacedName, after time.Duration) {
	at, due := time.Now().Add(after), s.notices[key]
	if s.stopped || due.timer != nil && !due.at.After(at) {
		return
	}
	s.stopTimerLocked(due.timer)
	s.notices[key] = notice{at, s.startTimerLocked(after, func() time.Duration {
		delete(s.notices, key)
		s.subscribers.notify(key)
		return 0
	})}
}

// cancelNoticeLocked drops the notice of a key, if there is one.
func (s *WatchStore[T]) cancelNoticeLocked(key types.NamespacedName) {
	if due, ok := s.notices[key]; ok {
		s.stopTimerLocked(due.timer)
		delete(s.notices, key)
	}
}
