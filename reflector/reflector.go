// SPDX-License-Identifier: Apache-2.0

package reflector

import (
	"cmp"
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/refwatch/refwatch/internal/redact"
	"github.com/refwatch/refwatch/reflector/internal/admission"
	"github.com/refwatch/refwatch/reflector/internal/failure"
	"github.com/refwatch/refwatch/reflector/internal/moment"
	"github.com/refwatch/refwatch/reflector/internal/watchlist"
	"github.com/refwatch/refwatch/reflector/listwatch"
)

// Options configures a [Reflector]. The zero value is valid.
type Options struct {
	// Name identifies the reflector in logs, like `secrets "ns/name"`. Default: what the store
	// says, if it is a [Namer], or else "reflector".
	Name string
	// Resource is the kind of the objects, like "secrets". Reflectors of one gate and
	// resource share what one of them learns about the resource: whether the server
	// serves WatchList, how many streams may open at a time, and whether the resource
	// can be read at all. Versions of their objects must be comparable: a consistent read
	// of one reflector serves those that needed one before it began, and a read below one of
	// another reflector shows that etcd was restored. Default: "", which is a resource like
	// any other, but shares no reads.
	Resource string
	// OnChange is called after everything that can matter to a waiting caller: a
	// complete read, an event that reached the store, a silent stream that was verified, a
	// failed attempt, a watch that is allowed again, and an outage that other reflectors
	// have proved. It is not called for the regular end of a stream, nor for a bookmark that
	// a [BookmarkTaker] has taken. It is called with no lock held, on goroutines of the
	// reflector, of the gate or, with Prompt, of a connection. Calls may overlap. It must
	// return soon and must not wait for the reflector. If it ends its goroutine
	// (runtime.Goexit), the reflector may end. Default: the method of the store, if it is an
	// [Observer], or else nothing.
	OnChange func()
	// Gate admits every attempt. Default: a gate of its own.
	Gate *Gate
	// Prompt lets events of at most 16 KiB be handled on the goroutine that reads the
	// connection, which saves two changes of goroutine for each. All streams of the
	// connection wait meanwhile. Set it if the store, OnChange and the decoder of the source
	// never block and never end their goroutine: they may take a lock that is held
	// briefly. It has no effect with a ResyncPeriod. Default: workers handle events.
	Prompt bool
	// Counters count what the reflector does. Reflectors may share them. Default: it has
	// counters of its own, which nothing reads.
	Counters *Counters
	// ResyncPeriod is the time between two calls of the store's Resync. A DeltaFIFO and
	// a RealFIFO then deliver all objects that their consumer knows. The time begins
	// with Run and goes on when a stream ends. Resync is called only while a stream is
	// open: a period that ends before the first state, or between two streams, is
	// skipped. If Resync fails, the stream ends and another follows. A negative period
	// is as 0. Default: 0, which never calls Resync.
	ResyncPeriod time.Duration
	// ExpectedType is an object of the type that the store takes, as the reflector of
	// client-go gets one. Of an *unstructured.Unstructured with a kind, the group, version and
	// kind are compared too. An object or a bookmark of another type does not reach the
	// store: the read or the stream fails with cache.ErrMalformed, whose text has both
	// types, and another follows. client-go's reflector logs the event and skips it, and
	// does not check lists; the store would then miss a change, which nothing shows.
	// Default: what the source checks. That of [listwatch.FromREST] checks the type
	// that it decodes into; that of [listwatch.FromListerWatcher] checks nothing, because
	// a ListerWatcher does not say its type.
	ExpectedType runtime.Object
	// Transform returns what the store gets of each object of a read, and of each event that adds or
	// modifies one. It may change the object, and may return another one of the same type. It must
	// keep the name, namespace, UID and resource version.
	//
	// The Gate admits others before Transform is called. So one that blocks delays no other reflector,
	// and is no outage. The Gate bounds neither how many functions run nor the objects that they hold.
	//
	// An error, a panic, runtime.Goexit, or an object that the store refuses fails the read or the
	// stream, and another follows. The failure matches [listwatch.ErrStore], and says nothing about
	// the server. Its text has the type of the error, whose own text may quote the object, unless
	// [listwatch.Loggable] has marked it. With Transform, Prompt has no effect. Default: nil, the
	// object itself.
	//
	// Status.LastContact counts from when an event has arrived, also if it has waited for Transform.
	// If the stream is not parked, or more than 4 MiB of events wait, it counts from when the event was
	// read.
	Transform toolscache.TransformFunc
	// Backoff is that of a reflector of the same selection which has ended lately: see
	// [Reflector.Backoff]. Default: the zero value, of which the first attempt begins at once.
	Backoff Backoff
	// Explain returns the error that the log has in place of that of a failed attempt, such as
	// one that says what to check. It holds no object data. Default: nil, the error itself.
	Explain func(error) error
}

