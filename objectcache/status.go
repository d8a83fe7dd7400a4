// SPDX-License-Identifier: Apache-2.0

package objectcache

import (
	"iter"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/refwatch/refwatch/cache"
	"github.com/refwatch/refwatch/internal/reflector"
	"github.com/refwatch/refwatch/objectcache/internal/engine"
)

// Phase is what a Get returns now if it cannot wait, as [WatchStore.TryGet]: the object, that it
// is absent, or neither and why. How changes of the object arrive is its [StreamType], and why
// none do is its [Reason].
type Phase string

const (
	// PhaseServing: the object is returned from memory. A stream brings its changes, lists or GETs do
	// ([StreamPolled]), or it needs none for a Reason.
	PhaseServing Phase = "Serving"
	// PhaseNotUpdated: the object is returned from memory, and changes of it do not arrive:
	// Status.NotUpdatedSince has since when.
	PhaseNotUpdated Phase = "NotUpdated"
	// PhaseAbsent: Get returns that the object does not exist, from memory. If its creation would
	// not be noticed now, Status.NotUpdatedSince is set.
	PhaseAbsent Phase = "Absent"
	// PhaseFailing: there is no state that Get may return, and the last attempts to read the
	// object failed.
	PhaseFailing Phase = "Failing"
	// PhaseSyncing: there is no state that Get may return. The read that brings one is under way
	// or in line, and none has failed since the last that was completed.
	PhaseSyncing Phase = "Syncing"
	// PhasePending: there is no state that Get may return, and nothing reads one before a Get, or
	// Run, is called. That is so in a store before Run, in a [TTLStore] for an object that no Get
	// has asked for and for an absence whose TTL is over, and for a state that has become older
	// than MaxStaleness while its stream was quiet.
	PhasePending Phase = "Pending"
	// PhaseIdle: no Get has asked for the object for WatchOptions.IdleTimeout. The next
	// Get opens a new stream.
	PhaseIdle Phase = "Idle"
	// PhaseStopped: the context of Run has ended.
	PhaseStopped Phase = "Stopped"
)

// Phases returns all phases, in the order above.
func Phases() []Phase {
	return []Phase{PhaseServing, PhaseNotUpdated, PhaseAbsent, PhaseFailing, PhaseSyncing, PhasePending, PhaseIdle, PhaseStopped}
}

// StreamType is how changes of an object arrive.
type StreamType string

const (
	// StreamNamed: the object has a stream of its own, or gets one.
	StreamNamed StreamType = "Named"
	// StreamPolled: the object is read again from time to time, because lists or GETs of it work and
	// watches do not: its changes arrive late. Status.LastError is the error of the watch, or of the
	// list. It is set once a watch after a list has failed, or a GET has taken the place of a list.
	StreamPolled StreamType = "Polled"
	// StreamNone: no changes arrive. The object needs no stream, for a [Reason], is being read
	// for the first time without one, or is idle, or the store does not run.
	StreamNone StreamType = "None"
)

// StreamTypes returns all types, in the order above.
func StreamTypes() []StreamType {
	return []StreamType{StreamNamed, StreamPolled, StreamNone}
}

// Reason is why an object needs no stream, also while it is read again.
type Reason string

const (
	// ReasonImmutable: the object is immutable. It is read again for a new owner and after
	// WatchOptions.ImmutableRecheck.
	ReasonImmutable Reason = "Immutable"
	// ReasonOnDemand: the store keeps no streams. A Get that comes after TTLOptions.TTL reads
	// the object again.
	ReasonOnDemand Reason = "OnDemand"
	// ReasonInvalidName: no object can have the namespace or the name ([ErrInvalidName]). It is absent,
	// which is known without a request.
	ReasonInvalidName Reason = "InvalidName"
	// ReasonNotSelected: the field selector of the resource excludes the namespace or the name. The object is
	// absent, which is known without a request.
	ReasonNotSelected Reason = "NotSelected"
)

// Reasons returns all reasons, in the order above.
func Reasons() []Reason {
	return []Reason{ReasonImmutable, ReasonOnDemand, ReasonInvalidName, ReasonNotSelected}
}

