// SPDX-License-Identifier: Apache-2.0

package objectcache

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/refwatch/refwatch/cache"
	"github.com/refwatch/refwatch/internal/reflector"
	"github.com/refwatch/refwatch/internal/states"
	"github.com/refwatch/refwatch/objectcache/resource"
)

// DirectReads is how many reads of a [DirectStore] are under way at a time. Other Gets
// queue.
const DirectReads = 32

// directReadTimeout is how long the read of a Get may take. The read of one object takes
// milliseconds.
const directReadTimeout = 15 * time.Second

// DirectOptions selects a [DirectStore]. There is nothing to configure.
type DirectOptions struct{}

// DirectStore is a [Store] that reads an object from the server for each Get, and keeps
// nothing. It ignores references: every object can be read, as with kubelet's strategy
// Get. Make one with [NewDirectStore].
type DirectStore[T cache.Object] struct {
	resource kind[T]
	reads    chan struct{}                   // holds an element for each read under way
	run      atomic.Pointer[context.Context] // of Run; nil before
	stopped  chan struct{}                   // closed when that context has ended

	counters reflector.Counters // of reads
	gets     getCounters
}

var (
	errNotCached  = errors.New("a DirectStore holds no object: call Get")
	errOtherReads = fmt.Errorf("waited for other reads: %d are under way", DirectReads)
)

// NewDirectStore returns a store. It returns an error if the resource has no client, an
// invalid name or a selector.
func NewDirectStore[T cache.Object](resource resource.Resource[T], _ DirectOptions) (*DirectStore[T], error) {
	kind, err := newKindOfGets(resource)
	if err != nil {
		return nil, fmt.Errorf("new direct store: %w", err)
	}
	return &DirectStore[T]{resource: kind, reads: make(chan struct{}, DirectReads), stopped: make(chan struct{})}, nil
}

// Run blocks until ctx ends, and returns nil. Every Get after that returns [ErrStopped].
// Those that are under way end with their own contexts, and then have it joined to their errors.
// Gets need not wait for Run. A second call returns [ErrAlreadyStarted], a nil context
// [ErrNilContext].
func (s *DirectStore[T]) Run(ctx context.Context) error {
	if ctx == nil {
		return ErrNilContext
	}
	if !s.run.CompareAndSwap(nil, &ctx) {
		return ErrAlreadyStarted
	}
	s.resource.logRateLimit(ctx)
	<-ctx.Done()
	close(s.stopped)
	return nil
}

// Get reads an object with one GET. It is not repeated. At most [DirectReads] Gets read
// at a time; the others wait until ctx ends. A read that the server does not answer within
// 15 s fails. The object is the caller's own, but callers of another
// [Store] share it, so do not change it.
//
// These are the errors. All but [ErrNilContext] name the resource and the key.
//   - apierrors.IsNotFound: the server has no such object, or cannot have it. It holds for no
//     other error: if the server does not serve the path, the error is a
//     [resource.NotServedError].
//   - [ErrNotSynced]: the object could not be read. Joined to it is the cause, and the
//     error of ctx, if it ended.
//   - [ErrInvalidName]: no object can have that namespace or name. apierrors.IsNotFound holds,
//     too, unless the key has no name or the wrong scope.
//   - [ErrStopped]: the context of Run has ended. Joined to it are its error and its cause, and
//     what belongs to [ErrNotSynced] if the read was under way, or ctx has ended as well.
//   - [ErrNilContext]: ctx is nil.
func (s *DirectStore[T]) Get(ctx context.Context, namespace, name string) (T, error) {
	object, err := s.get(ctx, types.NamespacedName{Namespace: namespace, Name: name})
	return object, s.gets.count(ctx, err, true, false)
}

func (s *DirectStore[T]) get(ctx context.Context, key types.NamespacedName) (T, error) {
	var none T
	if ctx == nil {
		return none, s.resource.Error(key, ErrNilContext)
	}
	if err := s.check(ctx, key); err != nil {
		return none, err
	}
	select {
	case <-s.stopped:
		return none, s.failure(ctx, key)
	case s.reads <- struct{}{}:
	case <-ctx.Done():
		return none, s.failure(ctx, key, errOtherReads)
	}
	next := sync.OnceFunc(func() { <-s.reads })
	defer next()
	read, cancel := context.WithTimeout(ctx, directReadTimeout)
	defer cancel()
	object, err := s.resource.read(read, key, next)
	switch {
	case err == nil, apierrors.IsNotFound(err):
		s.counters.CountRead(nil)
		return object, err
	case ctx.Err() == nil: // ctx has not ended the read
		s.counters.CountRead(err)
	}
	if read.Err() != nil && !errors.Is(err, resource.ErrTransform) { // err says no more
		err = reflector.ErrNoAnswer
		if limit := s.resource.RateLimit(); limit != nil {
			return none, s.failure(ctx, key, err, limit)
		}
	}
	return none, s.failure(ctx, key, err)
}

