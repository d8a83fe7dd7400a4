// SPDX-License-Identifier: Apache-2.0

package objectcache

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/refwatch/refwatch/cache"
	"github.com/refwatch/refwatch/objectcache/resource"
	"github.com/refwatch/refwatch/reflector"
	"github.com/refwatch/refwatch/reflector/histogram"
)

// WatchStore is a [Store] that keeps a list-and-watch for each referenced object.
// Make one with [NewWatchStore].
type WatchStore[T cache.Object] struct {
	resource         kind[T]
	options          WatchOptions
	ttl              *TTLOptions   // nil unless it is that of a TTLStore
	readSpacing      time.Duration // the shortest time between two reads of an object without a stream that Gets demand
	explain          func(error) error
	unwatchImmutable bool      // end the streams of immutable objects
	mayHedge         bool      // has a REST client without a rate limit: see hedge.go
	base             time.Time // just before it was made
	uses             uint32    // what entry.used is set to by a use; 0 if nothing reads it

	entries          sync.Map       // types.NamespacedName to *entry[T]; written with mu held
	background       sync.WaitGroup // object watches and timers, which Run waits for
	loggedNotStarted sync.Once
	counters         reflector.Counters // of all its reflectors
	firstSync        histogram.Histogram
	gets             getCounters

	mu          sync.Mutex
	ctx         context.Context // of Run, with which every object watch ends; nil before Run
	stopped     bool
	created     uint64 // entries so far
	objects     int    // entries
	references  int    // owners of all entries
	waiters     int    // Gets that wait
	hedges      hedges[T]
	shared      map[string]*sharedNamespace[T] // nil without WatchOptions.Shared
	subscribers subscribers
	notices     map[types.NamespacedName]notice // of subscribers that wait for a time
	logLines    []logLine
	logging     bool // writeLog is under way
}

// NewWatchStore returns a store that sends no request until Run. It returns an
// error if the resource has no client or an invalid name, or if an option has an
// invalid value.
func NewWatchStore[T cache.Object](resource resource.Resource[T], options WatchOptions) (*WatchStore[T], error) {
	kind, err := newKind(resource)
	if err == nil {
		err = kind.checkShareable(&options.Shared)
	}
	if err := errors.Join(err, options.Shared.validate()); err != nil {
		return nil, fmt.Errorf("new watch store: %w", err)
	}
	options.setDefaults()
	return newWatchStore(kind, options), nil
}

// newWatchStore returns a store with valid options.
func newWatchStore[T cache.Object](kind kind[T], options WatchOptions) *WatchStore[T] {
	s := &WatchStore[T]{
		readSpacing:      demandSpacing,
		base:             time.Now().Add(-1),
		uses:             options.uses(),
		resource:         kind,
		options:          options,
		explain:          kind.ExplainFailure,
		unwatchImmutable: kind.immutable != nil && !options.WatchImmutable,
		mayHedge:         kind.HasNamespaceSource() && kind.rateLimitError() == nil,
		subscribers:      subscribers{},
		notices:          map[types.NamespacedName]notice{},
	}
	if options.Shared.enabled() {
		s.shared = map[string]*sharedNamespace[T]{}
	}
	return s
}

// logger returns the logger of Run's context, or klog's before Run.
func (s *WatchStore[T]) logger() klog.Logger {
	s.mu.Lock()
	ctx := s.ctx
	s.mu.Unlock()
	if ctx == nil {
		return klog.Background()
	}
	return klog.FromContext(ctx)
}
