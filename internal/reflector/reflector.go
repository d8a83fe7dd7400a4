// SPDX-License-Identifier: Apache-2.0

package reflector

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/refwatch/refwatch/internal/redact"
	"github.com/refwatch/refwatch/internal/reflector/internal/admission"
	"github.com/refwatch/refwatch/internal/reflector/internal/course"
	"github.com/refwatch/refwatch/internal/reflector/internal/failure"
	"github.com/refwatch/refwatch/internal/reflector/listwatch"
)

// Options configures a [Reflector]. The zero value is valid.
type Options struct {
	// Name identifies the reflector in logs, like `secrets "ns/name"`. Default: what the store
	// says, if it is a [Namer], or else "reflector".
	Name string
	// Resource is as in package reflector of the root. Versions of the objects must be comparable:
	// a consistent read of one reflector serves those that needed one before it began, and a read
	// below one of another reflector shows that etcd was restored.
	Resource string
	// OnChange is as in package reflector of the root. It is not called for a bookmark that a
	// [BookmarkTaker] has taken, and with Prompt it is called on goroutines of a connection.
	// Default: the method of the store, if it is an [Observer], or else nothing.
	OnChange func()
	// Gate admits every attempt. Default: a gate of its own.
	Gate *Gate
	// Prompt lets events of at most 16 KiB be handled on the goroutine that reads the connection, which saves
	// two changes of goroutine for each. All streams of the connection wait meanwhile. So the store, OnChange
	// and the decoder of the source must never block and never end their goroutine: they may take a lock that
	// is held briefly. It has no effect with a ResyncPeriod. Default: workers handle events.
	Prompt bool
	// Counters count what the reflector does. Reflectors may share them. Default: its own.
	Counters *Counters
	// ResyncPeriod is as in package reflector of the root.
	ResyncPeriod time.Duration
	// ExpectedType is as in package reflector of the root. The source of [listwatch.FromREST]
	// checks the type that it decodes into; that of [listwatch.FromListerWatcher] checks nothing.
	ExpectedType runtime.Object
	// Backoff is that of a reflector of the same selection which has ended lately: see
	// [Reflector.Backoff]. The zero value begins its first attempt at once.
	Backoff Backoff
	// Gets says which attempts may be GETs. Then the store must be a [Getter]. Default: none.
	Gets Gets
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
	verbs    verbs    // how to read next
	progress progress // what was read
	ctx      context.Context
	ended    func() // what Start was given

	reason openReason // why the next stream is opened; it belongs to the session under way, or to proceed
	prompt bool       // see Options.Prompt
	left   bool       // the gate tells it of no outage any more; guarded by outages.mu of the gate
	told   int32      // how many lines and calls about outages are under way for it; guarded likewise

	// mu guards the fields below.
	mu      sync.Mutex
	session *session // the one under way; nil between two sessions
	mode    mode
	busy    bool // a session is under way or asked for, or the end is
	stopped bool
}

// extra has the options that most reflectors of a program with many do without.
type extra struct {
	name     string
	onChange func()
	expected *expectedType // nil: any type
}

// New returns a reflector that does nothing until Run.
func New(source listwatch.Source, store Store, options Options) *Reflector {
	r := &Reflector{
		source:   source,
		store:    safeStore{store, newResyncer(options.ResyncPeriod)},
		gate:     options.Gate,
		prompt:   options.Prompt && options.ResyncPeriod <= 0,
		counters: options.Counters,
		explain:  options.Explain,
	}
	if options.Name != "" || options.OnChange != nil || options.ExpectedType != nil {
		r.extra = &extra{options.Name, options.OnChange, expectedTypeOf(options.ExpectedType)}
	}
	if r.gate == nil {
		r.gate = NewGate(GateOptions{})
	}
	if r.counters == nil {
		r.counters = &Counters{}
	}
	r.progress.needed = r.gate.reads.now()
	r.verbs = newVerbs(r.gate.resources.of(options.Resource), source, options.Gets)
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
	return r.progress.version()
}