// check returns why the object of a key cannot be read.
func (s *DirectStore[T]) check(ctx context.Context, key types.NamespacedName) error {
	if s.endedRun() != nil {
		return s.failure(ctx, key)
	}
	return s.resource.CheckKey(key)
}

// endedRun returns the context of Run if it has ended, else nil.
func (s *DirectStore[T]) endedRun() context.Context {
	if run := s.run.Load(); run != nil && (*run).Err() != nil {
		return *run
	}
	return nil
}

// failure returns the error of a Get that has read no state.
func (s *DirectStore[T]) failure(ctx context.Context, key types.NamespacedName, causes ...error) error {
	if run := s.endedRun(); run != nil {
		return s.resource.Error(key, hasStopped(run, ctx, causes...)...)
	}
	return s.resource.Error(key, notSynced(ctx, causes...)...)
}

// GetWithOptions is Get: each read is live, and no older than it began. If the object is
// older than NotOlderThan, which must be a version of the object itself, the error is
// [ErrNotSynced] joined with [ErrStale]. An option with an invalid value is an error.
func (s *DirectStore[T]) GetWithOptions(ctx context.Context, namespace, name string, options GetOptions) (T, error) {
	object, err := s.getWithOptions(ctx, types.NamespacedName{Namespace: namespace, Name: name}, options)
	if options.uncounted {
		return object, err
	}
	return object, s.gets.count(ctx, err, true, false)
}

func (s *DirectStore[T]) getWithOptions(ctx context.Context, key types.NamespacedName, options GetOptions) (T, error) {
	var none T
	if err := options.validate(); err != nil {
		return none, s.resource.Error(key, err)
	}
	object, err := s.get(ctx, key)
	if err != nil || options.NotOlderThan == "" {
		return object, err
	}
	if err := tooOld(object.GetResourceVersion(), options.NotOlderThan); err != nil {
		return none, s.resource.Error(key, notSynced(ctx, err)...)
	}
	return object, nil
}

// tooOld returns an error if a version is older than the one that is demanded.
func tooOld(version, demanded string) error {
	if order, err := states.CompareVersions(version, demanded); err == nil && order >= 0 {
		return nil
	}
	return &StaleError{version, demanded}
}

// TryGet returns [ErrNotSynced]: a DirectStore holds no object. For a name that no
// object can have it returns [ErrInvalidName], and [ErrStopped] after Run.
func (s *DirectStore[T]) TryGet(namespace, name string) (T, error) {
	key := types.NamespacedName{Namespace: namespace, Name: name}
	var none T
	err := s.check(context.Background(), key)
	if err == nil {
		err = s.resource.Error(key, ErrNotSynced, errNotCached)
	}
	return none, s.gets.count(context.Background(), err, false, true)
}

// AddReference does nothing.
func (s *DirectStore[T]) AddReference(_, _ string, _ types.UID) {}

// DeleteReference does nothing.
func (s *DirectStore[T]) DeleteReference(_, _ string, _ types.UID) {}

// Changes yields nothing, until ctx ends or the store is stopped.
func (s *DirectStore[T]) Changes(ctx context.Context) iter.Seq2[Change[T], []types.UID] {
	return func(func(Change[T], []types.UID) bool) {
		if ctx == nil {
			klog.Background().Error(ErrNilContext, "No changes are delivered")
			return
		}
		select {
		case <-ctx.Done():
		case <-s.stopped:
		}
	}
}

// Status returns false: a DirectStore knows of no object.
func (s *DirectStore[T]) Status(_, _ string) (Status, bool) { return Status{}, false }

// HasSynced returns false: the store holds no object.
func (s *DirectStore[T]) HasSynced(_, _ string) bool { return false }

// Statuses yields nothing.
func (s *DirectStore[T]) Statuses() iter.Seq[Status] { return func(func(Status) bool) {} }
