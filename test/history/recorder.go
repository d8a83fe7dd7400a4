// SPDX-License-Identifier: Apache-2.0

package history

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/refwatch/refwatch/objectcache"
)

// Recorder records what happens, in its order: to a Checker, to a file, or to both. Its methods and those of its
// objects may be called from any goroutine. Make one with [NewRecorder].
type Recorder struct {
	mu      sync.Mutex
	checker *Checker
	encoder *json.Encoder
	calls   uint64
	err     error
}

// Options are those of a [Recorder].
type Options struct {
	// Checker checks the events as they come. Default: none.
	Checker *Checker
	// Output receives the events as JSON lines, for [Check]. Default: none.
	Output io.Writer
	// IncompleteWrites is set if other programs write the objects, or if writes are not recorded: the history has a
	// part of the writes, or none. Then no rule that depends on them is checked. S2 still is, by the versions that Gets
	// return.
	IncompleteWrites bool
}

// NewRecorder returns a recorder.
func NewRecorder(options Options) *Recorder {
	r := &Recorder{checker: options.Checker}
	if options.Output != nil {
		r.encoder = json.NewEncoder(options.Output)
	}
	r.add(Event{Op: Run, Writes: !options.IncompleteWrites})
	return r
}

// Err returns the first error of the output.
func (r *Recorder) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// add records an event. It returns what the checker says of a state that was read: whether it is the newest.
func (r *Recorder) add(e Event) (newest bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.addLocked(e)
}

func (r *Recorder) addLocked(e Event) (newest bool) {
	e.Time = time.Now()
	if r.encoder != nil && r.err == nil {
		r.err = r.encoder.Encode(e)
	}
	if r.checker != nil {
		newest = r.checker.Add(e)
	}
	return newest
}

// begin records the begin of a call, and returns its number.
func (r *Recorder) begin(e Event) (call uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls++
	e.Call = r.calls
	r.addLocked(e)
	return e.Call
}

// Call is something that has begun. The caller reports its end.
type Call struct {
	recorder *Recorder
	end      Event
}

// End reports that it has ended.
func (c Call) End() { c.recorder.add(c.end) }

func (r *Recorder) call(begin Event, end Op) Call {
	return Call{r, Event{Op: end, Object: begin.Object, Owner: begin.Owner, Call: r.begin(begin)}}
}

// Fault reports that a fault begins, which affects the given objects, or all if there are none. The caller calls End
// when the fault has ended. From then on each object that it affected must be fresh again within a time.
func (r *Recorder) Fault(name string, within time.Duration, objects ...Object) Call {
	return r.VerbFault(name, within, nil, objects...)
}

// VerbFault is Fault for a fault beside which some verb works. Then the rules of time go on, with the bounds of works.
// They pause if it is nil.
func (r *Recorder) VerbFault(name string, within time.Duration, works *Works, objects ...Object) Call {
	e := Event{Op: FaultBegan, Text: name, Within: &metav1.Duration{Duration: within}, Works: works}
	for _, o := range objects {
		e.Objects = append(e.Objects, o.name)
	}
	return r.call(e, FaultEnded)
}

// PartialFault reports that a fault of one of several API servers begins. It affects all objects, but it is no outage:
// another server may answer.
func (r *Recorder) PartialFault(name string, within time.Duration) Call {
	return r.call(Event{Op: FaultBegan, Text: name, Within: &metav1.Duration{Duration: within}, Partial: true}, FaultEnded)
}

// Snapshot reports that a backup of the server is made, while nobody writes. The caller calls End when it was restored:
// then too nobody writes. A new epoch begins. A checker keeps each backup until its End.
func (r *Recorder) Snapshot() Call { return r.call(Event{Op: Snapshotted}, RolledBack) }

// Dial reports that the library dials a connection.
func (r *Recorder) Dial() { r.add(Event{Op: Dialed}) }

// Foreign reports a request that the library must not send.
func (r *Recorder) Foreign(request string) { r.add(Event{Op: Foreign, Text: request}) }

// Follower is a range over Changes.
type Follower struct{ Call }

// Follow reports that a range over Changes begins. The caller calls End when it has ended.
func (r *Recorder) Follow() Follower { return Follower{r.call(Event{Op: BeginRange}, EndRange)} }

// Yield reports what the range yields: a state, or the error of the change. It returns whether that is the newest state
// that was written.
func (f Follower) Yield(o Object, s State, err error) (newest bool) {
	return f.recorder.add(result(Event{Op: Yielded, Call: f.end.Call, Object: o.name}, s, err))
}

// HasNewest reports whether the range has yielded the newest state of an object, if there is a checker.
func (f Follower) HasNewest(o Object) bool {
	f.recorder.mu.Lock()
	defer f.recorder.mu.Unlock()
	return f.recorder.checker != nil && f.recorder.checker.yieldedNewest(f.end.Call, o.name)
}

// Object records what happens to one object.
type Object struct {
	recorder *Recorder
	name     string
}