func statusOf(member *admission.Member, progress *progress) Status {
	waiting, waits := member.Waiting()
	status := progress.status()
	// An attempt may have begun between the two.
	if waits && status.AskedAt.IsZero() && !status.Streaming {
		status.wait(waiting)
	}
	if waiting.Cause != nil && waiting.Kind != admission.Unauthorized && !status.Streaming {
		status.OutageSince, status.OutageCause, status.Unreachable = waiting.Since, waiting.Cause, waiting.Kind == admission.Unreachable
	}
	status.Hung = status.Hung || waiting.Hung && !status.AskedAt.IsZero()
	status.RoundTrip = waiting.RoundTrip
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

// finish takes the end of a session, which has failed or not, and does what follows from it.
func (r *Reflector) finish(s *session, err error) {
	r.gate.streams.remove(s)
	ended := r.unsetSession(s)
	r.verbs.ended()
	ended.Once, ended.Earlier = s.once, s.earlier
	ended.Polled = ended.Stored && s.verb != course.WatchList && r.verbs.polled() != nil
	end := course.EndOf(ended.Session, failure.From(redact.Bound(err))) // a store, or a check of an answer, may have made it
	if end.IsUnanswered() {
		r.verbs.unanswered(s.verb)
	}
	if end.IsBehind() {
		r.gate.reads.remove(r.resource(), ended.includes) // before another reflector is admitted
	}
	switch {
	case end.Reason == course.Done:
		r.counters.CountRead(nil)
	case end.Reason == course.Unread && s.once:
		r.counters.CountRead(end.Failure.Err)
	}
	if ended.Stored && !end.IsLast() {
		r.member.Ended(ended.Since.Since(), end.Outcome())
	} else {
		r.member.Release(end.Outcome())
	}
	r.reason = openReasonAfter(end)
	if end.IsLast() {
		return
	}
	r.record(end)
	if end.IsClosed() {
		r.gate.shortStreams.ended(r, ended.Since.Since(), end.Failure.Err)
	}
	if end.IsUrgent() {
		r.member.Expedite()
	}
}

// unsetSession makes s no longer the session under way, and pauses after a read.
func (r *Reflector) unsetSession(s *session) (ended attempt) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if ended = r.progress.sessionEnded(r.counters); r.mode == reading && s.once && ended.Stored && !ended.Dropped {
		r.mode = pausing
	}
	r.session = nil
	ended.Over = r.overLocked()
	return ended
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

// Expedite says that a caller waits for the next attempt. It begins no attempt itself: it shortens the pause
// before the next one, which then begins at the latest 1.1 to 1.6 s after the last, and is preferred, by weight,
// to those of reflectors that no caller waits for. A server's Retry-After and an outage are still honored. This
// holds for one attempt.
//
// Expedite gives up an attempt under way whose request has no answer for 5 s, or for longer if the server is far away,
// and for twice as long after each attempt that ended so, up to a minute: the answer may be lost. Another attempt
// follows. Call Expedite again at Status.GiveUpAt. Otherwise it does nothing while an attempt is under way, while the
// stream is open, and after Pause.
func (r *Reflector) Expedite() {
	r.mu.Lock()
	busy := r.session != nil
	if giveUpAt := r.giveUpAt(); busy && !giveUpAt.IsZero() && !time.Now().Before(giveUpAt) {
		r.session.end(failure.ErrNoAnswer)
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
	return since.Add(r.verbs.patience(r.member.Patience()))
}

// Contact reports that the server has answered another request for the object after so long.
func (r *Reflector) Contact(took time.Duration) { r.member.Contact(took) }

// ReadFor marks the next read that begins and carries number: its state is not older than this call. It is a
// consistent read, or not older than one that another reflector of the gate has begun since. Once it has reached
// the store, Status.ReadFor is at least number. ReadFor begins no read and does not disturb one under way; Refresh
// begins one now. Numbers must not decrease.
func (r *Reflector) ReadFor(number uint64) { r.progress.requireReadFor(number, &r.gate.reads) }

// AcceptAge lets the first state be older than the calls of [New], Follow, Read and ReadFor that came before: it is not
// older than the newest consistent read of the resource that the Gate knows, if that began at most so long ago. The
// server answers such a read from memory. Call AcceptAge before Start; a later call of Follow, Read, ReadFor or Refresh
// demands what it says. AcceptAge reports whether there is such a read. One from before a restore of etcd is not used.
func (r *Reflector) AcceptAge(age time.Duration) (accepted bool) {
	read := r.gate.reads.of(r.resource())
	if accepted = read.isWithin(age); accepted {
		r.progress.accept(read)
	}
	return accepted
}

// refreshRestored ends the stream if its state is of before one of so many restores of etcd.
func (r *Reflector) refreshRestored(restores uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.progress.refreshRestored(restores, r.session != nil) {
		r.session.end(nil)
	}
}

// Refresh begins a new read now, whose state is not older than this call, as that of ReadFor: a synced stream is
// closed and opened again, and a pause is cut short. A read under way is left alone, and may be older; then this
// holds for the next one. Refresh does nothing after Pause, and after a Read that is done.
func (r *Reflector) Refresh() {
	r.mu.Lock()
	if r.progress.refresh(&r.gate.reads, r.session != nil) {
		r.session.end(nil)
	}
	r.mu.Unlock()
	r.Expedite()
}
