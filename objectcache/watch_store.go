// SPDX-License-Identifier: Apache-2.0

package objectcache

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"

	"github.com/refwatch/refwatch/cache"
	"github.com/refwatch/refwatch/reflector"
)

// WatchOptions changes how a [WatchStore] works. The zero value is valid.
type WatchOptions struct {
	// IdleTimeout ends the stream of an object that no Get has asked for, and
	// drops it from memory; the next Get starts over and waits. An object goes
	// between one and two IdleTimeouts after its last use: its reference, its
	// first sync, or a Get. Nothing is idle while somebody follows Changes.
	// Default: never.
	IdleTimeout time.Duration
	// RefusalGrace is how long a Get waits while the server answers every
	// attempt with 401, 403 or another refusal. The Node authorizer needs a
	// moment to see a pod that was just bound. Default: 1 s. A negative value
	// waits for as long as the context allows.
	RefusalGrace time.Duration
	// MaxStaleness bounds the time since the server last told anything about an
	// object: a read, an event or a bookmark. If the state is older, Get reads
	// from the server and waits; see [ErrStale]. kube-apiserver sends a bookmark about
	// once a minute, so less than two minutes makes Get give up healthy
	// streams. Immutable objects are never stale. Default: no bound.
	MaxStaleness time.Duration
	// ImmutableRecheck is how long after it was last read an immutable object is
	// read again, though no owner has come: it may have been deleted and created
	// again, and no stream says so. Each time is up to twice as long, at random.
	// Meanwhile, and if that read fails, the known state is served. Default: 10
	// minutes. A negative value never reads it again.
	ImmutableRecheck time.Duration
	// Gate bounds how many streams are being opened at a time. Stores that reach
	// one server with one client should share one. Default: one of its own.
	Gate *reflector.Gate
	// WatchImmutable keeps the stream of an object whose field "immutable" is
	// true. An owner that stays then learns that the object was deleted and
	// created again. Default: such an object needs no stream once it has synced,
	// for its data cannot change.
	WatchImmutable bool
	// ClientGoReflector drives each stream by client-go's Reflector, which takes
	// twice the memory and five goroutines instead of two; the promises are the
	// same. Default: by package reflector's own engine.
	ClientGoReflector bool
}

const defaultRefusalGrace = time.Second

// WatchStore is a [Store] that keeps a list-and-watch for each referenced object.
// Make one with [NewWatchStore].
type WatchStore[T cache.Object] struct {
	resource      Resource[T]
	options       WatchOptions
	engine        reflector.Engine
	stopImmutable bool

	entries sync.Map // types.NamespacedName to *entry[T]; changed with mu held
	streams sync.WaitGroup
	waited  sync.Once // a Get that waits for Run was logged

	mu        sync.Mutex
	ctx       context.Context // Run's, which every stream ends with; nil before Run
	stopped   bool
	created   uint64 // entries made so far
	followers map[*workqueue.Typed[types.NamespacedName]]struct{}
}

// NewWatchStore returns a store that requests nothing until Run. It returns an error
// if the resource has no client, or was made wrongly, and if an option has a
// value that it does not allow.
func NewWatchStore[T cache.Object](resource Resource[T], options WatchOptions) (*WatchStore[T], error) {
	if err := errors.Join(resource.usable(), options.validate()); err != nil {
		return nil, fmt.Errorf("new watch store: %w", err)
	}
	if options.RefusalGrace == 0 {
		options.RefusalGrace = defaultRefusalGrace
	}
	if options.Gate == nil {
		options.Gate = reflector.NewGate(reflector.GateOptions{})
	}
	engine := reflector.StreamEngine
	if options.ClientGoReflector {
		engine = reflector.ClientGoEngine
	}
	return &WatchStore[T]{
		resource:      resource,
		options:       options,
		engine:        engine,
		stopImmutable: resource.immutable != nil && !options.WatchImmutable,
		followers:     map[*workqueue.Typed[types.NamespacedName]]struct{}{},
	}, nil
}

