// SPDX-License-Identifier: Apache-2.0

package reflector

import (
	"time"

	"k8s.io/klog/v2"

	"github.com/refwatch/refwatch/internal/reflector/internal/course"
	"github.com/refwatch/refwatch/internal/reflector/internal/failure"
	"github.com/refwatch/refwatch/internal/reflector/internal/moment"
)

// failures are the attempts that have failed.
type failures struct {
	inRow        int // since the last complete read
	lastError    error
	failedAt     moment.Moment // when that was
	refusedSince moment.Moment // since when all were refused; 0 if the last answer was no refusal
	polls        bool          // the last one was of the watch after a list
	malformed    uint64        // of all
	lastClass    failure.Class // of the last one, None if all is well
	notable      failure.Class // of the last one that is a line of the log; None if all is well
	loggedSince  moment.Moment // when the first line at level 0 was logged whose end was not; 0 if there is none
}

// forget forgets those for which the next attempt does not wait.
func (f *failures) forget() {
	if f != nil {
		f.inRow, f.refusedSince, f.lastClass = 0, 0, failure.None
	}
}

// class returns that of the last failure, None if all is well.
func (f *failures) class() failure.Class {
	if f == nil {
		return failure.None
	}
	return f.lastClass
}

// failed records the end of a session that has failed. It reports whether the log should say so: the class of the
// failure is another one than before, and the end is not harmless.
func (p *progress) failed(end course.End) (notable bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	class := end.Failure.Class
	p.consistent = p.consistent || class.NeedsConsistentRead()
	if p.failures == nil {
		p.failures = &failures{}
	}
	if p.failures.polls && !end.Polled {
		p.failures.refusedSince = 0 // only watches were refused
	}
	p.failures.polls = end.Polled
	p.failures.add(end.Failure)
	if end.IsHarmless() {
		return false
	}
	notable = p.failures.notable != class
	p.failures.notable = class
	return notable
}

// failureLogged records that a failure was logged at level 0.
func (p *progress) failureLogged() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.failures.loggedSince == 0 {
		p.failures.loggedSince = moment.Now()
	}
}

// recovered is called when nothing fails any more, or nothing is tried any more. It returns since when the log says
// that the object cannot be read, 0 if it does not.
func (p *progress) recovered(gone bool) (since moment.Moment) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f := p.failures
	if f == nil || f.inRow > 0 && !gone {
		return 0
	}
	since, f.loggedSince, f.notable = f.loggedSince, 0, failure.None
	return since
}

func (f *failures) add(failed failure.Failure) {
	f.inRow++
	f.lastError, f.lastClass, f.failedAt = failed.Err, failed.Class, moment.Now()
	switch {
	case !failed.Class.IsRefusal():
		f.refusedSince = 0
	case f.refusedSince == 0:
		f.refusedSince = f.failedAt
	}
	if failed.Class == failure.Malformed {
		f.malformed++
	}
}

// record records and logs the end of a session that another one follows.
func (r *Reflector) record(end course.End) {
	logger := klog.FromContext(r.ctx)
	if end.Failure.Err == nil {
		logger.V(4).Info("Stream ended, opening it again", "reflector", r.String(), "reason", openReasons[r.reason])
		return
	}
	if notable := r.progress.failed(end); r.gate.logFailure(r.ctx, r.String(), end.Failure, notable, r.explain) {
		r.progress.failureLogged()
	}
	r.changed()
}

// logRecovery logs the end of what logFailure has logged at level 0, if it has. gone says that nothing is tried any
// more.
func (r *Reflector) logRecovery(gone bool) {
	since := r.progress.recovered(gone)
	if since == 0 {
		return
	}
	logger := klog.FromContext(r.ctx).WithValues("reflector", r.String(), "lasted", since.Since().Round(time.Millisecond))
	if gone {
		logger.Info("The object is not read any more")
	} else {
		logger.Info("The object can be read again")
	}
}
