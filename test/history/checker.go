// SPDX-License-Identifier: Apache-2.0

package history

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"
)

// maxViolations bounds how many violations a Checker keeps. It counts all.
const maxViolations = 20

// Limits are the bounds of a run. What is zero is not checked.
type Limits struct {
	// Fresh is how soon a Get must return a write, and Changes must yield it.
	Fresh time.Duration
	// ImmutableFresh is the same for a reader that has an immutable object, which is not watched but read again at
	// times.
	ImmutableFresh time.Duration
	// Attempt is how soon after its first reference there must be a request for an object that no fault affects.
	Attempt time.Duration
	// Released is how long after its last reference there may be requests and streams of an object, and Gets that wait
	// for it.
	Released time.Duration
	// Streams is how many streams of an object may be open at once.
	Streams int
	// ObjectRequests is how many requests for one object there may be in ten seconds. ObjectFailures is how many of
	// them may fail. Both are per owner: each new one in that time may cause as many.
	ObjectRequests, ObjectFailures int
	// Failures is how many requests in ten seconds may fail, of all objects. Dials is how many connections may be
	// dialed.
	Failures, Dials int
	// OutageFailures and OutageDials are the same during an outage: when a fault has affected all objects for twenty
	// seconds. ObjectFailures is added to both for each object that a fault of its own affects or that the server has
	// not served yet, and for each new owner.
	OutageFailures, OutageDials int
	// PartialFailures and PartialDials take their place while all faults that affect all objects are partial.
	PartialFailures, PartialDials int
	// Forgets is set for a store that may drop the state of an object while there are references, or not return it: one
	// with an IdleTimeout or a MaxStaleness, and a DirectStore. Then a Get may return that the object has not synced
	// although it had.
	Forgets bool
	// HoldsMore is set for a store that also holds objects without references, as an informer of all objects does. Then
	// what a Get returns may be older than the first reference.
	HoldsMore bool
}

// Violation is a rule that does not hold.
type Violation struct {
	Rule   string    `json:"rule"`  // one of Rules, or empty if the history itself is wrong
	Event  int64     `json:"event"` // the number of the event that shows it, from 1: its line in a file
	Time   time.Time `json:"time"`
	Object string    `json:"object,omitempty"`
	Text   string    `json:"text"`
}

// String implements fmt.Stringer.
func (v Violation) String() string {
	text := cmp.Or(v.Rule, "wrong history") + ": "
	if v.Object != "" {
		text += v.Object + " "
	}
	return fmt.Sprintf("event %d, %s: %s", v.Event, v.Time.Format(timeOfDay), text+v.Text)
}

// Rules are those that a Checker decides: see the package documentation.
var Rules = []string{"S1", "S2", "S3", "S4", "S5", "S6", "S7", "S10", "L1", "L2", "L3", "L4", "L5", "L6"}

// Report is what a Checker has found.
type Report struct {
	// Events is how many events there were. Checked is how many states were compared with the writes: those that Gets
	// returned and that Changes yielded, absences included.
	Events, Checked int64
	// Decided is how often each rule was decided: a rule that never was says nothing about the run.
	Decided map[string]int64
	// Violations are the first ones, and Count is the number of all.
	Violations []Violation
	Count      int
}

// Checker checks events as they come. Make one with [NewChecker]. Each event takes constant time, apart from those that
// concern all objects: faults and backups.
type Checker struct {
	mu      sync.Mutex
	limits  Limits
	report  Report
	now     time.Time
	writes  bool // the history has all writes
	objects map[string]*object
	calls   map[uint64]any // what has begun: a *get, *reference, *release, *fault or *follower or *begunWrite, or a backup
	faults  faults

	failed, dialed, newOwners window
	unserved                  int // objects with references, for which no request has succeeded
}

// NewChecker returns a checker.
func NewChecker(limits Limits) *Checker {
	return &Checker{
		limits: limits, report: Report{Decided: map[string]int64{}}, objects: map[string]*object{}, calls: map[uint64]any{},
	}
}

// Report returns what was found so far.
func (c *Checker) Report() Report {
	c.mu.Lock()
	defer c.mu.Unlock()
	report := c.report
	report.Violations, report.Decided = slices.Clone(report.Violations), maps.Clone(report.Decided)
	return report
}