// Reflector keeps a store equal to one selection on the server. Make one with [New],
// then call Run or Start once. It follows the selection, unless Read or Pause is called.
type Reflector struct {
	source   listwatch.Source
	store    safeStore
	extra    *extra // nil, as nearly always, for the defaults
	gate     *Gate
	counters *Counters
	explain  func(error) error
	member   admission.Member
	chooser  watchlist.Chooser // how to read next
	progress progress          // what was read
	ctx      context.Context
	ended    func() // what Start was given

	reason openReason     // why the next stream is opened; it belongs to the session under way, or to proceed
	prompt bool           // see Options.Prompt
	lines  sync.WaitGroup // lines that the gate is writing for the reflector
	left   bool           // nothing is logged for it any more; guarded by outages.mu of the gate

	// mu guards the fields below.
	mu      sync.Mutex
	session *session // the one under way; nil between two sessions
	mode    mode
	busy    bool // a session is under way or asked for, or the end is
	stopped bool
}

// extra has the options that most reflectors of a program with many do without.
type extra struct {
	name        string
	onChange    func()
	expected    *expectedType // nil: any type
	transformer *transformer  // nil: the objects themselves
}

// New returns a reflector that does nothing until Run.
func New(source listwatch.Source, store Store, options Options) *Reflector {
	r := &Reflector{
		source:   source,
		store:    safeStore{store, newResyncer(options.ResyncPeriod)},
		gate:     options.Gate,
		prompt:   options.Prompt && options.ResyncPeriod <= 0 && options.Transform == nil,
		counters: options.Counters,
		explain:  options.Explain,
	}
	if options.Name != "" || options.OnChange != nil || options.ExpectedType != nil || options.Transform != nil {
		r.extra = &extra{options.Name, options.OnChange, expectedTypeOf(options.ExpectedType), newTransformer(options.Transform)}
	}
	if r.gate == nil {
		r.gate = NewGate(GateOptions{})
	}
	if r.counters == nil {
		r.counters = &Counters{}
	}
	r.progress.needed = r.gate.reads.now()
	r.chooser = r.gate.watchLists.NewChooser(options.Resource, watchlist.Unsupported(source))
	r.gate.admission.Join(&r.member, options.Resource, observer{r})
	r.member.Continue(options.Backoff.past)
	return r
}

// resource returns the resource of the reflector: see Options.Resource.
func (r *Reflector) resource() string { return r.member.Resource() }

// changed calls OnChange or, without one, notifies the store if it is an Observer. Either may
// panic.
func (r *Reflector) changed() {
	if err := r.notify(); err != nil {
		r.gate.logPanic(r.ctx, r.String(), err)
	}
}

func (r *Reflector) notify() (err error) {
	defer redact.Panic(&err)
	if r.extra != nil && r.extra.onChange != nil {
		r.extra.onChange()
	} else if store, ok := r.store.Store.(Observer); ok {
		store.ReflectorChanged()
	}
	return nil
}

// expected returns what Options.ExpectedType asks for.
func (r *Reflector) expected() *expectedType {
	if r.extra == nil {
		return nil
	}
	return r.extra.expected
}

// Status returns the state of the reflector. While it waits because no reflector can
// reach the server, or the resource, the failure of the others is in its Status.
func (r *Reflector) Status() Status {
	status := statusOf(&r.member, &r.progress)
	if !status.AskedAt.IsZero() {
		status.GiveUpAt = r.giveUpAt()
	}
	if t := r.transformer(); t != nil {
		status.TransformingSince = moment.Moment(t.working.Load()).Time()
	}
	return status
}

// String returns the name of the reflector: see Options.Name.
func (r *Reflector) String() string {
	if r.extra != nil && r.extra.name != "" {
		return r.extra.name
	}
	if store, ok := r.store.Store.(Namer); ok {
		return nameOf(store)
	}
	return unnamed
}

const unnamed = "reflector"

// nameOf returns the name that a store gives its reflector, or another one if its method panics.
func nameOf(store Namer) (name string) {
	var panicked error
	defer func() {
		if panicked != nil {
			name = unnamed
		}
	}()
	defer redact.Panic(&panicked)
	return store.ReflectorName()
}

// ResourceVersion returns that of Status, at less cost.
func (r *Reflector) ResourceVersion() string {
	version, _ := r.progress.seen()
	return version
}

func statusOf(member *admission.Member, progress *progress) Status {
	waiting, waits := member.Waiting()
	status := progress.status()
	// An attempt may have begun between the two.
	if waits && status.AskedAt.IsZero() && !status.Streaming {
		status.wait(waiting)
	}
	status.Hung = status.Hung || waiting.Hung && !status.AskedAt.IsZero()
	return status
}

// newSession returns the session that begins now, nil if the reflector must end or pause.
func (r *Reflector) newSession() *session {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mode == pausing || r.overLocked() {
		return nil
	}
	r.session = newSession(r, r.mode == reading)
	return r.session
}

// overLocked reports whether the reflector must end.
func (r *Reflector) overLocked() bool { return r.stopped || r.ctx.Err() != nil }