// Status describes one object and its stream or its reads. It holds no object data.
type Status struct {
	// Key is the object's namespace and name.
	Key types.NamespacedName
	// Phase is what a Get returns now.
	Phase Phase
	// Stream is how changes of the object arrive, also while they do not because its
	// reads fail.
	Stream StreamType
	// Reason is why the object needs no stream. Empty if it has one, or as long
	// as it is not known whether it needs one.
	Reason Reason
	// Parked is set while that stream is open and has no goroutine: see the documentation of
	// the package. It stays set while another goroutine handles what the stream brings. It is
	// not set for the moment between the first state and the parking.
	Parked bool
	// Synced is set if Get returns the object, or that it is absent, to each owner without waiting.
	// It is not set while an object without a stream is read for a new owner: Get then waits, and
	// TryGet returns the previous state. In a [TTLStore] it stays set when the TTL is over, and Get
	// waits for the next read.
	Synced bool
	// Exists is set if the object exists in the last known state.
	Exists bool
	// UID and ResourceVersion are the object's, empty unless it exists.
	UID             types.UID
	ResourceVersion string
	// LastContact is when the server last sent a read, an event or a bookmark of the object, of those
	// that have passed the function of WithTransform. Zero if it never did.
	LastContact time.Time
	// NotUpdatedSince is since when changes of the known state do not arrive: the stream ended
	// then, or the read that fails or hangs began. It is not before LastContact.
	//
	// It is zero while changes arrive, also by lists or GETs ([StreamPolled]), if the object needs no stream
	// and the last read of it did not fail, and if no state is known. It also stays zero for 5 s after
	// the regular end of a stream, unless an attempt fails: the next one opens within about 0.1 s, and
	// metrics would flicker.
	NotUpdatedSince time.Time
	// ChangedAt is when the known state came to this process: the object was read for the first
	// time, or was created, changed or deleted. A read of the state that is known does not count.
	// Zero if no state is known.
	ChangedAt time.Time
	// NextRead is when an object without a stream is read again: an immutable one after
	// WatchOptions.ImmutableRecheck. The last such read is LastContact, or
	// LastErrorTime if it failed. Zero if a stream is open or being opened, while a read is
	// under way, and if none is planned.
	NextRead time.Time
	// Waiting is why no request is under way, nil while one is, and while the stream is open.
	Waiting error
	// AskedAt is when the server was asked for the state, if it has not answered yet; else
	// zero. An attempt without an answer fails after a minute (15 s in a [TTLStore]). While
	// a Get waits it fails after 5 s, and the next ones after twice as long each: see
	// [WatchStore.Get].
	AskedAt time.Time
	// Failures counts the attempts that failed since the last completed read; for [StreamPolled], since there was
	// a stream.
	Failures int
	// LastError is the cause of the last failure, and LastErrorTime its time. Both
	// are kept after the next success. apierrors.IsNotFound never holds for
	// LastError: see [resource.NotServedError].
	LastError     error
	LastErrorTime time.Time
	// Owners are the UIDs that AddReference was called with, sorted. A manager passes
	// "kind/namespace/name" for an owner without UID. The slice is shared: do not change it.
	Owners []types.UID
}

// Status returns the status of an object, and false if no owner references it.
func (s *WatchStore[T]) Status(namespace, name string) (Status, bool) {
	e := s.entry(types.NamespacedName{Namespace: namespace, Name: name})
	if e == nil {
		return Status{}, false
	}
	return s.statusOf(e)
}

// statusOf returns the status of an entry, and false if its last reference is gone.
func (s *WatchStore[T]) statusOf(e *entry[T]) (Status, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.owners.Empty() {
		return Status{}, false
	}
	return s.statusLocked(e), true
}

// HasSynced returns [Status].Synced of an object, false if no owner references it. It mostly costs
// what a Get does, and does not count as a use of the object.
func (s *WatchStore[T]) HasSynced(namespace, name string) bool {
	e := s.entry(types.NamespacedName{Namespace: namespace, Name: name})
	if e == nil {
		return false
	}
	if s.viewOf(e) != nil {
		return true
	}
	status, _ := s.statusOf(e)
	return status.Synced
}

// Statuses yields the status of every referenced object, in no order. Each is
// taken at a moment of its own. No lock is held while the body of the loop runs.
// References that are added or deleted meanwhile may or may not be seen.
func (s *WatchStore[T]) Statuses() iter.Seq[Status] {
	return func(yield func(Status) bool) {
		for e := range s.entries.all() {
			if status, ok := s.statusOf(e); ok && !yield(status) {
				return
			}
		}
	}
}

