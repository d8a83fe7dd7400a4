// SPDX-License-Identifier: Apache-2.0

package objectcache

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"math"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/refwatch/refwatch/cache"
	"github.com/refwatch/refwatch/internal/states"
	"github.com/refwatch/refwatch/objectcache/internal/engine"
	"github.com/refwatch/refwatch/objectcache/resource"
)

// TTLStore is a [Store] that reads a referenced object when a Get needs it, and serves
// it from memory until its TTL is over. It keeps no streams. Make one with
// [NewTTLStore].
//
// Reads of one object never overlap. Those that Gets ask for begin at least 100 ms apart. Gets that wait for the
// same object share a read. A read belongs to Run: it goes on if the context of the Get that
// has caused it ends. A read that fails is repeated, as the [Gate] allows, after 0.1 s at
// first and 15 s later, until it succeeds or the last reference is deleted.
type TTLStore[T cache.Object] struct {
	store *WatchStore[T] // with another policy: see OnDemand in package engine
}

// NewTTLStore returns a store that sends no request until Run, and then only for a Get.
// It returns an error if the resource has no client, an invalid name or a selector.
func NewTTLStore[T cache.Object](resource resource.Resource[T], options TTLOptions) (*TTLStore[T], error) {
	kind, err := newKindOfGets(resource)
	if err != nil {
		return nil, fmt.Errorf("new TTL store: %w", err)
	}
	options.setDefaults()
	store := newWatchStore(kind, WatchOptions{RefusalGrace: options.RefusalGrace, OutageGrace: options.OutageGrace, MaxStaleness: options.MaxStaleness, Gate: options.Gate})
	store.ttl, store.readSpacing, store.mayHedge = &options, ttlReadSpacing, false
	return &TTLStore[T]{store}, nil
}

// Run reads the objects that Gets wait for. Otherwise it is as [WatchStore.Run] describes.
func (s *TTLStore[T]) Run(ctx context.Context) error { return s.store.Run(ctx) }

// AddReference implements [Store]. It sends no request. The next Get waits for a read
// that begins after the call if the owner is a new one. An object that cannot exist
// ([ErrInvalidName]) is absent, as in a [WatchStore].
func (s *TTLStore[T]) AddReference(namespace, name string, referencedFrom types.UID) {
	s.store.AddReference(namespace, name, referencedFrom)
}

// DeleteReference implements [Store]. Deleting the last reference drops the object and
// ends its reads. Gets that wait for the object return [ErrNotRegistered].
func (s *TTLStore[T]) DeleteReference(namespace, name string, referencedFrom types.UID) {
	s.store.DeleteReference(namespace, name, referencedFrom)
}

// Get returns a referenced object. All callers share it, and it must not be changed. It
// comes from memory, without a lock and without allocating, if it was read within its
// TTL, and after the newest owner was added. Otherwise Get waits for a read, for as long
// as ctx allows. A read without an answer is given up after 5 s, and after 10 and 15 s the next
// times, if Get waits, else after 15 s. Where the server is far away they are longer: see
// [WatchStore.Get].
//
// An object that cannot be read again, for another reason than that it is absent, is
// served for as long as that lasts, however old it is, unless TTLOptions.MaxStaleness is
// set. So Get returns the previous object when the read that it waits for fails, when
// ctx ends first, when no reflector reaches the server, when the server has asked to wait
// (Retry-After), or when the read has no answer for 1.5 s, and for much longer than usual. From
// then on Get returns that object at once, until a later read succeeds. After a new owner was
// added, Get waits for 1.5 s before it returns the previous object for an outage or a
// Retry-After. That holds for all owners, also new ones, because Get does
// not know which owner asks. [Status] has the failure, and LastContact the time of the last
// read. An absence is not served beyond its TTL.
//
// The errors are those of [WatchStore.Get], with TTLOptions in place of WatchOptions. A
// Get of an object that was never read returns a refusal (401, 403) after
// TTLOptions.RefusalGrace.
func (s *TTLStore[T]) Get(ctx context.Context, namespace, name string) (T, error) {
	return s.store.Get(ctx, namespace, name)
}

// GetWithOptions is Get with demands on the state that it returns: see [GetOptions].
// A Live Get waits for a read that begins after the call. NotOlderThan must be a version
// of the object itself, because the read of one object shows no other. The errors are
// those of Get. An option with an invalid value is an error, too.
func (s *TTLStore[T]) GetWithOptions(ctx context.Context, namespace, name string, options GetOptions) (T, error) {
	return s.store.GetWithOptions(ctx, namespace, name, options)
}

