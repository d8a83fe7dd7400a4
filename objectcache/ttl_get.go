// SPDX-License-Identifier: Apache-2.0

package objectcache

import (
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/refwatch/refwatch/cache"
	"github.com/refwatch/refwatch/reflector"
)

// queueGrace is how long the goroutine of a read needs until it waits for admission.
const queueGrace = 100 * time.Millisecond

var errReadBegins = errors.New("a read of the object begins")

// Get returns a referenced object. All callers share it, and it must not be changed. It
// comes from memory, without a lock and without allocating, if it was read within its
// TTL, and after the newest owner was added. Otherwise Get waits for a read, for as long
// as ctx allows.
//
// An object that cannot be read again, for another reason than that it is absent, is
// served for as long as that lasts, however old it is, unless TTLOptions.MaxStaleness is
// set. So Get returns the previous object when the read that it waits for fails, when
// ctx ends first, or when no reader reaches the server or the server has asked to wait
// (Retry-After); and at once until a later read succeeds. For a new owner an outage and a
// Retry-After count after 1.5 s. That holds for all owners, also new ones, because Get does not know which
// owner asks. [Status] has the failure, and LastContact the time of the last read. An
// absence is not served beyond its TTL.
//
// The errors are those of [WatchStore.Get], with TTLOptions in place of WatchOptions. A
// Get of an object that was never read returns a refusal (401, 403) after
// TTLOptions.RefusalGrace.
func (s *TTLStore[T]) Get(ctx context.Context, namespace, name string) (T, error) {
	key := types.NamespacedName{Namespace: namespace, Name: name}
	if ctx == nil {
		var none T
		return none, s.gets.count(ctx, s.resource.newError(key, ErrNilContext), false, false)
	}
	if r := s.served(key); r != nil {
		s.gets.countAnswer(r.state.Exists)
		return s.resource.result(key, r.state)
	}
	return s.wait(&ttlWaiter[T]{ctx: ctx, key: key, maxStaleness: s.options.MaxStaleness})
}

// TryGet returns a referenced object from memory, and never waits. If its TTL is over,
// it is read again in the background, and TryGet returns the previous object meanwhile.
// [ErrNotSynced] means that no object is held, or that it was read before the newest
// owner was added and Get would wait, or is older than TTLOptions.MaxStaleness; TryGet then asks for a read.
// The other errors are those of Get.
func (s *TTLStore[T]) TryGet(namespace, name string) (T, error) {
	key := types.NamespacedName{Namespace: namespace, Name: name}
	if r := s.served(key); r != nil {
		s.gets.countAnswer(r.state.Exists)
		return s.resource.result(key, r.state)
	}
	return s.wait(&ttlWaiter[T]{ctx: context.Background(), key: key, maxStaleness: s.options.MaxStaleness, try: true})
}

// GetWithOptions is Get with demands on the state that it returns: see [GetOptions].
// A Live Get waits for a read that begins after the call. NotOlderThan must be a version
// of the object itself, because the read of one object shows no other. The errors are
// those of Get. An option with an invalid value is an error, too.
func (s *TTLStore[T]) GetWithOptions(ctx context.Context, namespace, name string, options GetOptions) (T, error) {
	key := types.NamespacedName{Namespace: namespace, Name: name}
	var none T
	if ctx == nil {
		return none, s.gets.count(ctx, s.resource.newError(key, ErrNilContext), false, false)
	}
	if err := options.validate(); err != nil {
		return none, s.gets.count(ctx, s.resource.newError(key, err), false, false)
	}
	g := &ttlWaiter[T]{ctx: ctx, key: key, maxStaleness: s.options.MaxStaleness, live: options.Live, notOlderThan: options.NotOlderThan}
	g.uncounted = options.uncounted
	if options.MaxStaleness > 0 && (g.maxStaleness == 0 || options.MaxStaleness < g.maxStaleness) {
		g.maxStaleness = options.MaxStaleness
	}
	return s.wait(g)
}