// Object returns the object of a name: "secrets/default/tls". It does not exist before its first write.
func (r *Recorder) Object(name string) Object { return Object{r, name} }

// Name returns the name of the object.
func (o Object) Name() string { return o.name }

// Write is a write that has begun. The caller calls Commit or Fail. If its outcome is unknown, the caller reads the
// object from the server first.
type Write struct{ Call }

// BeginWrite is called before an object is created or updated. The digest is the one that a reader reports in its
// [State] if it sees the object before Commit is called: that of [Digest], if the server sets no default, or one that
// the test makes for all states of the history, for instance from the number of the write, which it puts into the
// content. Each write needs a digest of its own. A server that reports its writes needs no BeginWrite: see Written.
func (o Object) BeginWrite(digest string) Write {
	return Write{o.recorder.call(Event{Op: BeginWrite, Object: o.name, State: State{Digest: digest}}, EndWrite)}
}

// BeginDelete is called before an object is deleted.
func (o Object) BeginDelete() Write {
	return Write{o.recorder.call(Event{Op: BeginWrite, Object: o.name, Deleted: true}, EndWrite)}
}

// Commit reports that the server has committed the write. The state of a deletion is ignored.
func (w Write) Commit(s State) {
	w.end.State = s
	w.End()
}

// Fail reports that the server has not committed the write, and will not.
func (w Write) Fail() {
	w.end.Failed = true
	w.End()
}

// Written reports a write that the server has committed, in the order in which it did, and before any reader sees it.
// It takes the place of BeginWrite and Commit where the server itself reports its writes, as test/apiserver does with
// its Observer.
func (o Object) Written(s State) { o.recorder.add(Event{Op: Written, Object: o.name, State: s}) }

// Deleted is Written for a deletion.
func (o Object) Deleted() { o.recorder.add(Event{Op: Written, Object: o.name, Deleted: true}) }

// BeginReference is called before a reference is added.
func (o Object) BeginReference(owner string) Call {
	return o.recorder.call(Event{Op: BeginReference, Object: o.name, Owner: owner}, EndReference)
}

// BeginRelease is called before a reference is deleted.
func (o Object) BeginRelease(owner string) Call {
	return o.recorder.call(Event{Op: BeginRelease, Object: o.name, Owner: owner}, EndRelease)
}

// Get is a call of Get or TryGet. The caller calls Return.
type Get struct {
	Call
	ctx context.Context
}

// BeginGet is called before a Get. ctx is its context.
func (o Object) BeginGet(ctx context.Context) Get {
	return Get{o.recorder.call(Event{Op: BeginGet, Object: o.name}, EndGet), ctx}
}

// BeginTryGet is called before a TryGet.
func (o Object) BeginTryGet() Get {
	return Get{o.recorder.call(Event{Op: BeginGet, Object: o.name, Try: true}, EndGet), context.Background()}
}

// BeginDemandingGet is BeginGet for a Get with demands on the state, which may return ErrNotSynced although others
// return a state. Newest is set if it demands the newest state that was committed before.
func (o Object) BeginDemandingGet(ctx context.Context, newest bool) Get {
	return Get{o.recorder.call(Event{Op: BeginGet, Object: o.name, Demanding: true, Newest: newest}, EndGet), ctx}
}

// Return reports what a Get has returned. If err is not nil, the state is ignored. It returns whether that is the
// newest state that was written, if there is a checker.
func (g Get) Return(s State, err error) (newest bool) {
	g.end.Ended = g.ctx != nil && g.ctx.Err() != nil // a Get with a nil context is an error
	return g.recorder.add(result(g.end, s, err))
}

// Request reports that a request for the object begins, with the verb of a rule of a Role.
func (o Object) Request(verb string) {
	o.recorder.add(Event{Op: Requested, Object: o.name, Verb: verb})
}

// Response reports that a request has ended, with the code of the response. The code is zero if there was none.
func (o Object) Response(verb string, code int) {
	o.recorder.add(Event{Op: Responded, Object: o.name, Verb: verb, Code: code})
}

// StreamOpened reports that the server has opened a watch of the object, and StreamClosed that it has ended.
func (o Object) StreamOpened() { o.recorder.add(Event{Op: StreamOpened, Object: o.name}) }

// StreamClosed is the opposite of StreamOpened.
func (o Object) StreamClosed() { o.recorder.add(Event{Op: StreamClosed, Object: o.name}) }

// result adds a state or an error to an event.
func result(e Event, s State, err error) Event {
	if e.Error = classOf(err); err == nil {
		e.State = s
	}
	return e
}

// classOf returns the class of an error.
func classOf(err error) string {
	switch {
	case err == nil:
		return ""
	case apierrors.IsNotFound(err): // whatever else it is: callers take the object for absent
		return NotFound
	case errors.Is(err, objectcache.ErrNotRegistered):
		return NotRegistered
	case errors.Is(err, objectcache.ErrNotSynced):
		return NotSynced
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return Canceled
	default:
		return err.Error()
	}
}
