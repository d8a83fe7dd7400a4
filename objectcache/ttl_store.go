// SPDX-License-Identifier: Apache-2.0

package objectcache

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/refwatch/refwatch/cache"
	"github.com/refwatch/refwatch/objectcache/resource"
	"github.com/refwatch/refwatch/reflector"
)

// TTLStore is a [Store] that reads a referenced object when a Get needs it, and serves
// it from memory until its TTL is over. It keeps no streams. Make one with
// [NewTTLStore].
//
// Reads of one object never overlap. They begin at least 100 ms apart, and each may take
// [reflector.ReadTimeout]. Gets that wait for the same object share a read. A read
// belongs to Run: it goes on if the context of the Get that has caused it ends. A read
// that fails is repeated, as the [Gate] allows, after 0.1 s at first and 15 s later,
// until it succeeds or the last reference is deleted.
type TTLStore[T cache.Object] struct {
	resource kind[T]
	options  TTLOptions
	explain  func(error) error

	entries          sync.Map       // types.NamespacedName to *ttlEntry[T]; written with mu held
	background       sync.WaitGroup // goroutines that read, which Run waits for
	loggedNotStarted sync.Once
	counters         reflector.Counters // of all its readers
	gets             getCounters

	mu          sync.Mutex
	ctx         context.Context // of Run, with which every read ends; nil before Run
	stopped     bool
	created     uint64 // entries so far
	objects     int    // entries
	references  int    // owners of all entries
	subscribers subscribers
}

// NewTTLStore returns a store that sends no request until Run, and then only for a Get.
// It returns an error if the resource has no client or an invalid name, or if an option
// has an invalid value.
func NewTTLStore[T cache.Object](resource resource.Resource[T], options TTLOptions) (*TTLStore[T], error) {
	kind, err := newKind(resource)
	if err := errors.Join(err, options.validate()); err != nil {
		return nil, fmt.Errorf("new TTL store: %w", err)
	}
	options.setDefaults()
	return &TTLStore[T]{resource: kind, options: options, explain: kind.ExplainFailure, subscribers: subscribers{}}, nil
}

// Run reads the objects that Gets wait for. It blocks until ctx ends and every
// goroutine of the store has ended, and returns nil. A second call returns
// [ErrAlreadyStarted], a nil context [ErrNilContext]. The store logs as [WatchStore.Run]
// describes.
func (s *TTLStore[T]) Run(ctx context.Context) error {
	if ctx == nil {
		return ErrNilContext
	}
	if !s.start(ctx) {
		return ErrAlreadyStarted
	}
	s.resource.logRateLimit(ctx)
	<-ctx.Done()
	s.stop()
	s.background.Wait()
	return nil
}

// start reports whether this is the first call.
func (s *TTLStore[T]) start(ctx context.Context) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx != nil {
		return false
	}
	s.ctx = ctx
	for _, e := range s.entries.Range {
		e.(*ttlEntry[T]).wakeLocked() // Gets that wait start a read
	}
	return true
}

func (s *TTLStore[T]) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopped = true
	for _, e := range s.entries.Range {
		e.(*ttlEntry[T]).dropLocked()
	}
	s.subscribers.shutDown()
}

// dropLocked ends the reads of an entry and drops the object. Gets that wait check
// again.
func (e *ttlEntry[T]) dropLocked() {
	if e.cancel != nil {
		e.cancel()
	}
	e.reader.Stop()
	e.reading.Store(nil)
	e.wakeLocked()
}