// TryGet returns a referenced object from memory, and never waits. If its TTL is over, or
// Get would wait for the read for a new owner, the object is read again in the background,
// and TryGet returns the previous object meanwhile. [ErrNotSynced] means that no object is
// held, or that it is older than TTLOptions.MaxStaleness; TryGet then asks for a read, too. The
// other errors are those of Get.
func (s *TTLStore[T]) TryGet(namespace, name string) (T, error) {
	return s.store.TryGet(namespace, name)
}

// Changes yields what the reads of the store observe, as [WatchStore.Changes] describes. The
// store reads for Gets only: without Gets there are no changes, and no first states but those
// of objects that cannot exist.
func (s *TTLStore[T]) Changes(ctx context.Context) iter.Seq2[Change[T], []types.UID] {
	return s.store.Changes(ctx)
}

// Status returns the status of an object, and false if no owner references it.
func (s *TTLStore[T]) Status(namespace, name string) (Status, bool) {
	return s.store.Status(namespace, name)
}

// HasSynced returns [Status].Synced of an object, false if no owner references it. It stays true
// when the TTL of a state is over. It mostly costs what a Get does.
func (s *TTLStore[T]) HasSynced(namespace, name string) bool {
	return s.store.HasSynced(namespace, name)
}

// Statuses yields the status of every referenced object, as [WatchStore.Statuses] does.
func (s *TTLStore[T]) Statuses() iter.Seq[Status] { return s.store.Statuses() }

// Stats returns what the store holds and has done so far.
func (s *TTLStore[T]) Stats() Stats { return s.store.Stats() }

// Permissions returns what the store needs for each object: get.
func (s *TTLStore[T]) Permissions() Permissions { return s.store.resource.permissions("get") }

// TTLOptions selects and configures a [TTLStore]. The zero value is valid.
type TTLOptions struct {
	// TTL is for how long an object is served without another read, counted from the
	// beginning of the read. The first Get after it reads the object again. Default: 1
	// minute, as in kubelet. A negative value serves it until there is a new owner. If TTLFunc
	// returns 0, each Get reads; Gets that wait at the same time share a read. The time for
	// which the machine was suspended counts (Linux).
	TTL time.Duration
	// TTLFunc returns the TTL for the object that was just read, or false for the default
	// above. A negative value is as that of TTL. It is called once for each read, so a new TTL
	// holds from the next read on. [TTLFromNode] makes one. Default: nil.
	TTLFunc func() (ttl time.Duration, ok bool)
	// NotFoundTTL is for how long Get returns NotFound without another read; the smaller
	// one of TTL and NotFoundTTL counts. A program that waits for an object sees it that
	// late, and sends one request in that time, however often it asks. Default: 1 s. With
	// a negative value, TTL counts.
	NotFoundTTL time.Duration
	// MaxStaleness bounds the age of an object that is served although it cannot be read
	// again. If it is older, Get waits for a read, and fails with [ErrStale] and the
	// cause. Immutable objects are never stale. Default, also for a negative value: no bound.
	MaxStaleness time.Duration
	// RefusalGrace is how long a Get waits while the server answers every attempt with
	// 401, 403 or another refusal, and no object is held. The Node authorizer needs a
	// moment to see a pod that was just bound. Default: 1 s. A negative value waits for
	// as long as the context allows.
	RefusalGrace time.Duration
	// OutageGrace is that of [WatchOptions], for objects of which none is held. Default: 1 s.
	OutageGrace time.Duration
	// ImmutableRecheck is the TTL of an immutable object, if it is longer than TTL: its
	// data cannot change, but it may have been deleted and created again. Each time a
	// random duration of up to as much is added. Default: 10 minutes. With a negative
	// value, such an object is read for a new owner only.
	ImmutableRecheck time.Duration
	// Gate bounds how many reads are under way at a time. Stores that reach one server as
	// one user should share one. Default: a Gate of its own.
	Gate *Gate
}

const (
	defaultTTL         = time.Minute // kubelet's
	defaultNotFoundTTL = time.Second
)

// TTLFromNode returns a function for [TTLOptions].TTLFunc: the TTL that the annotation
// node.alpha.kubernetes.io/ttl of a Node demands, in seconds. kube-controller-manager
// sets it to 0 in a cluster of 100 nodes, and to 300 in one of 2,000. kubelet's TTL
// manager does the same. getNode must return a Node from memory, such as that of a
// lister. If it fails, or the annotation is missing or no number, the default counts.
func TTLFromNode(getNode func() (*corev1.Node, error)) func() (time.Duration, bool) {
	return func() (time.Duration, bool) {
		node, err := getNode()
		if err != nil || node == nil {
			return 0, false
		}
		seconds, err := strconv.ParseUint(node.Annotations[corev1.ObjectTTLAnnotationKey], 10, 31)
		return time.Duration(seconds) * time.Second, err == nil
	}
}