// served returns the reading of a key, if Get may return it to all owners, else nil.
func (s *TTLStore[T]) served(key types.NamespacedName) *reading[T] {
	e := s.entry(key)
	if e == nil {
		return nil
	}
	newestOwner := e.newestOwner.Load()
	if r := e.reading.Load(); s.servable(r, newestOwner, s.options.MaxStaleness) {
		return r
	}
	return nil
}

// ttlWaiter is a Get of a [TTLStore] that memory alone does not serve.
type ttlWaiter[T cache.Object] struct {
	ctx          context.Context
	key          types.NamespacedName
	maxStaleness time.Duration // 0 is no bound
	notOlderThan string        // the resource version that the state must include; may be empty
	live         bool          // needs a read that begins now
	try          bool          // returns instead of waiting
	uncounted    bool          // see GetOptions
	slept        bool          // it has waited
	began        time.Time
	// newestOwner and ownerAddedAt are those of entry when the waiter first saw it.
	// Owners that are added later do not make it wait longer.
	entry        *ttlEntry[T]
	newestOwner  uint64
	ownerAddedAt time.Time
	notStarted   bool   // Run has not been called
	waited       bool   // for a read that had begun before
	read         uint64 // the number of the read that g has asked for; 0 if it has not
}

// wait is Get when the state in memory cannot be served, or g demands more of it.
func (s *TTLStore[T]) wait(g *ttlWaiter[T]) (T, error) {
	object, err := s.waitAndCheck(g)
	if g.uncounted {
		return object, err
	}
	return object, s.gets.count(g.ctx, err, g.slept, g.try)
}

func (s *TTLStore[T]) waitAndCheck(g *ttlWaiter[T]) (T, error) {
	g.began = time.Now()
	for {
		state, wake, limit, err := s.check(g)
		switch {
		case err != nil:
			return state.Object, err
		case wake == nil:
			return s.resource.result(g.key, state)
		case g.notStarted:
			limit = logNotStarted(&s.loggedNotStarted, s.logger, s.resource.resource, g.key, g.began)
		}
		g.slept = true
		sleep(g.ctx, wake, limit)
	}
}

// check returns the state that g may return, or the error that ends its wait. Otherwise
// it asks for a read, and returns a channel that is closed when g has to check again,
// and after how long g has to check again in any case; negative means never.
func (s *TTLStore[T]) check(g *ttlWaiter[T]) (state cache.State[T], wake <-chan struct{}, limit time.Duration, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entry(g.key)
	switch {
	case s.stopped:
		return state, nil, 0, s.resource.newError(g.key, ErrStopped)
	case e == nil:
		err := s.resource.validateKey(g.key)
		if err == nil {
			err = s.resource.newError(g.key, ErrNotRegistered)
		}
		return state, nil, 0, err
	case e != g.entry:
		g.entry, g.newestOwner, g.ownerAddedAt, g.waited, g.read = e, e.newestOwner.Load(), e.ownerAddedAt, false, 0
	}
	g.notStarted = s.ctx == nil
	r := e.reading.Load()
	if s.isMet(g, r) {
		return r.state, nil, 0, nil
	}
	if !g.isBehind(r) && !(g.waited && g.ctx.Err() != nil) {
		s.askLocked(g)
	}
	status := e.status()
	limit, ok := s.waitsOn(g, r, status)
	switch {
	case ok:
		return state, e.wakeChanLocked(), limit, nil
	case s.isFallback(g, r, status):
		if g.ctx.Err() == nil && r.triedFor < g.newestOwner {
			r = r.afterFailure(g.newestOwner) // all owners keep it until the next one is added
			e.reading.Store(r)
			e.wakeLocked()
			s.subscribers.notify(e.key)
		}
		return r.state, nil, 0, nil
	}
	return state, nil, 0, s.notReadError(g, r, status)
}

// isMet reports whether a reading, which may be nil, meets all that g demands.
func (s *TTLStore[T]) isMet(g *ttlWaiter[T], r *reading[T]) bool {
	switch {
	case r == nil || !g.includes(r):
		return false
	case g.readDone(r):
		return true
	}
	return !g.live && s.servable(r, min(g.newestOwner, g.entry.newestOwner.Load()), g.maxStaleness)
}