// AddReference implements [Store]. It sends no request. The next Get waits for a read
// that begins after the call if the owner is a new one. A namespace or name that no
// object can have is logged and not counted, and Get returns [ErrInvalidName] for it.
func (s *TTLStore[T]) AddReference(namespace, name string, referencedFrom types.UID) {
	key := types.NamespacedName{Namespace: namespace, Name: name}
	if s.entry(key) == nil {
		if err := s.resource.validateKey(key); err != nil {
			s.logger().Error(err, "Reference not counted", "owner", referencedFrom)
			return
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entry(key)
	if e == nil {
		e = s.newEntryLocked(key)
	}
	if e.owners.add(referencedFrom, false) {
		s.references++
		e.newestOwner.Store(e.owners.reads)
		e.ownerAddedAt = time.Now()
		s.subscribers.notify(key)
	}
}

// AddReadOnceReference implements [Store]. It is AddReference: the store keeps no stream.
func (s *TTLStore[T]) AddReadOnceReference(namespace, name string, referencedFrom types.UID) {
	s.AddReference(namespace, name, referencedFrom)
}

func (s *TTLStore[T]) newEntryLocked(key types.NamespacedName) *ttlEntry[T] {
	s.created++
	s.objects++
	e := &ttlEntry[T]{key: key, number: s.created}
	resource := s.resource.resource.String()
	e.reader = reflector.NewReader(reflector.Options{
		Name:     resource + " " + key.String(),
		Resource: resource,
		OnChange: func() { s.awaken(e) },
		Gate:     s.options.Gate,
		Counters: &s.counters,
		Explain:  s.explain,
	})
	s.entries.Store(key, e)
	return e
}

// awaken makes the Gets that wait for an object check again.
func (s *TTLStore[T]) awaken(e *ttlEntry[T]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e.wakeLocked()
}

// DeleteReference implements [Store]. Deleting the last reference drops the object and
// ends its reads. Gets that wait for the object return [ErrNotRegistered].
func (s *TTLStore[T]) DeleteReference(namespace, name string, referencedFrom types.UID) {
	key := types.NamespacedName{Namespace: namespace, Name: name}
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entry(key)
	if e == nil {
		return
	}
	gone, _ := e.owners.remove(referencedFrom)
	if gone > 0 {
		s.references--
	}
	switch {
	case e.owners.empty():
		s.objects--
		s.entries.Delete(key)
		e.dropLocked()
	case gone > 0 && gone >= e.newestOwner.Load(): // the others do not need its read
		e.newestOwner.Store(e.owners.newest())
		e.wakeLocked()
	default:
		return
	}
	s.subscribers.notify(key)
}

// logger returns the logger of Run's context, or klog's before Run.
func (s *TTLStore[T]) logger() klog.Logger {
	s.mu.Lock()
	ctx := s.ctx
	s.mu.Unlock()
	if ctx == nil {
		return klog.Background()
	}
	return klog.FromContext(ctx)
}

// Changes yields what the reads of the store observe. The store reads for Gets only:
// without Gets there are no changes, and no first states. Refusals are not yielded: Get
// returns them. Otherwise it is as [WatchStore.Changes] describes.
func (s *TTLStore[T]) Changes(ctx context.Context) iter.Seq2[Change[T], []types.UID] {
	return changesOf(ctx, s)
}

// addSubscriber implements changeSource.
func (s *TTLStore[T]) addSubscriber(queue *keyQueue) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return false
	}
	s.subscribers[queue] = struct{}{}
	for key := range s.entries.Range {
		queue.Add(key.(types.NamespacedName))
	}
	return true
}

// removeSubscriber implements changeSource.
func (s *TTLStore[T]) removeSubscriber(queue *keyQueue) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.subscribers, queue)
}

// snapshot implements changeSource.
func (s *TTLStore[T]) snapshot(key types.NamespacedName) (now snapshot[T], ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entry(key)
	if e == nil {
		return now, false
	}
	now.owners = e.owners.list()
	now.id = stateID{entry: e.number, owners: e.owners.added}
	r := e.reading.Load()
	if r == nil {
		return now, false
	}
	now.setState(&s.resource, key, r.state)
	return now, r.triedFor >= e.newestOwner.Load()
}

// Status returns the status of an object, and false if no owner references it.
func (s *TTLStore[T]) Status(namespace, name string) (Status, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entry(types.NamespacedName{Namespace: namespace, Name: name})
	if e == nil {
		return Status{}, false
	}
	return s.statusLocked(e), true
}

// Statuses yields the status of every referenced object, as [WatchStore.Statuses] does.
func (s *TTLStore[T]) Statuses() iter.Seq[Status] { return statuses(&s.entries, s.Status) }

func (s *TTLStore[T]) statusLocked(e *ttlEntry[T]) Status {
	reads, r := e.status(), e.reading.Load()
	status := Status{
		Key: e.key, Owners: e.owners.list(), LastContact: reads.LastContact, Waiting: reads.Waiting,
		Stream: StreamNone, Failures: reads.Failures, LastError: s.resource.explained(reads.LastError), LastErrorTime: reads.LastErrorTime,
	}
	switch {
	case s.stopped:
		return Status{Key: e.key, Owners: status.Owners, Phase: Stopped, Stream: StreamNone}
	case reads.Failures > 0:
		status.Phase = Failing
	case r != nil:
		status.Phase = Cached
	case e.cancel != nil:
		status.Phase = Syncing
	default:
		status.Phase = Pending
	}
	status.Synced = r != nil && r.triedFor >= e.newestOwner.Load() && !s.isStale(r, s.options.MaxStaleness)
	if r != nil && r.state.Exists {
		status.Exists, status.UID, status.ResourceVersion = true, r.state.Object.GetUID(), r.state.ResourceVersion
	}
	return status
}

// status returns the status of the reads. A 404 among the errors is a
// [resource.NotServedError].
func (e *ttlEntry[T]) status() reflector.Status {
	status := e.reader.Status()
	status.LastError = notServed(status.LastError)
	return status
}