// Finish checks what did not end: Gets that still wait, streams that are still open, and changes that were never
// yielded. It returns what was found in all. It is called once, after the last event.
func (c *Checker) Finish(now time.Time) Report {
	c.finish(now)
	return c.Report()
}

func (c *Checker) finish(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = now
	for _, o := range c.objects {
		if o.certain > 0 {
			c.checkAttemptLocked(o)
		}
		if o.streams > 0 {
			c.checkReleasedLocked(o, "L2", "a stream is open")
		}
	}
	for _, begun := range c.calls {
		switch call := begun.(type) {
		case *get:
			c.checkWaitLocked(call)
			c.checkReleasedGetLocked(call)
		case *follower:
			c.finishFollowerLocked(call)
		}
	}
}

// Violate adds a violation that the test itself has found.
func (c *Checker) Violate(rule, object, format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.violateLocked(rule, object, format, args...)
}

// expectLocked counts that a rule was decided, and adds a violation if it does not hold.
func (c *Checker) expectLocked(holds bool, rule string, o *object, format string, args ...any) {
	c.report.Decided[rule]++
	if !holds {
		c.violateLocked(rule, o.name, format, args...)
	}
}

func (c *Checker) violateLocked(rule, object, format string, args ...any) {
	c.report.Count++
	if len(c.report.Violations) < maxViolations {
		c.report.Violations = append(c.report.Violations, Violation{rule, c.report.Events, c.now, object, fmt.Sprintf(format, args...)})
	}
}

// Add checks the next event. If it is a state that was read, Add returns whether that is the newest that was written.
func (c *Checker) Add(e Event) (newest bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.report.Events++
	c.now = e.Time
	switch e.Op {
	case Run:
		if c.report.Events > 1 {
			c.violateLocked("", e.Object, "the history has another begin: it is two histories")
			break
		}
		c.writes = e.Writes
	case BeginWrite, EndWrite, Written, Snapshotted, RolledBack:
		c.addWriteLocked(e)
	case BeginReference, EndReference, BeginRelease, EndRelease:
		c.addReferenceLocked(e)
	case BeginGet, EndGet, BeginRange, Yielded, EndRange:
		return c.addReadLocked(e)
	case Requested, Responded, StreamOpened, StreamClosed, Foreign, Dialed:
		c.addRequestLocked(e)
	case FaultBegan, FaultEnded:
		c.addFaultLocked(e)
	default:
		c.violateLocked("", e.Object, "unknown event %q", e.Op)
	}
	return false
}

// objectLocked returns the history of an object, and begins it if it is new.
func (c *Checker) objectLocked(name string) *object {
	o := c.objects[name]
	if o == nil {
		o = &object{name: name, entries: make([]entry, 1, kept)}
		o.entries[0].deleted = true
		c.objects[name] = o
	}
	return o
}

// begunLocked ends a call, and returns what its begin has left. It returns false if there was no such begin.
func begunLocked[T any](c *Checker, e Event) (begun T, ok bool) {
	begun, ok = c.calls[e.Call].(T)
	if !ok {
		c.violateLocked("", e.Object, "event %q of call %d has no begin", e.Op, e.Call)
		return begun, false
	}
	delete(c.calls, e.Call)
	return begun, true
}

// timeOfDay is the layout of times in violations.
const timeOfDay = "15:04:05.000"

// windowLength is that of a window.
const windowLength = 10 * time.Second

// window counts events in the last ten seconds, in slices of a second.
type window struct {
	counts [int(windowLength / time.Second)]int
	second int64 // of the newest slice
}

// slice returns the index of the slice of a second, which is negative before 1970.
func slice(second int64) int64 {
	const length = int64(len(window{}.counts))
	return (second%length + length) % length
}

// add counts an event, and returns how many there were in the window.
func (w *window) add(now time.Time) (count int) {
	w.turn(now)
	w.counts[slice(now.Unix())]++
	return w.count(now)
}

// turn forgets what is no longer in the window.
func (w *window) turn(now time.Time) {
	second := now.Unix()
	length := int64(len(w.counts))
	for passed := max(w.second+1, second-length+1); passed <= second; passed++ {
		w.counts[slice(passed)] = 0
	}
	w.second = max(w.second, second)
}

// count returns how many events there are in the window.
func (w *window) count(now time.Time) (count int) {
	w.turn(now)
	for _, n := range w.counts {
		count += n
	}
	return count
}
