// SPDX-License-Identifier: Apache-2.0

package reflector

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
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
	// Resource is the kind of the objects, like "secrets". What is learnt of the
	// server's WatchList is shared by the reflectors of one gate and resource.
	Resource string
	// OnChange is called, on goroutines of the reflector and with no lock held,
	// after everything that can matter to somebody who waits: a completed read,
	// an event that reached the store, a failed attempt. It must return soon and
	// must not wait for the reflector. Default: nothing is called.
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
	engine    Engine
	listsOnly bool          // the source cannot do WatchList
	wake      chan struct{} // holds a token when the next pause should be short

	number uint64 // at the gate

	// Of Run's goroutine alone.
	unreachable bool   // the last attempt did not reach the server
	answers     uint64 // how many the gate had had by then
	faulty      bool   // attempts have failed while others were answered

	mu       sync.Mutex
	status   Status // its ResourceVersion is the one to resume at
	started  bool
	stopped  bool
	urgent   bool     // somebody waits
	afresh   bool     // the next read is a consistent one
	listNext bool     // the next session is to use lists
	detour   *detour  // what made it so; nil if there is nothing
	tooLarge int      // "too large" answers in a row
	turn     *turn    // that is waited for
	session  *session // the one under way, nil in a pause
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
		wake:      make(chan struct{}, 1),
	}
	if r.changed == nil {
		r.changed = func() {}
	}
	if r.gate == nil {
		r.gate = NewGate(GateOptions{})
	}
	r.number = r.gate.members.Add(1)
	return r
}

// Status tells how things are. While the reflector waits for its turn and the
// server is away, what others fail with is its own failure.
func (r *Reflector) Status() Status {
	r.mu.Lock()
	defer r.mu.Unlock()
	status := r.status
	if r.turn == nil {
		return status
	}
	if at, cause := r.gate.away(); cause != nil && at.After(status.LastErrorTime) {
		status.Failures = max(1, status.Failures)
		status.LastError, status.LastErrorTime = cause, at
		status.RefusedSince = time.Time{}
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
	ctx = withoutBodies(ctx)
	var pauses backoff
	for r.attempt(ctx, &pauses) {
	}
}

// attempt runs a session and makes the pause after it. It tells whether there is
// to be another. A session lasts for hours: nothing is held on the stack for it.
func (r *Reflector) attempt(ctx context.Context, pauses *backoff) bool {
	s := r.nextSession(ctx)
	if s == nil {
		return false
	}
	s.run()
	return r.pauseAfter(ctx, s, pauses)
}

// pauseAfter makes the pause after a session. It tells whether there is to be
// another.
func (r *Reflector) pauseAfter(ctx context.Context, s *session, pauses *backoff) bool {
	over := r.over(ctx)
	last := r.finish(s, over)
	if over {
		return false
	}
	r.noteEnd(last.err)
	if last.lived() >= healthyAfter {
		pauses.reset()
	}
	r.rest(ctx, pauses, last)
	return !r.over(ctx)
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
	session, turn := r.session, r.turn
	r.mu.Unlock()
	if session != nil {
		session.end(nil)
	}
	if turn != nil {
		turn.giveUp()
	}
	r.rouse()
}

// rouse cuts a pause short.
func (r *Reflector) rouse() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// rest makes the pause between two sessions. There is none when the gate paces
// the attempts, and none when the stream that was given up for a fresh read had
// lived for as long.
func (r *Reflector) rest(ctx context.Context, pauses *backoff, last ending) {
	var delay time.Duration
	if !last.paced {
		delay = pauses.next(ownPace)
	}
	if last.refreshed {
		delay -= last.lived()
	}
	atLeast := retryAfter(last.err)
	delay = max(0, delay, atLeast)
	r.logEnd(ctx, last.err, delay)
	if delay > 0 && r.pause(ctx, delay, atLeast) {
		pauses.reset()
	}
}

// logEnd writes the one line that a stream's end is worth.
func (r *Reflector) logEnd(ctx context.Context, err error, pause time.Duration) {
	logger := klog.FromContext(ctx)
	if err == nil {
		logger.V(4).Info("Stream ended, opening it again", "reflector", r.name, "pause", pause)
		return
	}
	logger.V(2).Info("Stream failed, trying again", "reflector", r.name, "class", Classify(err), "err", err, "pause", pause)
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

// Retry tells that somebody waits: the back-off starts over, so a pause under
// way ends within a fifth of a second, and the gate is asked to be let through
// before those for whom nobody waits. A server's Retry-After and the gate's own
// pauses are still honoured, and calls made often do not make attempts more
// frequent than that.
func (r *Reflector) Retry() {
	r.mu.Lock()
	if r.session == nil || !r.session.synced {
		r.urgent = true
	}
	turn := r.turn
	r.mu.Unlock()
	if turn != nil {
		turn.urge()
	}
	r.rouse()
}

// Refresh asks for a new consistent read, now: a synced stream is given up and
// opened afresh. An attempt under way is left alone, and a pause is cut short.
func (r *Reflector) Refresh() {
	r.mu.Lock()
	session := r.session
	if session != nil && !session.synced {
		session = nil // it is reading already
	} else {
		r.afresh, r.urgent = true, true
	}
	if session != nil {
		session.refreshed = true
	}
	r.mu.Unlock()
	if session != nil {
		session.end(nil)
	}
	r.Retry()
}

// pause waits for delay, and never less than atLeast. It tells whether Retry
// cut it short.
func (r *Reflector) pause(ctx context.Context, delay, atLeast time.Duration) bool {
	began := time.Now()
	timer := time.NewTimer(delay)
	defer timer.Stop()
	for short := false; ; {
		select {
		case <-ctx.Done():
			return false
		case <-timer.C:
			return short
		case <-r.wake:
		}
		switch {
		case r.over(ctx):
			return false
		case !short:
			var first backoff
			timer.Reset(min(delay, max(first.next(ownPace), atLeast)) - time.Since(began))
			short = true
		}
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

// retryAfter is the delay that a server asked for which does not answer now, 0
// if none.
func retryAfter(err error) time.Duration {
	if !unreachable(err) {
		return 0
	}
	seconds, _ := apierrors.SuggestsClientDelay(err)
	return min(time.Duration(seconds)*time.Second, longestRetryAfter)
}