func (s *WatchStore[T]) statusLocked(e *entry[T]) Status {
	status := Status{Key: e.key, Owners: e.owners.List(), Stream: StreamNone}
	w := e.watch.Load()
	if w == nil {
		status.Phase = s.phaseWithoutWatchLocked(e)
		status.Reason = reasons[e.absent]
		if status.Synced = s.viewOf(e) != nil; status.Synced {
			status.ChangedAt = s.timeOf(e.changedAt)
		}
		return status
	}
	facts, state := s.factsLocked(e, w)
	stream := facts.Attempts
	status.Stream = streamTypeLocked(w)
	switch w.upkeep {
	case engine.ByNone:
		status.Reason = reasons[w.reason]
	case engine.ByRead:
		status.Reason = reasons[s.natureLocked(e).WithoutStream()]
	}
	if status.Stream == StreamNamed && stream.Polled {
		status.Stream = StreamPolled
	}
	status.Parked = stream.Parked && status.Stream != StreamNone
	status.LastContact, status.Failures, status.Waiting = later(s.contact(e), stream.LastContact), stream.Failures, stream.Waiting
	if stream.AnsweredAt.IsZero() {
		status.AskedAt = stream.AskedAt
	}
	status.LastError, status.LastErrorTime = s.resource.Explain(stream.LastError), stream.LastErrorTime
	status.NextRead = e.nextReadLocked(w)
	if state.Synced {
		status.NotUpdatedSince, status.ChangedAt = notUpdatedSince(stream, status.LastContact), s.timeOf(e.changedAt)
	}
	synced, served := s.servesLocked(e, w, &facts)
	status.Synced, status.Phase = synced, phaseLocked(w, served, &status, state.Exists, stream)
	if status.Exists = state.Exists; state.Exists {
		status.UID, status.ResourceVersion = state.Object.GetUID(), state.Object.GetResourceVersion()
	}
	return status
}

// servesLocked reports whether a Get would return the state of an entry with a watch, without
// waiting (synced), and whether it would if it could not wait (served). It decides as a Get does.
func (s *WatchStore[T]) servesLocked(e *entry[T], w *objectWatch[T], facts *engine.Facts) (synced, served bool) {
	if s.viewOf(e) != nil {
		return true, true
	}
	now := time.Now()
	d := s.demandOfAllLocked(e)
	d.NotBefore = notBefore(now, s.options.MaxStaleness)
	verdict, _ := d.Answer(facts, s.options.RefusalGrace, now)
	d.Ended, d.Lapsed = true, s.hasLapsed(w)
	last, _ := d.Answer(facts, s.options.RefusalGrace, now)
	return verdict.Serves(), last.Serves()
}

// reopenGrace is how long it may take to open a stream that has ended, or to read an object without
// one again, before the object counts as not updated.
const reopenGrace = 5 * time.Second

// notUpdatedSince returns since when changes of a known state do not arrive: see
// Status.NotUpdatedSince. contact is when the server last sent something about the object.
func notUpdatedSince(stream reflector.Status, contact time.Time) (since time.Time) {
	if since = stream.NotUpdatedSince; since.IsZero() || stream.Polled {
		return time.Time{}
	}
	if since = later(since, contact); stream.Failures == 0 && time.Since(since) < reopenGrace {
		return time.Time{}
	}
	return since
}

// nextReadLocked returns when an object without a stream is read again; zero if no read is
// planned.
func (e *entry[T]) nextReadLocked(w *objectWatch[T]) (at time.Time) {
	if t := e.timersLocked().read; w.upkeep == engine.ByNone && t != nil && !t.stopped {
		at = t.at
	}
	return at
}

// streamTypeLocked returns how the changes of an entry with a watch arrive.
func streamTypeLocked[T cache.Object](w *objectWatch[T]) StreamType {
	switch w.upkeep {
	case engine.ByStream:
		return StreamNamed
	}
	return StreamNone
}

// phaseWithoutWatchLocked returns the phase of an entry that has no watch.
func (s *WatchStore[T]) phaseWithoutWatchLocked(e *entry[T]) Phase {
	switch {
	case s.stopped:
		return PhaseStopped
	case e.isAbsent():
		return PhaseAbsent
	case s.ctx == nil, s.ttl != nil:
		return PhasePending
	}
	return PhaseIdle
}

// reasons are those of the engine for an object to have no stream.
var reasons = [...]Reason{
	engine.OnDemand: ReasonOnDemand, engine.Immutable: ReasonImmutable,
	engine.InvalidName: ReasonInvalidName, engine.NotSelected: ReasonNotSelected,
}

// phaseLocked returns the phase of an entry with a watch, whose state a Get returns if served is set.
func phaseLocked[T cache.Object](w *objectWatch[T], served bool, status *Status, exists bool, stream reflector.Status) Phase {
	switch {
	case served && !exists:
		return PhaseAbsent
	case served && !status.NotUpdatedSince.IsZero():
		return PhaseNotUpdated
	case served:
		return PhaseServing
	case stream.Failures > 0:
		return PhaseFailing
	case w.upkeep == engine.ByNone, stream.Streaming:
		return PhasePending
	}
	return PhaseSyncing
}