// readDone reports whether r is not older than the read that g has asked for.
func (g *ttlWaiter[T]) readDone(r *reading[T]) bool { return g.read > 0 && r.readFor >= g.read }

// includes reports whether a reading includes the version that g demands. That of an
// absence is not known: only a read of g's own is new enough.
func (g *ttlWaiter[T]) includes(r *reading[T]) bool {
	if g.notOlderThan == "" || !r.state.Exists && g.readDone(r) {
		return true
	}
	return r.state.Exists && tooOld(r.state.ResourceVersion, g.notOlderThan) == nil
}

// isFallback reports whether a reading, which may be nil, may be returned although its
// TTL is over. An owner that had the object may be asking.
func (s *TTLStore[T]) isFallback(g *ttlWaiter[T], r *reading[T], status reflector.Status) bool {
	if r == nil || !r.state.Exists || g.live || !g.includes(r) || s.isStale(r, g.maxStaleness) {
		return false
	}
	return !g.try || r.triedFor >= g.newestOwner || isStuck(&status, time.Now()) && g.ownerLeft() <= 0
}

// ownerLeft returns for how much longer the newest owner waits for a read that is stuck.
func (g *ttlWaiter[T]) ownerLeft() time.Duration { return time.Until(g.ownerAddedAt.Add(stuckGrace)) }

// isBehind reports whether the read that g has asked for is older than g demands, so
// that waiting does not help.
func (g *ttlWaiter[T]) isBehind(r *reading[T]) bool {
	return r != nil && g.readDone(r) && !g.includes(r)
}

// askLocked asks for a read on behalf of g. If a read is under way, g first waits for
// it: its state is fresh, unless the TTL is 0.
func (s *TTLStore[T]) askLocked(g *ttlWaiter[T]) {
	e := g.entry
	if g.read == 0 && (g.live || g.waited || !e.underWay) {
		e.owners.reads++
		g.read = e.owners.reads
		e.asked = g.read
	}
	g.waited = true
	s.readLocked(e)
	e.reader.Expedite()
}

// waitsOn reports whether g waits on, and for how long at most before it checks again;
// negative means until it is woken.
func (s *TTLStore[T]) waitsOn(g *ttlWaiter[T], r *reading[T], status reflector.Status) (limit time.Duration, ok bool) {
	switch {
	case g.try, g.ctx.Err() != nil, g.isBehind(r):
		return 0, false
	case g.notStarted:
		return -1, true
	case s.isFallback(g, r, status):
		return g.checkStuck(r, status)
	}
	limit = graceLeft(s.options.RefusalGrace, &status, g.began, time.Now())
	return limit, limit != 0
}

// checkStuck is waitsOn for a Get that can return the previous object: it does so if the
// read is stuck. A new owner waits for stuckGrace. Nothing wakes g if the outage began
// before, so it checks once the read that it has asked for is queued.
func (g *ttlWaiter[T]) checkStuck(r *reading[T], status reflector.Status) (limit time.Duration, ok bool) {
	if isStuck(&status, time.Now()) {
		left := g.ownerLeft()
		return left, left > 0 && r.triedFor < g.newestOwner
	}
	if queued := time.Until(g.began.Add(queueGrace)); queued > 0 {
		return queued, true
	}
	return stuckGrace, true
}

// notReadError returns why g ends without a state.
func (s *TTLStore[T]) notReadError(g *ttlWaiter[T], r *reading[T], status reflector.Status) error {
	var causes []error
	switch {
	case g.notStarted:
		causes = append(causes, ErrNotStarted)
	case g.isBehind(r):
		causes = append(causes, tooOld(r.state.ResourceVersion, g.notOlderThan))
	case r != nil && s.isStale(r, g.maxStaleness):
		causes = append(causes, ErrStale)
	}
	causes = append(causes, causesOf(status)...)
	if g.try && len(causes) == 0 {
		causes = append(causes, errReadBegins)
	}
	if g.ctx.Err() != nil {
		causes = append(causes, s.resource.rateLimitError())
	}
	return s.resource.newError(g.key, notSynced(g.ctx, causes...)...)
}
