// SPDX-License-Identifier: Apache-2.0

package reflector

import (
	"cmp"
	"context"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/refwatch/refwatch/reflector/internal/admission"
)

// Store is what a reflector writes: client-go's ReflectorStore.
type Store = toolscache.ReflectorStore

// Guard is implemented by stores that know what belongs in them. An object that
// Check refuses, and a complete read that CheckRead refuses, do not reach the
// store: they are counted, and the stream starts over. The errors must not hold
// object data.
type Guard interface {
	Check(object runtime.Object) error
	CheckRead(items []any, version string) error
}

// EpochStore is implemented by stores that keep versions from going back.
// NewEpoch is called before the first read of a server that was rolled back.
type EpochStore interface {
	NewEpoch()
}

// Verifier is implemented by stores that can tell what they hold. It lets a
// silent stream be verified: a list that differs from what the store holds shows
// that the stream has missed a change.
type Verifier interface {
	Holds(items []any) bool
}

// Engine is what drives a stream.
type Engine int

const (
	// StreamEngine reads a stream in the goroutine of [Reflector.Run] and needs
	// no other.
	StreamEngine Engine = iota
	// ClientGoEngine is client-go's own Reflector.
	ClientGoEngine
)

// Options changes how a [Reflector] works. The zero value is valid.
type Options struct {
	// Name says in logs and errors what is followed, like `secrets "ns/name"`.
	// Default: "reflector".
	Name string
	// Resource is the kind of the objects, like "secrets". Reflectors of one gate
	// and resource share what is learned of the server's WatchList, and of the
	// resource: how many may open at a time, and whether it can be read at all.
	// Default: "", which is a resource like any other.
	Resource string
	// OnChange is called, with no lock held, on goroutines of the reflector or of
	// the gate's timer, after everything that can matter to a caller that waits: a
	// completed read, an event that reached the store, a failed attempt, and an
	// outage that others have proved. It must return soon and must not wait for the
	// reflector. Default: nothing is called.
	OnChange func()
	// Gate is asked before anything is opened. Default: one of its own.
	Gate *Gate
	// Engine is what drives the stream. Default: [StreamEngine].
	Engine Engine
}

// Reflector keeps a store equal to one selection on the server. Make one with
// [New], then call Run once.
type Reflector struct {
	source    Source
	store     Store
	name      string
	resource  string
	changed   func()
	gate      *Gate
	number    uint64 // at the gate
	member    *admission.Member
	engine    Engine
	listsOnly bool // the source cannot do WatchList

	mu         sync.Mutex
	status     Status // its ResourceVersion is the one to resume at
	started    bool
	stopped    bool
	consistent bool     // the next read is a consistent one
	readFor    uint64   // as is the next one after ReadFor
	rollbacks  uint64   // those of the gate before the last consistent read
	listNext   bool     // the next session is to use lists
	detour     *detour  // what made it so; nil if there is nothing
	logged     Class    // of the last failure that was logged
	session    *session // the one under way, nil before it is admitted
}

// New returns a reflector that does nothing until Run.
func New(source Source, store Store, options Options) *Reflector {
	r := &Reflector{
		source:    source,
		store:     store,
		name:      cmp.Or(options.Name, "reflector"),
		resource:  options.Resource,
		changed:   options.OnChange,
		gate:      options.Gate,
		engine:    options.Engine,
		listsOnly: listsOnly(source),
	}
	if r.changed == nil {
		r.changed = func() {}
	}
	if r.gate == nil {
		r.gate = NewGate(GateOptions{})
	}
	r.number = r.gate.reflectors.Add(1)
	r.member = r.gate.admission.Join(r.resource, r.changed)
	return r
}

// Status returns what the reflector knows of itself. While it waits because the
// server or the resource cannot be reached by any reflector, their failure is its
// own.
func (r *Reflector) Status() Status {
	waiting, waits := r.member.Waiting()
	r.mu.Lock()
	defer r.mu.Unlock()
	status := r.status
	r.session.describeLocked(&status)
	if !waits {
		return status
	}
	status.Waiting = waitingError(waiting)
	if waiting.Cause != nil && waiting.At.After(status.LastErrorTime) {
		status.shared(sharedError(waiting), waiting.Since, waiting.At)
	}
	return status
}

// Run follows the selection until ctx ends or Stop is called. What it started
// has ended when it returns. A second call returns at once.
func (r *Reflector) Run(ctx context.Context) {
	if !r.start() {
		klog.FromContext(ctx).Error(nil, "A reflector runs only once", "reflector", r.name)
		return
	}
	defer r.member.Leave()
	ctx = withoutBodies(ctx)
	for r.attempt(ctx) {
	}
}

// attempt runs a session. It reports whether there is to be another. A session
// lasts for hours: nothing is held on the stack for it.
func (r *Reflector) attempt(ctx context.Context) bool {
	s := r.nextSession(ctx)
	if s == nil {
		return false
	}
	s.run()
	return r.finish(ctx, s)
}

func (r *Reflector) over(ctx context.Context) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.stopped || ctx.Err() != nil
}

// Stop ends Run, as the end of its context does, and returns at once. Many
// reflectors can so share one context.
func (r *Reflector) Stop() {
	r.mu.Lock()
	r.stopped = true
	session := r.session
	r.mu.Unlock()
	if session != nil {
		session.end(nil)
	}
	r.member.Leave()
}

func (r *Reflector) start() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.started {
		return false
	}
	r.started = true
	return true
}

// Retry says that a caller waits: the next attempt is made 1.1 to 1.6 s after the
// last one at the latest, and goes before those of reflectors that no caller waits
// for, by weight. A server's Retry-After and an outage are still honored. The next
// attempt uses that up; nothing happens while one is under way, or the stream is
// open.
func (r *Reflector) Retry() {
	r.mu.Lock()
	busy := r.session != nil
	r.mu.Unlock()
	if !busy {
		r.member.Expedite()
	}
}

// Refresh asks for a new consistent read, now: a synced stream is closed and
// opened again. An attempt under way is left alone, and a pause is cut short.
func (r *Reflector) Refresh() {
	r.refresh(func() bool { return true })
	r.Retry()
}

// refresh closes a synced stream for a consistent read. due is called with mu
// held.
func (r *Reflector) refresh(due func() bool) {
	r.mu.Lock()
	session := r.session
	if !due() || session != nil && !session.synced { // it is reading already
		r.mu.Unlock()
		return
	}
	r.consistent = true
	if session != nil {
		session.refreshed = true
	}
	r.mu.Unlock()
	if session != nil {
		session.end(nil)
	}
}

// check asks the store whether an object belongs there.
func (r *Reflector) check(object runtime.Object) error {
	guard, ok := r.store.(Guard)
	if !ok {
		return nil
	}
	if err := guard.Check(object); err != nil {
		return unfit(err, object)
	}
	return nil
}

// wellFormed tells whether a version is one: a number, and not 0.
func wellFormed(version string) error {
	if _, err := resourceversion.CompareResourceVersion(version, version); err != nil {
		return fmt.Errorf("%w: resource version %q", ErrMalformed, version)
	}
	return nil
}

// olderThan compares versions of this epoch; an empty one is older than all.
func olderThan(version, than string) bool {
	if version == "" || than == "" {
		return version == "" && than != ""
	}
	order, err := resourceversion.CompareResourceVersion(version, than)
	return err == nil && order < 0
}