// validate returns an error that names each option with a value that it does not
// allow, and says which it does.
func (o *WatchOptions) validate() error {
	var problems []error
	if o.IdleTimeout < 0 {
		problems = append(problems, fmt.Errorf("WatchOptions.IdleTimeout is %v: 0 means never, else set a positive duration", o.IdleTimeout))
	}
	if o.MaxStaleness < 0 {
		problems = append(problems, fmt.Errorf("WatchOptions.MaxStaleness is %v: 0 means no bound, else set a positive duration", o.MaxStaleness))
	}
	return errors.Join(problems...)
}

// Run lets streams begin, for the references there are and all that come. It
// blocks until ctx ends and every stream and goroutine of the store has, and
// returns nil. A second call returns [ErrAlreadyStarted], a nil context [ErrNilContext].
//
// The store logs to the logger of ctx, and before Run to klog's. A client with a
// rate limiter of its own is logged once, at level 0: see [ErrClientLimited].
func (w *WatchStore[T]) Run(ctx context.Context) error {
	if ctx == nil {
		return ErrNilContext
	}
	if !w.begin(ctx) {
		return ErrAlreadyStarted
	}
	if limit := w.resource.limited(); limit != nil {
		klog.FromContext(ctx).Info("Objects sync slowly", "resource", w.resource.resource, "reason", limit)
	}
	<-ctx.Done()
	w.end()
	w.streams.Wait()
	return nil
}

func (w *WatchStore[T]) begin(ctx context.Context) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ctx != nil {
		return false
	}
	w.ctx = ctx
	for _, e := range w.entries.Range {
		w.startLocked(e.(*entry[T]))
	}
	return true
}

func (w *WatchStore[T]) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopped = true
	for _, e := range w.entries.Range {
		e := e.(*entry[T])
		w.stopLocked(e, errStopping)
		e.wakeLocked()
	}
	for queue := range w.followers {
		queue.ShutDown()
	}
}

// AddReference implements [Store]. The first reference to an object starts its
// stream. A namespace or name that no object can have is logged and not counted;
// Get says what is wrong with it.
func (w *WatchStore[T]) AddReference(namespace, name string, referencedFrom types.UID) {
	key := types.NamespacedName{Namespace: namespace, Name: name}
	if w.entry(key) == nil {
		if err := w.resource.validate(key); err != nil {
			w.logger().Error(err, "Reference not counted", "owner", referencedFrom)
			return
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if e := w.entry(key); e != nil {
		w.addOwnerLocked(e, referencedFrom)
		return
	}
	w.created++
	e := &entry[T]{key: key, number: w.created}
	w.addOwnerLocked(e, referencedFrom)
	w.entries.Store(key, e)
	w.startLocked(e)
}

// DeleteReference implements [Store]. The last reference to go ends the stream
// and drops the object. Gets that wait for it return [ErrNotRegistered].
func (w *WatchStore[T]) DeleteReference(namespace, name string, referencedFrom types.UID) {
	key := types.NamespacedName{Namespace: namespace, Name: name}
	w.mu.Lock()
	defer w.mu.Unlock()
	e := w.entry(key)
	if e == nil {
		return
	}
	if gone := e.owners.remove(referencedFrom); !e.owners.none() {
		w.ownerGoneLocked(e, gone)
		return
	}
	w.entries.Delete(key)
	w.stopLocked(e, errUnreferenced)
	e.wakeLocked()
	w.notifyLocked(key)
}

// logger is Run's, or klog's before Run.
func (w *WatchStore[T]) logger() klog.Logger {
	w.mu.Lock()
	ctx := w.ctx
	w.mu.Unlock()
	if ctx == nil {
		return klog.Background()
	}
	return klog.FromContext(ctx)
}

// entry returns what is kept of a key, nil if nobody references it.
func (w *WatchStore[T]) entry(key types.NamespacedName) *entry[T] {
	if e, ok := w.entries.Load(key); ok {
		return e.(*entry[T])
	}
	return nil
}
