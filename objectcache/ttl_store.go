// SPDX-License-Identifier: Apache-2.0

package objectcache

import (
	"context"
	"fmt"
	"iter"

	"k8s.io/apimachinery/pkg/types"

	"github.com/refwatch/refwatch/cache"
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
	store *WatchStore[T] // with another policy: see ttl.go
}

// NewTTLStore returns a store that sends no request until Run, and then only for a Get.
// It returns an error if the resource has no client or an invalid name.
func NewTTLStore[T cache.Object](resource resource.Resource[T], options TTLOptions) (*TTLStore[T], error) {
	kind, err := newKind(resource)
	if err != nil {
		return nil, fmt.Errorf("new TTL store: %w", err)
	}
	options.setDefaults()
	store := newWatchStore(kind, WatchOptions{RefusalGrace: options.RefusalGrace, MaxStaleness: options.MaxStaleness, Gate: options.Gate})
	store.ttl, store.readSpacing, store.mayHedge = &options, ttlReadSpacing, false
	return &TTLStore[T]{store}, nil
}

// Run reads the objects that Gets wait for. Otherwise it is as [WatchStore.Run] describes.
func (s *TTLStore[T]) Run(ctx context.Context) error { return s.store.Run(ctx) }

// AddReference implements [Store]. It sends no request. The next Get waits for a read
// that begins after the call if the owner is a new one. A namespace or name that no
// object can have is logged and not counted, and Get returns [ErrInvalidName] for it.
func (s *TTLStore[T]) AddReference(namespace, name string, referencedFrom types.UID) {
	s.store.AddReference(namespace, name, referencedFrom)
}

// AddReadOnceReference implements [Store]. It is AddReference: the store keeps no stream.
func (s *TTLStore[T]) AddReadOnceReference(namespace, name string, referencedFrom types.UID) {
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
// times, if Get waits, else after 15 s.
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
// store reads for Gets only: without Gets there are no changes, and no first states.
func (s *TTLStore[T]) Changes(ctx context.Context) iter.Seq2[Change[T], []types.UID] {
	return s.store.Changes(ctx)
}

// Status returns the status of an object, and false if no owner references it.
func (s *TTLStore[T]) Status(namespace, name string) (Status, bool) {
	return s.store.Status(namespace, name)
}

// Statuses yields the status of every referenced object, as [WatchStore.Statuses] does.
func (s *TTLStore[T]) Statuses() iter.Seq[Status] { return s.store.Statuses() }

// Stats returns what the store holds and has done so far.
func (s *TTLStore[T]) Stats() Stats { return s.store.Stats() }

// Permissions returns what the store needs for each object: get.
func (s *TTLStore[T]) Permissions() Permissions { return s.store.resource.permissions("get") }