// finish ends a session, and learns from why it ended.
func (r *Reflector) finish(s *session, err error) {
	err = redact.Bound(err) // a store, or a check of an answer, may have made it
	r.gate.streams.remove(s)
	ended, over := r.unsetSession(s)
	r.chooser.SessionEnded(err, s.listMode, s.began.Time())
	if failure.Of(err) == failure.TooLarge && !ended.consistent {
		r.gate.reads.remove(r.resource(), ended.includes) // before another reflector is admitted
	}
	polls := ended.stored && s.listMode && r.chooser.Polls()
	switch {
	case over, ended.dropped && err == nil, s.once && ended.stored:
		outcome := admission.Outcome{}
		if ended.dropped && ended.since != 0 {
			outcome.Kind = admission.GivenUp
		}
		r.member.Release(outcome)
		if s.once && ended.stored {
			r.counters.CountRead(nil)
		}
		r.reason = openFirst
		return
	case !ended.stored:
		err = cmp.Or(err, failure.ErrEndedEarly)
		if s.once {
			r.counters.CountRead(err)
		}
		r.member.Release(failure.Outcome(err))
	default:
		outcome := failure.Outcome(err)
		switch {
		case ended.refreshed:
			outcome.Kind = admission.Answered
		case polls:
			outcome.Kind = admission.Refused // of the watch, however it failed
		}
		r.member.Ended(ended.since.Since(), outcome)
	}
	r.reason = reasonAfter(ended, err)
	streamed := ended.streaming && ended.stored && !polls
	r.record(err, streamed, polls)
	if streamed && !ended.refreshed && (err == nil || failure.Of(err).EndsStreams()) {
		r.gate.shortStreams.ended(r, ended.since.Since(), err)
	}
	if !ended.consistent && failure.Of(err) == failure.TooLarge {
		r.member.Expedite() // the consistent read may prove a rollback, which concerns all
	} else if ended.refreshed {
		r.member.Expedite() // a caller waits for the read
	}
}

// unsetSession makes s no longer the session under way, and pauses after a read. It reports
// whether the reflector must end.
func (r *Reflector) unsetSession(s *session) (ended attempt, over bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if ended = r.progress.sessionEnded(r.counters); r.mode == reading && s.once && ended.stored && !ended.dropped {
		r.mode = pausing
	}
	r.session = nil
	return ended, r.overLocked()
}

// Stop ends the reflector, as the end of Run's context does, and returns at once. So
// many reflectors can share one context.
func (r *Reflector) Stop() {
	r.mu.Lock()
	r.stopped = true
	if r.session != nil {
		r.session.end(nil)
	}
	r.proceedLocked()
	r.mu.Unlock()
	r.member.Leave()
}

// Expedite says that a caller waits for the next attempt. It begins no attempt itself:
// it shortens the pause before the next one, which then begins at the latest 1.1 to 1.6 s
// after the last, and is preferred, by weight, to those of reflectors that no caller waits
// for. A server's Retry-After and an outage are still honored. This holds for one attempt.
//
// Expedite gives up an attempt under way whose request has no answer for 5 s, and for twice
// as long after each attempt that ended so, up to a minute: the answer may be lost. Another
// attempt follows. Call Expedite again at Status.GiveUpAt. Otherwise it does nothing while
// an attempt is under way, while the stream is open, and after Pause.
func (r *Reflector) Expedite() {
	r.mu.Lock()
	busy := r.session != nil
	if giveUpAt := r.giveUpAt(); busy && !giveUpAt.IsZero() && !time.Now().Before(giveUpAt) {
		r.session.end(failure.ErrGivenUp)
	}
	r.mu.Unlock()
	if !busy {
		r.member.Expedite()
	}
}

// giveUpAt returns when a caller that waits gives up the attempt under way, zero if it has
// an answer or there is none.
func (r *Reflector) giveUpAt() time.Time {
	since := r.progress.unansweredSince()
	if since.IsZero() {
		return since
	}
	return since.Add(r.chooser.Patience())
}

// ReadFor marks the next read that begins and carries number: its state is not older than
// this call. It is a consistent read, or not older than a consistent read that another
// reflector of the gate has begun since. Once it has reached the store, Status.ReadFor is at
// least number. ReadFor begins no read and does not disturb one under way; Refresh begins
// one now. Numbers must not decrease.
func (r *Reflector) ReadFor(number uint64) { r.progress.requireReadFor(number, &r.gate.reads) }

// Refresh begins a new read now, whose state is not older than this call, as that of
// ReadFor: a synced stream is closed and opened again, and a pause is cut short. A read
// under way is left alone, and may be older; then this holds for the next one. Refresh
// does nothing after Pause, and after a Read that is done.
func (r *Reflector) Refresh() {
	r.mu.Lock()
	if r.progress.refresh(&r.gate.reads, r.session != nil) {
		r.session.end(nil)
	}
	r.mu.Unlock()
	r.Expedite()
}