// setDefaults replaces each zero value that stands for another one.
func (o *TTLOptions) setDefaults() {
	o.TTL = forever(cmp.Or(o.TTL, defaultTTL))
	o.NotFoundTTL = forever(cmp.Or(o.NotFoundTTL, defaultNotFoundTTL))
	o.RefusalGrace = cmp.Or(o.RefusalGrace, defaultRefusalGrace)
	o.OutageGrace = cmp.Or(o.OutageGrace, defaultOutageGrace)
	o.ImmutableRecheck = cmp.Or(o.ImmutableRecheck, defaultImmutableRecheck)
	if o.Gate == nil {
		o.Gate = NewGate(GateOptions{})
	}
}

// forever returns a duration of the options, of which a negative one has no end.
func forever(d time.Duration) time.Duration {
	if d < 0 {
		return math.MaxInt64
	}
	return d
}

// The policy of a TTLStore, which is a WatchStore without streams. It reads an object with a
// GET, and for Gets alone: see startUnaskedLocked, and OnDemand in package engine. This file
// decides until when a state is served, and when a Get asks for a read.

// ttlReadSpacing is the shortest time between the beginnings of two reads of one object:
// however many Gets demand live reads, the server answers at most ten a second.
const ttlReadSpacing = 100 * time.Millisecond

// freshUntil returns until when a state is served. began is when the read began that brought it.
func (s *WatchStore[T]) freshUntil(began time.Time, state states.State[T]) int64 {
	immutable := s.isImmutable(state)
	return s.until(began, s.ttl.of(state.Exists, immutable), immutable)
}

// until returns began plus ttl, or plus MaxStaleness if that is shorter and the state is not
// immutable.
func (s *WatchStore[T]) until(began time.Time, ttl time.Duration, immutable bool) int64 {
	if bound := s.ttl.MaxStaleness; bound > 0 && !immutable {
		ttl = min(ttl, bound)
	}
	since := max(0, s.sinceBase(began))
	return since + min(int64(ttl), math.MaxInt64-since)
}

// prolongLocked serves the object that is held beyond its TTL, until the read that is under
// way has succeeded: see lapseLocked.
func (s *WatchStore[T]) prolongLocked(w *objectWatch[T]) {
	if w.upkeep != engine.ByRead || !w.entry.state().Exists {
		return
	}
	w.until.Store(s.until(s.contact(w.entry), math.MaxInt64, w.entry.immutable))
	s.publishLocked(w.entry)
}

// lapseLocked is called when a read has succeeded. It takes back what keepPreviousLocked
// has done until then: the state is served for its TTL, and an owner needs a read of its own.
func (s *WatchStore[T]) lapseLocked(w *objectWatch[T]) {
	w.until.Store(w.lapses)
	w.entry.previousFor = min(w.entry.previousFor, w.entry.readFor)
}

// requestGetLocked asks for the read that g needs. If a request is under way, g first waits for
// its answer, which is fresh unless the TTL is 0.
func (s *WatchStore[T]) requestGetLocked(g *waiter[T]) {
	e := g.entry
	w := e.watch.Load()
	if w == nil { // the watch that begins now reads for g
		e.readBegan = s.now()
		s.readForLocked(g)
		return
	}
	d := s.demandLocked(g)
	f, _ := s.factsLocked(e, w)
	switch {
	case f.Meets(&d), g.slept && g.ctx.Err() != nil:
	case g.read > 0:
		s.readAgainLocked(g, w)
	case g.live, g.slept, f.Attempts.AskedAt.IsZero():
		s.readForLocked(g)
	}
}

// readAfterLocked starts the read that a Get has asked for after a pause. The Get may have ended.
func (s *WatchStore[T]) readAfterLocked(e *entry[T], pause time.Duration) {
	s.stopTimerLocked(e.timersLocked().read)
	e.startableLocked().read = s.startTimerLocked(pause, func() time.Duration {
		s.startReadLocked(e)
		return 0
	})
}

// of returns for how long a state that was just read is served.
func (o *TTLOptions) of(exists, immutable bool) time.Duration {
	ttl := o.TTL
	if o.TTLFunc != nil {
		if own, ok := o.TTLFunc(); ok {
			ttl = forever(own)
		}
	}
	switch {
	case !exists:
		return min(ttl, o.NotFoundTTL)
	case !immutable:
		return ttl
	case o.ImmutableRecheck < 0:
		return math.MaxInt64
	}
	return max(ttl, jittered(o.ImmutableRecheck))
}
